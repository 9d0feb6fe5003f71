//! The worker: the supervised loop over a group, with concurrency and order by key.

mod lanes;
mod queue;
mod run;
mod settings;
mod slot;
#[cfg(test)]
mod tests;

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use crate::capability::AckGroups;
use crate::declaration::StreamSpec;
use crate::error::{Error, HandlerError};
use crate::stream::{AckGroup, Position};
use crate::topic::{Gap, Stop, SupervisePolicy};

use settings::Settings;

/// A worker that is ready to run: [`AckGroup::worker`] makes one.
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
pub struct Worker<T: StreamSpec, B: AckGroups, S = ()> {
    group: AckGroup<T, B>,
    name: Arc<str>,
    settings: Settings,
    state: S,
    stop: Option<Stop>,
    notice: Option<Notified>,
    gap: Option<OnGap<S>>,
    /// Whether a gap callback was set for a state that was replaced.
    gap_dropped: bool,
}

type Notified = Arc<dyn Fn(WorkerNotice<'_>) + Send + Sync>;
type OnGap<S> = Box<dyn Fn(Gap, S) -> Pin<Box<dyn Future<Output = Result<(), HandlerError>> + Send>> + Send + Sync>;

/// News of a worker between its deliveries.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum WorkerNotice<'a> {
    /// The group is in reach, and what was pending under the worker's name is on its way.
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
            Self::Interrupted { error } => write!(f, "interrupted: {error}"),
            Self::Failed { error, attempts } => write!(f, "attempt {attempts} failed: {error}"),
            Self::Gap(gap) => gap.fmt(f),
            Self::Unsettled { position, attempt, error } => {
                write!(f, "`{position}` stays unsettled at attempt {attempt}, and its key is paused: {error}")
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
        Worker {
            group: self.clone(),
            name: name.into(),
            settings: Settings::default(),
            state: (),
            stop: None,
            notice: None,
            gap: None,
            gap_dropped: false,
        }
    }
}

impl<T: StreamSpec, B: AckGroups, S> Worker<T, B, S> {
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

    /// Sets how long an entry must have been idle before this worker claims it from another consumer, or from its own
    /// past. Default 1 min, 30 ms to 24 h. All workers of a group should have the same: a worker keeps its own entries
    /// from being claimed by telling of them every third of this time.
    pub fn claim_after(mut self, idle: Duration) -> Self {
        self.settings.claim_after = idle;
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
    pub fn with<N>(self, state: N) -> Worker<T, B, N> {
        let Self { group, name, settings, state: _, stop, notice, gap, gap_dropped } = self;
        Worker { group, name, settings, state, stop, notice, gap: None, gap_dropped: gap_dropped || gap.is_some() }
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

    /// Awaits a callback after each interruption, before anything more is delivered: the place to read state again. Its
    /// error ends the worker.
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

impl<T: StreamSpec, B: AckGroups, S> fmt::Debug for Worker<T, B, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Worker")
            .field("group", &self.group)
            .field("name", &self.name)
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}
