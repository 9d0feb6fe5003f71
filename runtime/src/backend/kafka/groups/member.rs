use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread::Thread;
use std::time::Duration;

use rdkafka::consumer::ConsumerGroupMetadata;
use tokio::sync::{Notify, oneshot, watch};
use tokio::time::Instant;

use super::super::client::Clients;
use super::super::fault::Fault;
use super::super::log::state;
use super::held::{AskedUnit, Commit, Held};
use super::thread::Poller;
use super::{Wire, group_id, instance_id};
use crate::broker::lock;
use crate::capability::{BackendError, Fetched, GroupAddress, GroupMember};
use crate::error::{ErrorKind, Outcome};
use crate::stream::{MemberSettings, Positions};

/// A member of a commit group of [`Kafka`](super::super::Kafka).
///
/// A thread of its own polls its consumer, from the join until the consumer has left.
pub struct KafkaMember {
    clients: Arc<Clients>,
    shared: Arc<Shared>,
}

/// What a member's callers and its thread share.
pub(in super::super) struct Shared {
    pub(in super::super) id: u64,
    pub(super) held: Mutex<Held>,
    /// Told when there may be something to take.
    pub(super) changed: Notify,
    /// The thread, which sleeps while there is nothing to do.
    pub(super) thread: OnceLock<Thread>,
    /// Whether somebody waits for the thread, which has to look between two records then.
    pub(super) urgent: AtomicBool,
    /// Whether the thread has ended.
    pub(super) gone: watch::Sender<bool>,
}

/// What a unit needs to commit for a member, which has its positions to itself until this is dropped.
pub(in super::super) struct Ticket {
    shared: Arc<Shared>,
    pub(in super::super) metadata: ConsumerGroupMetadata,
    /// What changes something.
    pub(in super::super) offsets: Vec<(u32, Wire)>,
    /// Whether it may have been committed.
    sent: bool,
}

impl KafkaMember {
    pub(super) async fn join(
        clients: &Arc<Clients>,
        group: &GroupAddress,
        settings: &MemberSettings,
    ) -> Result<Self, BackendError> {
        let id = clients.members.next();
        let (gone, _) = watch::channel(false);
        let shared = Arc::new(Shared {
            id,
            held: Mutex::default(),
            changed: Notify::new(),
            thread: OnceLock::new(),
            urgent: AtomicBool::new(false),
            gone,
        });
        let member = Self { clients: clients.clone(), shared: shared.clone() };
        let poller = Poller {
            clients: clients.clone(),
            shared: shared.clone(),
            state: state(group.stream()).clone(),
            group: group_id(group),
            instance: settings.name.as_deref().map(|name| instance_id(group, name)),
            hand_over: settings.hand_over,
        };
        clients.members.enter(&shared);
        let (tell, told) = oneshot::channel();
        clients.thread("kafka member", move || poller.run(tell)).map_err(BackendError::from)?;
        // Dropped midway, or in vain, the member leaves.
        clients
            .host
            .within(Outcome::NotApplied, async {
                let ended = || Err(Fault::unreachable("the member's thread panicked"));
                Ok(told.await.unwrap_or_else(|_| ended())?)
            })
            .await?;
        Ok(member)
    }

    fn held(&self) -> std::sync::MutexGuard<'_, Held> {
        lock(&self.shared.held)
    }
}

impl Shared {
    /// Has the thread look at what there is to do, also where it is taking records.
    pub(super) fn hurry(&self) {
        self.urgent.store(true, Ordering::Release);
        self.wake();
    }

    /// Has the thread look at what there is to do.
    pub(super) fn wake(&self) {
        if let Some(thread) = self.thread.get() {
            thread.unpark();
        }
    }

    /// Asks for what a unit needs to commit these positions; fails where one isn't the member's.
    pub(in super::super) async fn ticket(&self, positions: Positions) -> Result<Ticket, BackendError> {
        let (reply, answer) = oneshot::channel();
        lock(&self.held).ask_unit(AskedUnit { positions, reply })?;
        self.hurry();
        answer.await.unwrap_or_else(|_| Err(left()))
    }

    /// The partitions of these that aren't the member's.
    pub(in super::super) fn others(&self, positions: &Positions) -> Vec<u32> {
        lock(&self.held).split(positions).1
    }
}

