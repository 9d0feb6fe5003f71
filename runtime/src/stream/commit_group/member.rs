use std::collections::VecDeque;
use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::task::Poll;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

use super::super::{Delivery, Position, Positions};
use super::CommitGroup;
use crate::broker::lock;
use crate::call::Call;
use crate::capability::{CommitGroups, Fetched, GroupMember};
use crate::codec::Decode;
use crate::declaration::StreamSpec;
use crate::error::{Error, ErrorKind, Operation};
use crate::telemetry;

/// A member of a commit group, from [`CommitGroup::join`].
///
/// It is a member until it [leaves](Self::leave) or is dropped, however long a record takes. What it is given is its own
/// until the next [`read`](Self::read): only there partitions are handed over to others, unless it takes longer than
/// [`MemberSettings::hand_over`](crate::MemberSettings::hand_over).
pub struct Member<T: StreamSpec, B: CommitGroups> {
    group: CommitGroup<T, B>,
    inner: B::Member,
    /// One read at a time, and none while reading goes back.
    reading: tokio::sync::Mutex<()>,
    back: Back,
    /// Up to where records were ever given.
    given: Mutex<Positions>,
    /// Rises when reading has gone back.
    rewinds: AtomicU64,
}

/// Has a read that waits make room for going back.
#[derive(Default)]
struct Back {
    wanted: AtomicUsize,
    told: Notify,
}

/// Somebody wants to go back, until it is dropped.
struct Wanted<'a>(&'a Back);

impl Back {
    fn want(&self) -> Wanted<'_> {
        self.wanted.fetch_add(1, Ordering::SeqCst);
        self.told.notify_waiters();
        Wanted(self)
    }

    async fn wanted(&self) {
        loop {
            let mut told = pin!(self.told.notified());
            told.as_mut().enable();
            if self.wanted.load(Ordering::SeqCst) > 0 {
                return;
            }
            told.await;
        }
    }
}

impl Drop for Wanted<'_> {
    fn drop(&mut self) {
        self.0.wanted.fetch_sub(1, Ordering::SeqCst);
    }
}

impl<T: StreamSpec, B: CommitGroups> Member<T, B> {
    pub(super) fn new(group: &CommitGroup<T, B>, member: B::Member) -> Self {
        let group = group.clone();
        Self {
            group,
            inner: member,
            reading: tokio::sync::Mutex::default(),
            back: Back::default(),
            given: Mutex::default(),
            rewinds: AtomicU64::new(0),
        }
    }

    /// Returns the group.
    #[must_use]
    pub fn group(&self) -> &CommitGroup<T, B> {
        &self.group
    }

    pub(crate) fn inner(&self) -> &B::Member {
        &self.inner
    }

    /// Returns the partitions that are this member's now, in order.
    #[must_use]
    pub fn assigned(&self) -> Vec<u32> {
        self.inner.assigned()
    }

    /// Reads at most `max` records of this member's partitions, waiting up to `wait` for the first.
    ///
    /// Partitions that are to move to another member are handed over here, so commit what you have handled before you read
    /// on. A record that can't be decoded comes in its place.
    ///
    /// # Errors
    ///
    /// `Trimmed` where records after the committed position were removed before they could be read, with the first
    /// position left, at which the next call goes on. `Revoked` where another member has taken this one's name; `Absent`,
    /// `Invalid` (`max` outside 1 to `read_records`), `Timeout`, `Unavailable`, `Refused`, `Forbidden`, `Overloaded`,
    /// `Closed`.
    ///
    /// # Cancel safety
    ///
    /// Dropping it loses nothing. Calls at the same time wait for each other.
    pub fn read(&self, max: usize, wait: Duration) -> Call<'_, Vec<Delivery<T>>>
    where
        T: Send,
        T::Codec: Decode<T>,
    {
        let stream = &self.group.stream;
        Call::new(async move {
            stream.within_page(max, Operation::Consume)?;
            let _place = stream.place(Operation::Consume).await?;
            Ok(self.read_unplaced(max, wait).await?.0)
        })
    }

