//! One node's connections for streams, each opened when it is needed, and which node has which key.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::Semaphore;

use super::super::fault::Fault;
use super::super::pipeline::{Confirm, Pipeline};
use super::super::settings::Settings;
use super::super::url::Endpoint;
use super::append::Appended;
use super::layout::millis;
use super::packed;
use super::readers::Readers;
use crate::broker::lock;
use crate::capability::Host;
use crate::error::{ErrorKind, Outcome};
use crate::stream::Durability;

/// One node's connections for streams.
pub(in super::super) struct Node {
    pub(in super::super) endpoint: Endpoint,
    host: Host,
    settings: Arc<Settings>,
    pub(super) appends: Arc<Pipeline<Appended>>,
    /// One for each durability that is asked for: what waits for others holds up its connection.
    durable: Mutex<HashMap<Durability, Arc<Pipeline<Appended>>>>,
    /// Settlements, groups and settings.
    pub(super) control: Arc<Pipeline<Bytes>>,
    /// Reads that don't wait, whose replies are long.
    pub(super) reads: Arc<Pipeline<Bytes>>,
    pub(super) readers: Readers,
}

impl Node {
    pub(in super::super) fn new(host: &Host, settings: &Arc<Settings>, endpoint: &Endpoint) -> Self {
        fn pipeline<R: super::super::pipeline::Answer>(
            host: &Host,
            settings: &Arc<Settings>,
            endpoint: &Endpoint,
            name: &'static str,
        ) -> Pipeline<R> {
            Pipeline::new(host.clone(), settings.clone(), endpoint.clone(), name)
        }
        let control = Arc::new(pipeline(host, settings, endpoint, "redis settler"));
        Self {
            appends: Arc::new(pipeline(host, settings, endpoint, "redis appender")),
            durable: Mutex::default(),
            reads: Arc::new(pipeline(host, settings, endpoint, "redis reader")),
            readers: Readers::new(host.clone(), settings.clone(), endpoint.clone(), control.clone()),
            control,
            endpoint: endpoint.clone(),
            host: host.clone(),
            settings: settings.clone(),
        }
    }

    /// The connection on which appends become as durable as this.
    pub(super) fn appends(&self, durability: Durability) -> Arc<Pipeline<Appended>> {
        if durability == Durability::Primary {
            return self.appends.clone();
        }
        let made = || {
            let pipeline =
                Pipeline::new(self.host.clone(), self.settings.clone(), self.endpoint.clone(), "redis appender");
            Arc::new(pipeline.confirmed(confirm(durability, self.host.limits().timeout)))
        };
        lock(&self.durable).entry(durability).or_insert_with(made).clone()
    }

    pub(in super::super) fn close(self: &Arc<Self>) {
        self.appends.close();
        self.reads.close();
        self.readers.close();
        lock(&self.durable).values().for_each(|pipeline| pipeline.close());
        if self.readers.is_busy() && tokio::runtime::Handle::try_current().is_ok() {
            // What the server is just handing out is given back first, over this connection.
            let node = self.clone();
            self.host.spawn("redis closer", async move {
                node.readers.ended().await;
                node.control.close();
            });
        } else {
            self.control.close();
        }
    }
}

/// Has the server say how many replicas have what was appended, or that it is on its disk.
fn confirm(durability: Durability, timeout: Duration) -> Confirm<Appended> {
    // The server's answer still comes in time.
    let patience = millis(timeout / 4 * 3).max(1).to_string();
    let too_few = if durability == Durability::Fsync {
        "the append wasn't on the server's disk within three quarters of the timeout; set `appendfsync` to `always` or \
         `everysec`, or raise the timeout"
    } else {
        "too few copies confirmed the append within three quarters of the timeout"
    };
    let (wanted, command, greeting) = match durability {
        Durability::Replicas(replicas) => {
            (u64::from(replicas), packed("WAIT", &[&replicas.to_string(), &patience]), None)
        }
        // Asked before anything is written, it says at once whether it can do that.
        _ => (1, packed("WAITAOF", &["1", "0", &patience]), Some(packed("WAITAOF", &["1", "0", "1"]))),
    };
    let check = move |reply: &Appended| match reply {
        Appended::Count(count) if *count >= wanted => Ok(()),
        Appended::Count(_) => Err(Fault::new(ErrorKind::Timeout, Outcome::Unknown, too_few)),
        _ => Err(Fault::malformed().sent()),
    };
    Confirm { greeting, command, check: Box::new(check) }
}

/// The nodes of a server or a cluster.
pub(in super::super) trait Nodes: Send + Sync + 'static {
    /// Whether partitions are apart: a command can name one alone, and ids of appends lie with theirs.
    const APART: bool;

    fn host(&self) -> &Host;

    /// How many reads may wait, and how many that don't wait may be under way beside them.
    fn waiting(&self) -> &Waiting;

    /// The node that has the slot, where that is known.
    fn known(&self, slot: u16) -> Result<Option<Arc<Node>>, Fault>;

    /// The node that has the slot.
    fn owner(&self, slot: u16) -> impl Future<Output = Result<Arc<Node>, Fault>> + Send;

    /// Learns from a failure, and returns the node to which it redirects.
    fn redirected(&self, fault: &Fault, from: &Node) -> Option<Arc<Node>>;

    /// Has the owners looked up again before the next use.
    fn doubt(&self);
}

/// How many reads a client has at once on connections of their own.
pub(in super::super) struct Waiting {
    /// Those that wait for records.
    pub(super) waiting: Arc<Semaphore>,
    /// Those that don't.
    pub(super) quick: Arc<Semaphore>,
}

impl Waiting {
    pub(in super::super) fn new(host: &Host) -> Self {
        const QUICK: usize = 16;
        let waiting = Arc::new(Semaphore::new(host.limits().subscriptions));
        Self { waiting, quick: Arc::new(Semaphore::new(QUICK)) }
    }
}

/// Has owners looked up again when it is dropped before its time: an operation that is given up may have met a node that
/// stands still and has a successor.
pub(super) struct Doubt<'a, N: Nodes> {
    nodes: Option<&'a N>,
}

impl<'a, N: Nodes> Doubt<'a, N> {
    pub(super) fn new(nodes: &'a N) -> Self {
        Self { nodes: Some(nodes) }
    }

    pub(super) fn dispel(mut self) {
        self.nodes = None;
    }
}

impl<N: Nodes> Drop for Doubt<'_, N> {
    fn drop(&mut self) {
        if let Some(nodes) = self.nodes {
            nodes.doubt();
        }
    }
}