fn left() -> BackendError {
    super::failed(ErrorKind::Revoked, "the member has left the group")
}

impl Ticket {
    pub(super) fn new(shared: Arc<Shared>, metadata: ConsumerGroupMetadata, offsets: Vec<(u32, Wire)>) -> Self {
        Self { shared, metadata, offsets, sent: false }
    }

    /// Says that the unit is about to be committed.
    pub(in super::super) fn sends(&mut self) {
        self.sent = true;
    }

    /// Says what became of it.
    pub(in super::super) fn settle(mut self, committed: bool) {
        self.sent = false;
        if committed {
            let mut held = lock(&self.shared.held);
            self.offsets.iter().for_each(|(partition, to)| held.committed(*partition, *to));
        }
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        let mut held = lock(&self.shared.held);
        held.unit_open = false;
        if self.sent {
            self.offsets.iter().for_each(|(partition, _)| held.doubt(*partition));
        }
        drop(held);
        self.shared.wake();
    }
}

impl GroupMember for KafkaMember {
    async fn next(&self, max: usize, wait: Duration) -> Result<Fetched, BackendError> {
        // Before anything is taken: where this is dropped nothing is lost.
        tokio::task::coop::consume_budget().await;
        let until = Instant::now().checked_add(wait);
        loop {
            let changed = self.shared.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            let (taken, hungry) = {
                let mut held = self.held();
                (held.take(max), held.is_hungry())
            };
            if hungry {
                self.shared.wake();
            }
            if let Some(taken) = taken {
                return taken;
            }
            match until {
                Some(until) => {
                    if tokio::time::timeout_at(until, changed).await.is_err() {
                        return Ok(Fetched::Records(Vec::new()));
                    }
                }
                None => changed.await,
            }
        }
    }

    async fn joined(&self) -> Result<(), BackendError> {
        let (reply, answer) = oneshot::channel();
        self.held().ask_arrival(reply)?;
        self.shared.hurry();
        answer.await.unwrap_or_else(|_| Err(left()))
    }

    async fn commit(&self, positions: &Positions) -> Result<Vec<u32>, BackendError> {
        let (id, answer) = match self.held().commit(positions)? {
            Commit::Done(others) => return Ok(others),
            Commit::Asked(id, answer) => (id, answer),
        };
        self.shared.hurry();
        let waiting = async { answer.await.unwrap_or_else(|_| Err(left())) };
        let answered = self.clients.host.within(Outcome::Unknown, waiting).await;
        match answered {
            // What wasn't sent won't be.
            Err(error) if error.outcome == Outcome::Unknown && self.held().withdraw(id) => {
                Err(BackendError { outcome: Outcome::NotApplied, ..error })
            }
            answered => answered,
        }
    }

    fn hand_over(&self, partitions: &[u32]) {
        self.held().hand_over(partitions);
        self.shared.changed.notify_one();
        self.shared.wake();
    }

    async fn rewind(&self) -> Result<(), BackendError> {
        let (reply, answer) = oneshot::channel();
        self.held().ask_rewind(reply)?;
        self.shared.hurry();
        let waiting = async { answer.await.unwrap_or_else(|_| Err(left())) };
        self.clients.host.within(Outcome::NotApplied, waiting).await
    }

    fn pause(&self, partitions: &[u32], paused: bool) {
        self.held().pause(partitions, paused);
        self.shared.changed.notify_one();
    }

    fn assigned(&self) -> Vec<u32> {
        self.held().assigned()
    }

    fn id(&self) -> u64 {
        self.shared.id
    }

    async fn leave(self) {
        let mut gone = self.shared.gone.subscribe();
        let host = self.clients.host.clone();
        drop(self);
        // The sender is gone only with the thread.
        let leaving = async {
            let _ = gone.wait_for(|gone| *gone).await;
            Ok(())
        };
        let _ = host.within(Outcome::Unknown, leaving).await;
    }
}

impl Drop for KafkaMember {
    fn drop(&mut self) {
        self.clients.members.remove(self.shared.id);
        self.held().leaving = true;
        self.shared.wake();
    }
}

impl fmt::Debug for KafkaMember {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KafkaMember").field("id", &self.shared.id).finish_non_exhaustive()
    }
}
