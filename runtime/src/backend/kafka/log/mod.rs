//! A stream as a topic: one partition is one of the topic's.

mod append;
mod manage;
mod read;
mod recent;
mod record;

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use rdkafka::types::RDKafkaErrorCode as Code;
use tokio::time::Instant;

use super::client::Clients;
use super::fault::Fault;
use crate::broker::lock;
use crate::capability::{BackendError, Host, StreamAddress, partition_of};
use crate::error::{ErrorKind, Outcome};

pub(super) use append::{append, append_all, message};
pub(super) use manage::{delete, ensure, start};
pub(super) use read::{Readers, read};
pub(super) use recent::Recent;
pub(super) use record::{Copies, Known, read as read_record};

/// The number of partitions is used for so long before it is read again.
const FRESH: Duration = Duration::from_secs(5);
/// How often it is asked again whether a change has arrived.
const AGAIN: Duration = Duration::from_millis(10);
/// Of a topic.
const MOST_NAME_BYTES: usize = 249;

/// What a client keeps of one stream.
pub(super) struct StreamState {
    pub(super) topic: Arc<str>,
    pub(super) known: Known,
    /// How many partitions there are, and when that was read.
    partitions: Mutex<Option<(u32, Instant)>>,
    turn: AtomicU32,
}

/// How many partitions a stream has.
#[derive(Clone, Copy, Debug)]
pub(super) struct Layout {
    pub(super) partitions: u32,
    /// Whether nothing was known of the stream before, so that what others know of it may be old.
    pub(super) anew: bool,
}

pub(super) fn state(stream: &StreamAddress) -> &Arc<StreamState> {
    stream.state(|| {
        Arc::new(StreamState {
            topic: stream.text().clone(),
            known: Known::new(stream.origin()),
            partitions: Mutex::default(),
            turn: AtomicU32::new(0),
        })
    })
}

impl StreamState {
    /// How many partitions there are, read from the server where that isn't known.
    pub(super) async fn layout(self: &Arc<Self>, clients: &Arc<Clients>) -> Result<Layout, Fault> {
        self.layout_of(self.held(clients, Instant::now()), clients).await
    }

    /// The same, where it was looked up what is known.
    async fn layout_of(self: &Arc<Self>, held: Held, clients: &Arc<Clients>) -> Result<Layout, Fault> {
        let anew = match held {
            Held::Fresh(partitions) => return Ok(Layout { partitions, anew: false }),
            Held::Old => false,
            Held::Nothing => true,
        };
        let state = self.clone();
        let partitions = clients.call("kafka metadata", move |clients| state.look(clients)).await?;
        Ok(Layout { partitions, anew })
    }

    /// Reads from the server how many partitions there are. To be called on a thread that may block.
    pub(super) fn look(&self, clients: &Clients) -> Result<u32, Fault> {
        let look = || partitions_of(clients, &self.topic)?.ok_or_else(Fault::absent);
        let partitions = once_heard(clients, &self.topic, look).inspect_err(|fault| self.learn(fault))?;
        clients.is_up();
        *lock(&self.partitions) = Some((partitions, Instant::now()));
        Ok(partitions)
    }

    /// What was read of late. Now and then one who asks is to read it again, since another process may have removed the
    /// stream and made it anew, and so is everyone while the cluster is out of reach.
    fn held(&self, clients: &Clients, now: Instant) -> Held {
        let mut held = lock(&self.partitions);
        let Some((partitions, since)) = held.as_mut() else { return Held::Nothing };
        if now.duration_since(*since) >= FRESH {
            *since = now;
            return Held::Old;
        }
        if clients.is_down() { Held::Old } else { Held::Fresh(*partitions) }
    }

    /// Forgets what was known where the stream turned out not to be there, since it may come back otherwise.
    pub(super) fn learn(&self, fault: &Fault) {
        if fault.kind == ErrorKind::Absent {
            self.forget();
        }
    }

    pub(super) fn forget(&self) {
        *lock(&self.partitions) = None;
    }

    /// The partition of a record with this key among so many.
    pub(super) fn partition(&self, partitions: u32, key: Option<&Bytes>) -> i32 {
        let partition = match key {
            _ if partitions <= 1 => 0,
            Some(key) => partition_of(key, partitions),
            None => self.turn.fetch_add(1, Ordering::Relaxed) % partitions,
        };
        i32::try_from(partition).unwrap_or(0)
    }

    /// A number that is another each time, so that no partition always comes first.
    fn turn(&self) -> usize {
        self.turn.fetch_add(1, Ordering::Relaxed) as usize
    }
}

enum Held {
    Fresh(u32),
    Old,
    Nothing,
}

/// Asks about a topic. Where one that was made of late isn't there, the server that answered may not have heard of it, and
/// it is asked again. To be called on a thread that may block.
fn once_heard<T>(clients: &Clients, topic: &str, ask: impl Fn() -> Result<T, Fault>) -> Result<T, Fault> {
    let until = Instant::now() + clients.patience();
    loop {
        match ask() {
            Err(fault)
                if clients.recent.is_unheard(topic, &fault) && Instant::now() + AGAIN < until && !clients.stopped() =>
            {
                std::thread::park_timeout(AGAIN);
            }
            answer => return answer,
        }
    }
}

/// How many partitions a topic has, where the server that is asked knows it. To be called on a thread that may block.
pub(super) fn partitions_of(clients: &Clients, topic: &str) -> Result<Option<u32>, Fault> {
    let metadata = clients.metadata(topic)?;
    let Some(found) = metadata.topics().iter().find(|found| found.name() == topic) else { return Ok(None) };
    match found.error().map(Code::from) {
        None | Some(Code::NoError) => Ok(Some(u32::try_from(found.partitions().len()).unwrap_or(0)).filter(|n| *n > 0)),
        Some(Code::UnknownTopicOrPartition | Code::UnknownTopic | Code::UnknownTopicId) => Ok(None),
        Some(code) => Err(Fault::of_code(code, Outcome::NotApplied)),
    }
}

/// Does a step until a point in time, or until the broker closes.
async fn by<T>(
    host: &Host,
    deadline: Instant,
    cut_short: Outcome,
    step: impl Future<Output = Result<T, Fault>>,
) -> Result<T, BackendError> {
    let left = deadline.saturating_duration_since(Instant::now());
    host.within_time(left, cut_short, async { Ok(step.await?) }).await
}

/// What an address can't be as a topic.
pub(super) fn admits(stream: &StreamAddress) -> Result<(), String> {
    let text = stream.text();
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    if text.is_empty() || text.len() > MOST_NAME_BYTES || !text.bytes().all(fits) || matches!(&**text, "." | "..") {
        return Err(format!(
            "`{text}` isn't a topic's name: 1 to {MOST_NAME_BYTES} letters, digits, `.`, `_` and `-`; give another address"
        ));
    }
    Ok(())
}
