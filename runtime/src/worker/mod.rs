//! The worker: the supervised loop over a group, with concurrency and order by key.

mod commit;
#[cfg(test)]
mod commit_tests;
mod durable;
#[cfg(test)]
mod durable_tests;
mod lanes;
mod progress;
mod queue;
mod run;
mod settings;
mod shared;
mod slot;
#[cfg(test)]
mod tests;

use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use crate::capability::{AckGroups, Backend, CommitGroups, Cursors};
use crate::declaration::StreamSpec;
use crate::error::{Error, HandlerError, Whole};
use crate::stream::{AckGroup, CommitGroup, Durable, Position};
use crate::topic::{Gap, Rounded, Stop, SupervisePolicy};

use settings::Settings;

/// A worker that is ready to run: [`AckGroup::worker`], [`CommitGroup::worker`] and [`Durable::worker`] make
/// one.
///
/// What follows is of ack groups; the other two say what differs.
///
/// # What it does
///
/// It redelivers what it had pending under its name, then reads new entries ahead, hands them to the handler, acknowledges
/// what was handled, and claims what other consumers left idle. Deliveries of one key are handled one at a time, in the
/// order in which this worker got them; without a key, each is by itself. Across workers a group keeps no order of a
/// key: its broker spreads the entries.
///
/// A delivery whose handler fails, panics or passes the [deadline](Self::deadline), or that can't be decoded, stays
/// unsettled: nothing more of its key is handled by this worker, and [`on_notice`](Self::on_notice) tells it. It isn't
/// tried again here until the worker is restarted, so retry what may pass within the handler. Another worker gets it
/// once it has been idle for [`claim_after`](Self::claim_after), and what came behind it of its key at once.
///
/// It survives the loss of its connection, group and stream: it backs off, makes the group anew where it has to, at the
/// highest position up to which everything is known to be acknowledged, and tells the [`Gap`]. A stream that is gone
/// is made anew only where this broker has [ensured](crate::Stream::ensure) it; otherwise the worker waits for it.
///
/// What was handled is acknowledged at least once: an entry comes again after a crash between the two, or where another
/// worker claimed it while this one was out of reach.
#[must_use = "a worker does nothing until `run` is awaited"]
pub struct Worker<T: StreamSpec, B: Backend, S = (), G = AckGroup<T, B>> {
    group: G,
    name: Arc<str>,
    settings: Settings,
    state: S,
    stop: Option<Stop>,
    notice: Option<Notified>,
    gap: Option<OnGap<S>>,
    /// Whether a gap callback was set for a state that was replaced.
    gap_dropped: bool,
    /// What it handles, and where from.
    of: PhantomData<fn() -> (T, B)>,
}

