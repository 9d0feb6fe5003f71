use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::super::{Delivery, Position};
use super::{AckGroup, Tail};
use crate::call::Call;
use crate::capability::{AckGroups, Read, Taken};
use crate::codec::Decode;
use crate::declaration::StreamSpec;
use crate::error::{Error, ErrorKind, Operation};

/// A claim may ask for so long an idle time.
const LONGEST_IDLE: Duration = Duration::from_hours(10 * 365 * 24);

/// One consumer of an ack group, by name. Clones are the same consumer.
pub struct Consumer<T: StreamSpec, B: AckGroups> {
    pub(crate) group: AckGroup<T, B>,
    pub(crate) name: Arc<str>,
}

/// Entries that a consumer took over or had pending.
#[derive(Debug)]
#[non_exhaustive]
pub struct Claimed<T: StreamSpec> {
    /// The deliveries, in order within a partition.
    pub deliveries: Vec<Delivery<T>>,
    /// Entries that were removed from the stream, by trimming or deletion, while they were pending. They are gone, and
    /// pending no longer.
    pub lost: Vec<Position>,
}

impl<T: StreamSpec, B: AckGroups> Consumer<T, B> {
    pub(super) fn new(group: &AckGroup<T, B>, name: &str) -> Result<Self, Error> {
        group.check_consumer(name)?;
        Ok(Self { group: group.clone(), name: name.into() })
    }

    /// Returns the consumer's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the group.
    #[must_use]
    pub fn group(&self) -> &AckGroup<T, B> {
        &self.group
    }

    /// Reads at most `max` entries that no consumer of the group has had, waiting up to `wait` for the first.
    ///
    /// They stay pending for this consumer until they are acknowledged. An entry that can't be decoded comes in its
    /// place.
    ///
    /// # Errors
    ///
    /// `Trimmed` where entries were removed before the group had them, with the first position left: one consumer is told,
    /// once, and the next call goes on there. `Absent` where group or stream isn't there; `Invalid` (`max` outside 1 to `read_records`), `Timeout`, `Unavailable`,
    /// `Refused`, `Forbidden`, `Overloaded`, `Closed`. With an unknown outcome entries may have become pending without
    /// having been seen: the [history](Self::history) has them.
    ///
    /// # Cancel safety
    ///
    /// What it was being handed stays pending. The backend gives it back for any consumer to claim where it can; otherwise
    /// it is in the [history](Self::history), or claimed once it is idle.
    pub fn read(&self, max: usize, wait: Duration) -> Call<'_, Vec<Delivery<T>>>
    where
        T: Send,
        T::Codec: Decode<T>,
    {
        Call::new(async move {
            let _place = self.group.stream.place(Operation::Consume).await?;
            self.read_unplaced(max, wait).await
        })
    }

    /// Reads without a place among the broker's operations.
    pub(super) async fn read_unplaced(&self, max: usize, wait: Duration) -> Result<Vec<Delivery<T>>, Error>
    where
        T::Codec: Decode<T>,
    {
        let stream = &self.group.stream;
        stream.within_page(max, Operation::Consume)?;
        let reading = B::read_new(stream.client(), &self.group.bound.address, &self.name, max, wait);
        match stream.observe(Operation::Consume, reading).await? {
            Read::Records(records) => Ok(records.into_iter().map(Delivery::decode).collect()),
            Read::Trimmed { first, certain } => Err(stream.trimmed(Operation::Consume, first, certain)),
        }
    }

    /// Reads at most `max` of this consumer's own pending entries, after a position in the order of partition and offset.
    ///
    /// It redelivers them, so their attempt rises by one and their clock starts anew. To get all of them, go on after the
    /// last of a page until one is empty.
    ///
    /// # Errors
    ///
    /// As [`read`](Self::read).
    pub fn history(&self, after: Option<Position>, max: usize) -> Call<'_, Claimed<T>>
    where
        T: Send,
        T::Codec: Decode<T>,
    {
        let stream = &self.group.stream;
        Call::new(async move {
            stream.within_page(max, Operation::Consume)?;
            let reading = B::history(stream.client(), &self.group.bound.address, &self.name, after, max);
            stream.operate(Operation::Consume, reading).await.map(claimed)
        })
    }