    /// Reads without a place among the broker's operations, and says how often reading had gone back by then.
    async fn read_unplaced(&self, max: usize, wait: Duration) -> Result<(Vec<Delivery<T>>, u64), Error>
    where
        T::Codec: Decode<T>,
    {
        let stream = &self.group.stream;
        // One that can't be expressed is as good as none.
        let until = Instant::now().checked_add(wait);
        let mut reading = self.reading.lock().await;
        loop {
            let left = until.map_or(wait, |until| until.saturating_duration_since(Instant::now()));
            let (declaration, system) = (stream.declaration(), stream.broker.inner.system);
            let fetched = {
                let mut next = pin!(stream.observe(Operation::Consume, self.inner.next(max, left)));
                let mut back = pin!(self.back.wanted());
                poll_fn(|cx| match next.as_mut().poll(cx) {
                    Poll::Ready(fetched) => Poll::Ready(Some(fetched)),
                    Poll::Pending => back.as_mut().poll(cx).map(|()| None),
                })
                .await
            };
            let Some(fetched) = fetched else {
                // Who waits longest for the lock has it next.
                drop(reading);
                tokio::task::yield_now().await;
                reading = self.reading.lock().await;
                continue;
            };
            match fetched? {
                Fetched::Records(records) => {
                    lock(&self.given).extend(records.iter().map(|stored| stored.position));
                    let deliveries = records.into_iter().map(Delivery::decode).collect();
                    return Ok((deliveries, self.rewinds.load(Ordering::Relaxed)));
                }
                Fetched::Assigned(partitions) => telemetry::assigned(declaration, system, &partitions),
                // Whatever was given before was handled, or won't be.
                Fetched::Revoking(partitions) => self.inner.hand_over(&partitions),
                Fetched::Revoked(partitions) => telemetry::revoked(declaration, system, &partitions),
                Fetched::Trimmed { first, .. } => {
                    let trimmed = ErrorKind::Trimmed { certain: true };
                    return Err(stream.error(trimmed, Operation::Consume).first_left_at(first));
                }
            }
        }
    }

    /// Follows the member's partitions, record by record. It reads ahead by at most 64 records.
    pub fn tail(&self) -> MemberTail<'_, T, B> {
        MemberTail { member: self, ahead: VecDeque::new(), rewinds: self.rewinds.load(Ordering::Relaxed) }
    }

    /// Commits: acknowledges everything up to each position on its partition. Of several positions the highest of each
    /// partition counts, and one at or before what is committed changes nothing.
    ///
    /// # Errors
    ///
    /// `Revoked` with the partitions that aren't this member's, or no longer: their records come to the new owner. The
    /// others are committed. `Invalid` for a position beyond what this member was given or of a partition that the stream
    /// doesn't have; `Timeout`, `Unavailable`, `Refused`, `Forbidden`, `Overloaded`, `Closed`. With an unknown outcome
    /// repeat it.
    ///
    /// # Cancel safety
    ///
    /// Dropped before it is ready, it may or may not be recorded. What isn't committed comes again.
    pub fn commit(&self, positions: impl IntoIterator<Item = Position>) -> Call<'_, ()> {
        let stream = &self.group.stream;
        let mut highest = Positions::new();
        highest.extend(positions);
        Call::new(async move {
            if highest.is_empty() {
                return Ok(());
            }
            self.can_commit(&highest).await?;
            self.are_there(&highest).await?;
            let revoked = stream.operate(Operation::Settle, self.inner.commit(&highest)).await?;
            if revoked.is_empty() {
                return Ok(());
            }
            let named: Vec<String> = revoked.iter().map(ToString::to_string).collect();
            let others = if revoked.len() < highest.iter().count() { "; the others are committed" } else { "" };
            let detail = format!("partitions {} aren't this member's any longer{others}", named.join(", "));
            Err(stream.error(ErrorKind::Revoked, Operation::Settle).detail(detail))
        })
    }

    /// Refuses positions of partitions that are this member's but weren't read so far: they would skip records in silence.
    pub(crate) fn were_given(&self, positions: &Positions) -> Result<(), Error> {
        self.beyond(positions).iter().next().map_or(Ok(()), |beyond| Err(self.not_given(beyond)))
    }

    /// The same, but for positions that are committed anyway, which changes nothing, whoever was given them.
    async fn can_commit(&self, positions: &Positions) -> Result<(), Error> {
        let beyond = self.beyond(positions);
        if beyond.is_empty() {
            return Ok(());
        }
        let stream = &self.group.stream;
        let asking = B::committed(stream.client(), &self.group.bound.address);
        let committed = stream.operate(Operation::Settle, asking).await?;
        let is_new = |position: &Position| {
            committed.get(position.partition()).is_none_or(|committed| committed.offset() < position.offset())
        };
        beyond.iter().find(is_new).map_or(Ok(()), |beyond| Err(self.not_given(beyond)))
    }

    /// Refuses positions of partitions that the stream doesn't have, which were never anyone's.
    async fn are_there(&self, positions: &Positions) -> Result<(), Error> {
        let had = self.inner.assigned().last().copied().max(lock(&self.given).iter().map(Position::partition).max());
        let highest = positions.iter().map(Position::partition).max();
        // Partitions are numbered without a gap.
        if highest <= had {
            return Ok(());
        }
        let stream = &self.group.stream;
        let asking = B::lag(stream.client(), &self.group.bound.address);
        let count = stream.operate(Operation::Settle, asking).await?.len();
        let is_strange = |position: &Position| position.partition() as usize >= count;
        positions.iter().find(is_strange).map_or(Ok(()), |strange| {
            let detail = format!("`{strange}`: the stream has no such partition, but {count}, numbered from 0");
            Err(self.group.error(ErrorKind::Invalid, Operation::Settle).detail(detail))
        })
    }

    /// Those of this member's partitions that it was never given.
    fn beyond(&self, positions: &Positions) -> Positions {
        let assigned = self.inner.assigned();
        let given = lock(&self.given);
        let not_given = |position: &Position| {
            let given = given.get(position.partition());
            assigned.contains(&position.partition()) && given.is_none_or(|given| given.offset() < position.offset())
        };
        positions.iter().filter(not_given).collect()
    }

    fn not_given(&self, beyond: Position) -> Error {
        let detail = format!("`{beyond}` is beyond what this member was given; `reset_offsets` skips records");
        self.group.error(ErrorKind::Invalid, Operation::Settle).detail(detail)
    }

    /// Goes back to what is committed: what was given since and isn't committed comes again, also to a read that waits.
    ///
    /// # Errors
    ///
    /// `Timeout`, `Unavailable`, `Refused`, `Forbidden`, `Overloaded`, `Closed`.
    pub fn seek_to_committed(&self) -> Call<'_, ()> {
        let stream = &self.group.stream;
        Call::new(async move {
            let _wanted = self.back.want();
            let _reading = self.reading.lock().await;
            stream.operate(Operation::Consume, self.inner.rewind()).await?;
            self.rewinds.fetch_add(1, Ordering::Relaxed);
            Ok(())
        })
    }

    /// Leaves the group: its partitions go to the others at once. Nothing is committed.
    ///
    /// # Cancel safety
    ///
    /// Dropped midway, it leaves behind.
    pub async fn leave(self) {
        self.inner.leave().await;
    }
}