type Notified = Arc<dyn Fn(WorkerNotice<'_>) + Send + Sync>;
type OnGap<S> = Box<dyn Fn(Gap, S) -> Pin<Box<dyn Future<Output = Result<(), HandlerError>> + Send>> + Send + Sync>;

/// News of a worker between its deliveries.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum WorkerNotice<'a> {
    /// The group has answered, and what was pending under the worker's name is on its way. The member of a commit group has
    /// been told which partitions it has, if any.
    Ready,
    /// It was interrupted. It tries to go on.
    Interrupted {
        /// What went wrong.
        error: &'a Error,
    },
    /// An attempt to go on failed. Another follows.
    Failed {
        /// Why.
        error: &'a Error,
        /// How many have failed since the interruption.
        attempts: u32,
    },
    /// It goes on after an interruption.
    Gap(&'a Gap),
    /// A delivery failed or doesn't decode. It stays unsettled, and nothing more of its key is handled.
    Unsettled {
        /// Where it stands.
        position: Position,
        /// How often it was delivered.
        attempt: u32,
        /// Why: `Callback` with the handler's error as the source, `Panicked`, `Timeout` or `Malformed`.
        error: &'a Error,
    },
    /// A delivery of a durable failed, and comes again.
    Retrying {
        /// Where it stands.
        position: Position,
        /// How often it was delivered.
        attempt: u32,
        /// After how long.
        after: Duration,
        /// Why: `Callback` with the handler's error as the source, `Panicked` or `Timeout`.
        error: &'a Error,
    },
    /// A record was handed out as often as its durable allows and never settled. It never comes again.
    Undelivered {
        /// Where it stands.
        position: Position,
    },
    /// Entries were removed from the stream, by trimming or deletion, while they were pending. They are gone.
    Lost {
        /// Where they stood.
        positions: &'a [Position],
    },
    /// Entries that had been idle were claimed, from another consumer or from this one's past, and are handled now.
    Claimed {
        /// Where they stand.
        positions: &'a [Position],
    },
    /// Entries that waited here were claimed by another consumer, which handles them.
    TakenOver {
        /// Where they stand.
        positions: &'a [Position],
    },
    /// Partitions of a commit group are this worker's now.
    Assigned {
        /// Which.
        partitions: &'a [u32],
    },
    /// Partitions of a commit group aren't this worker's any longer: another member gets them, or the membership was lost.
    Revoked {
        /// Which.
        partitions: &'a [u32],
    },
    /// Records were removed from the stream before group or durable could hand them out. They are gone.
    Trimmed {
        /// After which the worker would have gone on; `None` before the first, and of an ack group, which doesn't tell.
        after: Option<Position>,
        /// The first that is left, where it goes on.
        first: Position,
        /// Whether that is so for sure, or only may be.
        certain: bool,
    },
    /// No more of a partition, or of a durable, is read until what holds it up is settled, which takes a restart where it
    /// failed.
    HeldUp {
        /// The first record that isn't handled.
        position: Position,
    },
}

impl fmt::Display for WorkerNotice<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |f: &mut fmt::Formatter<'_>, positions: &[Position]| {
            const SHOWN: usize = 8;
            for (index, position) in positions.iter().take(SHOWN).enumerate() {
                write!(f, "{}`{position}`", if index == 0 { "" } else { ", " })?;
            }
            if positions.len() > SHOWN { write!(f, " and {} more", positions.len() - SHOWN) } else { Ok(()) }
        };
        match self {
            Self::Ready => f.write_str("ready"),
            Self::Interrupted { error } => write!(f, "interrupted: {}", Whole(error)),
            Self::Failed { error, attempts } => write!(f, "attempt {attempts} failed: {}", Whole(error)),
            Self::Gap(gap) => gap.fmt(f),
            Self::Unsettled { position, attempt, error } => {
                let error = Whole(error);
                write!(f, "`{position}` stays unsettled at attempt {attempt}, and its key is paused: {error}")
            }
            Self::Retrying { position, attempt, after, error } => {
                let (after, error) = (Rounded(*after), Whole(error));
                write!(f, "`{position}` failed at attempt {attempt} and comes again after {after}: {error}")
            }
            Self::Undelivered { position } => {
                write!(f, "`{position}` was handed out as often as it may be, and was never settled")
            }
            Self::Lost { positions } => {
                f.write_str("removed from the stream while pending: ")?;
                list(f, positions)
            }
            Self::Claimed { positions } => {
                f.write_str("claimed: ")?;
                list(f, positions)
            }
            Self::TakenOver { positions } => {
                f.write_str("claimed by another consumer: ")?;
                list(f, positions)
            }
            Self::Assigned { partitions } => write!(f, "assigned: partitions {partitions:?}"),
            Self::Revoked { partitions } => write!(f, "no longer this worker's: partitions {partitions:?}"),
            Self::Trimmed { after, first, certain } => {
                f.write_str(if *certain { "removed" } else { "perhaps removed" })?;
                f.write_str(" from the stream before they were read: ")?;
                match after {
                    Some(after) => write!(f, "from after `{after}` to before `{first}`"),
                    None => write!(f, "up to before `{first}`"),
                }
            }
            Self::HeldUp { position } => {
                write!(f, "`{position}` holds up what comes after it: too many records after it wait to be settled")
            }
        }
    }
}