    /// Takes over at most `max` entries of any consumer that have been idle at least so long, the oldest first.
    ///
    /// Their attempt rises by one, and their clock starts anew. Repeated calls get to all of them.
    ///
    /// # Errors
    ///
    /// As [`read`](Self::read).
    pub fn claim(&self, idle: Duration, max: usize) -> Call<'_, Claimed<T>>
    where
        T: Send,
        T::Codec: Decode<T>,
    {
        let stream = &self.group.stream;
        Call::new(async move {
            stream.within_page(max, Operation::Consume)?;
            if idle > LONGEST_IDLE {
                let detail = format!("idle for {idle:?}; give at most 10 years");
                return Err(stream.error(ErrorKind::Invalid, Operation::Consume).detail(detail));
            }
            let claiming = B::claim(stream.client(), &self.group.bound.address, &self.name, idle, max);
            stream.operate(Operation::Consume, claiming).await.map(claimed)
        })
    }

    /// Acknowledges deliveries, and returns how many of them were pending. What many callers acknowledge at once goes out
    /// together, and each is told its own count.
    ///
    /// Redis doesn't fence it: what another consumer has claimed meanwhile is settled for it too, and its own
    /// acknowledgement then counts 0.
    ///
    /// # Errors
    ///
    /// `Absent` where group or stream isn't there; `Invalid` (more than `batch_messages`), `Timeout`, `Unavailable`,
    /// `Refused`, `Forbidden`, `Overloaded`, `Closed`. With an unknown outcome repeat it: a second one settles nothing
    /// else.
    ///
    /// # Cancel safety
    ///
    /// Dropped before it is ready, it may or may not be recorded. What isn't acknowledged is delivered again.
    pub fn ack(&self, positions: impl IntoIterator<Item = Position>) -> Call<'_, u64> {
        self.group.ack(positions)
    }

    /// Starts the clock anew of those deliveries that are still this consumer's, so that nobody claims them for another
    /// idle time, and returns them. It doesn't count as a delivery.
    ///
    /// # Errors
    ///
    /// As [`ack`](Self::ack).
    pub fn extend(&self, positions: impl IntoIterator<Item = Position>) -> Call<'_, Vec<Position>> {
        let stream = &self.group.stream;
        let positions: Vec<Position> = positions.into_iter().collect();
        Call::new(async move {
            let extending = B::extend(stream.client(), &self.group.bound.address, &self.name, &positions);
            stream.operate(Operation::Settle, extending).await
        })
    }

    /// Gives back those deliveries that are still this consumer's: any consumer can claim them at once, and the delivery
    /// doesn't count as an attempt.
    ///
    /// # Errors
    ///
    /// As [`ack`](Self::ack).
    pub fn release(&self, positions: impl IntoIterator<Item = Position>) -> Call<'_, ()> {
        let stream = &self.group.stream;
        let positions: Vec<Position> = positions.into_iter().collect();
        Call::new(async move {
            let releasing = B::release(stream.client(), &self.group.bound.address, &self.name, &positions);
            stream.operate(Operation::Settle, releasing).await
        })
    }

    /// Follows the group for ever: new entries as they come, after this consumer's own pending ones where `pending_first`
    /// is set.
    #[must_use]
    pub fn tail(&self, pending_first: bool) -> Tail<T, B> {
        Tail::new(self.clone(), pending_first)
    }
}

pub(crate) fn claimed<T: StreamSpec>(taken: Taken) -> Claimed<T>
where
    T::Codec: Decode<T>,
{
    Claimed { deliveries: taken.records.into_iter().map(Delivery::decode).collect(), lost: taken.lost }
}

impl<T: StreamSpec, B: AckGroups> Clone for Consumer<T, B> {
    fn clone(&self) -> Self {
        Self { group: self.group.clone(), name: self.name.clone() }
    }
}

impl<T: StreamSpec, B: AckGroups> fmt::Debug for Consumer<T, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Consumer").field("group", &self.group).field("name", &self.name).finish()
    }
}