impl<T: StreamSpec, B: CommitGroups> fmt::Debug for Member<T, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Member").field("group", &self.group).field("assigned", &self.assigned()).finish_non_exhaustive()
    }
}

/// Follows a member's partitions, record by record: what [`Member::tail`] returns.
pub struct MemberTail<'a, T: StreamSpec, B: CommitGroups> {
    member: &'a Member<T, B>,
    ahead: VecDeque<Delivery<T>>,
    rewinds: u64,
}

/// Records of one page.
const PAGE: usize = 64;
/// It asks again after so long, since an operation without end couldn't be told from one that hangs.
const WAIT: Duration = Duration::from_secs(30);

impl<T: StreamSpec + Send + 'static, B: CommitGroups> MemberTail<'_, T, B> {
    /// Waits for the next record. Those that can't be decoded come in their place.
    ///
    /// # Errors
    ///
    /// As [`Member::read`]. The next call tries again; nothing waits between the two, so wait yourself.
    ///
    /// # Cancel safety
    ///
    /// Dropping the call loses nothing. Dropping the tail leaves what it read ahead uncommitted:
    /// [`Member::seek_to_committed`] has it come again.
    pub fn receive(&mut self) -> Call<'_, Delivery<T>>
    where
        T::Codec: Decode<T>,
    {
        Call::new(async move {
            loop {
                let rewinds = self.member.rewinds.load(Ordering::Relaxed);
                if std::mem::replace(&mut self.rewinds, rewinds) != rewinds {
                    self.ahead.clear();
                }
                if let Some(delivery) = self.ahead.pop_front() {
                    return Ok(delivery);
                }
                let page = PAGE.min(self.member.group.stream.broker.limits().read_records);
                let (read, rewinds) = self.member.read_unplaced(page, WAIT).await?;
                self.rewinds = rewinds;
                self.ahead.extend(read);
            }
        })
    }
}

impl<T: StreamSpec, B: CommitGroups> fmt::Debug for MemberTail<'_, T, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemberTail")
            .field("member", &self.member)
            .field("ahead", &self.ahead.len())
            .finish_non_exhaustive()
    }
}