impl<T: StreamSpec, B: AckGroups> AckGroup<T, B> {
    /// Makes a worker, the consumer of this name. A stable name finds its own pending entries again after a restart, and
    /// keeps the number of consumers bounded; two workers at once need two names.
    ///
    /// # Examples
    ///
    /// ```
    /// # use tidings::{Broker, Config, Namespace, Start, Stop, StreamSettings, backend::Memory, stream_spec};
    /// #[stream_spec(name = "ledger.entries", version = 1, key = u64, requires(ack_groups))]
    /// #[derive(serde::Serialize, serde::Deserialize)]
    /// struct LedgerEntry { cents: i64 }
    ///
    /// # tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(async {
    /// let broker = Broker::new(Memory::new(), Config::new(Namespace::new("shop", "test")?))?;
    /// let ledger = LedgerEntry::stream(&broker)?;
    /// ledger.ensure(StreamSettings::new()).await?;
    /// let billing = ledger.ack_group("billing")?;
    /// billing.ensure(Start::Earliest).await?;
    /// ledger.append(&7, &LedgerEntry { cents: 990 }).await?;
    ///
    /// let stop = Stop::new();
    /// let worker = billing.worker("worker-1").concurrency(8).with(stop.clone()).until(&stop);
    /// worker
    ///     .run(async |delivery, stop: Stop| {
    ///         assert_eq!(delivery.into_value()?.cents, 990);
    ///         stop.stop();
    ///         Ok(())
    ///     })
    ///     .await?;
    /// assert_eq!(billing.depth().await?.pending, 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn worker(&self, name: &str) -> Worker<T, B> {
        Worker::over(self.clone(), name.into())
    }
}

impl<T: StreamSpec, B: CommitGroups> CommitGroup<T, B> {
    /// Makes a worker, a member of the group while it runs.
    ///
    /// It handles the records of its partitions, several at once and those of one key in order, and commits up to where
    /// everything of a partition is handled: never past a record that is under way or failed. What is handled beyond such
    /// a record comes again after a restart, and so does what was handled in the 50 ms between two commits when the process
    /// is killed. Where a record that failed holds a partition up for
    /// [`uncommitted`](Worker::uncommitted) records, no more of that partition are read, which is told.
    ///
    /// A partition that is to move to another member is handed over when what is under way of it is handled and
    /// committed, at the latest after [`drain`](Worker::drain).
    ///
    /// # Examples
    ///
    /// ```
    /// # use tidings::{Broker, Config, Namespace, Start, Stop, StreamSettings, backend::Memory, stream_spec};
    /// #[stream_spec(name = "shop.orders", version = 1, key = u64, requires(commit_groups))]
    /// #[derive(serde::Serialize, serde::Deserialize)]
    /// struct Order { cents: i64 }
    ///
    /// # tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(async {
    /// let broker = Broker::new(Memory::new(), Config::new(Namespace::new("shop", "test")?))?;
    /// let orders = Order::stream(&broker)?;
    /// orders.ensure(StreamSettings::new().partitions(4)).await?;
    /// let reports = orders.commit_group("reports")?;
    /// reports.ensure(Start::Earliest).await?;
    /// orders.append(&7, &Order { cents: 990 }).await?;
    ///
    /// let stop = Stop::new();
    /// let worker = reports.worker().concurrency(8).with(stop.clone()).until(&stop);
    /// worker
    ///     .run(async |delivery, stop: Stop| {
    ///         assert_eq!(delivery.into_value()?.cents, 990);
    ///         stop.stop();
    ///         Ok(())
    ///     })
    ///     .await?;
    /// assert!(reports.lag().await?.iter().all(|lag| lag.records == 0));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn worker(&self) -> Worker<T, B, (), Self> {
        Worker::over(self.clone(), "".into())
    }
}

impl<T: StreamSpec, B: Cursors> Durable<T, B> {
    /// Makes a worker over the durable, which settles each delivery by itself.
    ///
    /// It needs a durable with at least its [`concurrency`](Worker::concurrency) of
    /// [`in_flight`](crate::DurableSettings::in_flight). It takes deliveries ahead, which count as in flight, hands them to the
    /// handler, several at once and those of one key in order, and keeps all of them alive by `in_progress` for as long as
    /// it has them. What was handled is acknowledged; workers of one durable, here or elsewhere, share its deliveries.
    ///
    /// A delivery whose handler fails, panics or passes the [deadline](Worker::deadline) is refused with a delay
    /// ([`retry_after`](Worker::retry_after)) and told as `Retrying`. It may come again to another worker. Deliveries behind it
    /// of its key wait here until it is back, or for half a second longer than the delay, after which another worker has it:
    /// over several workers a durable keeps no order. A delivery that doesn't decode, or
    /// failed at the last attempt that [`max_deliver`](crate::DurableSettings::max_deliver) allows, is kept unsettled and told
    /// as `Unsettled`: nothing more of its key is handled by this worker.
    ///
    /// A stop gives back what isn't done, and each of those counts one attempt more when it comes again. So with
    /// `max_deliver` leave room for restarts; what is over it is told as `Undelivered`.
    ///
    /// # Examples
    ///
    /// ```
    /// # use tidings::{Broker, Config, DurableOwner, DurableSettings, Namespace, Stop, StreamSettings, backend::Memory, stream_spec};
    /// #[stream_spec(name = "shop.orders", version = 1, key = u64, requires(cursors))]
    /// #[derive(serde::Serialize, serde::Deserialize)]
    /// struct Order { cents: i64 }
    ///
    /// # tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(async {
    /// let broker = Broker::new(Memory::new(), Config::new(Namespace::new("shop", "test")?))?;
    /// let orders = Order::stream(&broker)?;
    /// orders.ensure(StreamSettings::new()).await?;
    /// let billing = orders.durable(&DurableOwner::module("billing")?)?;
    /// billing.ensure(DurableSettings::new().in_flight(8)).await?;
    /// orders.append(&7, &Order { cents: 990 }).await?;
    ///
    /// let stop = Stop::new();
    /// let worker = billing.worker().concurrency(8).with(stop.clone()).until(&stop);
    /// worker
    ///     .run(async |delivery, stop: Stop| {
    ///         assert_eq!(delivery.into_value()?.cents, 990);
    ///         stop.stop();
    ///         Ok(())
    ///     })
    ///     .await?;
    /// assert_eq!(billing.info().await?.in_flight, 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn worker(&self) -> Worker<T, B, (), Self> {
        Worker::over(self.clone(), "".into())
    }
}

impl<T: StreamSpec, B: Cursors, S> Worker<T, B, S, Durable<T, B>> {
    /// Sets how long a delivery that failed waits for its next attempt: `first` after the first, doubled with each, up to
    /// `most`, each time a random part between the half and all of it. Default 1 s to 1 min, 1 ms to 24 h.
    pub fn retry_after(mut self, first: Duration, most: Duration) -> Self {
        self.settings.retry_first = first;
        self.settings.retry_most = most;
        self
    }
}

impl<T: StreamSpec, B: Backend, G> Worker<T, B, (), G> {
    fn over(group: G, name: Arc<str>) -> Self {
        Self {
            group,
            name,
            settings: Settings::default(),
            state: (),
            stop: None,
            notice: None,
            gap: None,
            gap_dropped: false,
            of: PhantomData,
        }
    }
}

impl<T: StreamSpec, B: AckGroups, S> Worker<T, B, S> {
    /// Sets how long an entry must have been idle before this worker claims it from another consumer, or from its own
    /// past. Default 1 min, 30 ms to 24 h. All workers of a group should have the same: a worker keeps its own entries
    /// from being claimed by telling of them every third of this time.
    pub fn claim_after(mut self, idle: Duration) -> Self {
        self.settings.claim_after = idle;
        self
    }
}

impl<T: StreamSpec, B: CommitGroups, S> Worker<T, B, S, CommitGroup<T, B>> {
    /// Gives the member a name, under which it gets its partitions back after a restart: see
    /// [`MemberSettings::name`](crate::MemberSettings::name). Default: none.
    pub fn name(mut self, name: &str) -> Self {
        self.name = name.into();
        self
    }

    /// Sets how many records of a partition may be given and not committed, be it that they are under way or that one
    /// before them failed. Default 10,000, 1 to 1,000,000.
    pub fn uncommitted(mut self, records: usize) -> Self {
        self.settings.uncommitted = records;
        self
    }
}

impl<T: StreamSpec, B: Backend, S, G> Worker<T, B, S, G> {
    /// Sets how many handlers run at once, each in a task of its own. Default 1, 1 to 1,024.
    pub fn concurrency(mut self, handlers: usize) -> Self {
        self.settings.concurrency = handlers;
        self
    }

    /// Sets how many entries wait here for a handler. Default 256, 1 to 65,536. They are pending for this worker.
    pub fn read_ahead(mut self, records: usize) -> Self {
        self.settings.read_ahead = records;
        self
    }

    /// Sets above how many bytes of waiting entries no more are read. Default 4 MiB, 1 B to 1 GiB. A single read may pass
    /// it, by what records are larger than those before.
    pub fn read_ahead_bytes(mut self, bytes: usize) -> Self {
        self.settings.read_ahead_bytes = bytes;
        self
    }

    /// Sets how long a handler may take before it is dropped and its delivery counts as failed. Default 30 s, 1 ms to
    /// 24 h. Until then its entry is kept from being claimed.
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.settings.deadline = deadline;
        self
    }

    /// Sets how long a stop waits for the handlers under way and for their settlement. Default 30 s, 1 ms to 24 h. What
    /// isn't done by then is dropped and given back.
    pub fn drain(mut self, budget: Duration) -> Self {
        self.settings.drain = budget;
        self
    }

    /// Sets how many keys may be paused, each by a failed delivery, before the worker ends with `Overloaded`. Default 1,024,
    /// 1 to 65,536.
    pub fn paused_keys(mut self, keys: usize) -> Self {
        self.settings.paused_keys = keys;
        self
    }

    /// Sets how it waits between attempts to go on after an interruption.
    pub fn backoff(mut self, policy: SupervisePolicy) -> Self {
        self.settings.backoff = policy;
        self
    }

    /// Gives the state that each call of the handler gets a clone of. Call it before [`on_gap`](Self::on_gap), whose
    /// callback gets it too; the other way round, running it is `Invalid`.
    pub fn with<N>(self, state: N) -> Worker<T, B, N, G> {
        let Self { group, name, settings, state: _, stop, notice, gap, gap_dropped, of } = self;
        Worker { group, name, settings, state, stop, notice, gap: None, gap_dropped: gap_dropped || gap.is_some(), of }
    }

    /// Stops the worker when the token is pulled: it takes nothing new, lets the handlers under way finish, acknowledges
    /// what finished and gives back the rest.
    pub fn until(mut self, stop: &Stop) -> Self {
        self.stop = Some(stop.clone());
        self
    }

    /// Calls a function with what happens between deliveries. It should return at once.
    pub fn on_notice(mut self, notice: impl Fn(WorkerNotice<'_>) + Send + Sync + 'static) -> Self {
        self.notice = Some(Arc::new(notice));
        self
    }

    /// Awaits a callback after each interruption, before anything more is read: the place to read state again. What was
    /// read before and waits is handled meanwhile. Its error ends the worker.
    pub fn on_gap<F, GapFuture>(mut self, gap: F) -> Self
    where
        F: Fn(Gap, S) -> GapFuture + Send + Sync + 'static,
        GapFuture: Future<Output = Result<(), HandlerError>> + Send + 'static,
    {
        self.gap = Some(Box::new(move |told, state| Box::pin(gap(told, state))));
        self.gap_dropped = false;
        self
    }
}

impl<T: StreamSpec, B: Backend, S, G: fmt::Debug> fmt::Debug for Worker<T, B, S, G> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Worker")
            .field("group", &self.group)
            .field("name", &self.name)
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}
