use std::time::Duration;

use tokio::time::timeout;

use super::binary::Kind;
use super::deadline::{eventually, within};
use super::server::{RedisOptions, Server};

const PRIMARIES: usize = 3;
const SLOTS: usize = 16_384;

/// A little more than a server allows for a failover that it was told to do.
const FAILOVER_TIME: Duration = Duration::from_secs(6);

/// Whether the primaries of a [`Cluster`] have replicas.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Replicas {
    /// Three nodes. A killed one takes its slots with it until it is restarted.
    None,
    /// Six nodes. A killed primary is replaced about four seconds later.
    One,
}

/// A cluster with three primaries. At the start node `i` of 0 to 2 has the `i`-th third of the slots, and node `i + 3` is
/// its replica.
///
/// Nodes are named by their index, which stays the same over [`kill`](Self::kill) and [`restart`](Self::restart).
#[derive(Debug)]
pub struct Cluster {
    nodes: Vec<Server>,
    ids: Vec<String>,
}

/// A line of `CLUSTER NODES`.
struct Entry {
    id: String,
    flags: String,
    slots: Vec<(u16, u16)>,
}

impl Cluster {
    /// Starts the nodes, joins them and returns when every node says that the cluster is complete and every replica is
    /// in step.
    pub async fn start(kind: Kind, replicas: Replicas, options: RedisOptions) -> Self {
        let options = RedisOptions { cluster: true, ..options };
        let count = match replicas {
            Replicas::None => PRIMARIES,
            Replicas::One => 2 * PRIMARIES,
        };
        let mut cluster = Self { nodes: Vec::new(), ids: Vec::new() };
        for epoch in 1..=count {
            let node = Server::start(kind, options.clone()).await;
            // Epochs that differ from the start spare the nodes the resolution of conflicts.
            node.command(&["CLUSTER", "SET-CONFIG-EPOCH", &epoch.to_string()]).await;
            cluster.ids.push(node.command(&["CLUSTER", "MYID"]).await.text());
            cluster.nodes.push(node);
        }
        cluster.assign_slots().await;
        cluster.introduce().await;
        cluster.attach_replicas().await;
        cluster.wait_until_ok().await;
        cluster
    }

    async fn assign_slots(&self) {
        for (index, node) in self.nodes[..PRIMARIES].iter().enumerate() {
            let (first, end) = (index * SLOTS / PRIMARIES, (index + 1) * SLOTS / PRIMARIES);
            node.command(&["CLUSTER", "ADDSLOTSRANGE", &first.to_string(), &(end - 1).to_string()]).await;
        }
    }

    async fn introduce(&self) {
        for node in &self.nodes[1..] {
            let bus_port = node.bus_port().expect("a node of a cluster has a bus port");
            let (port, bus_port) = (node.port().to_string(), bus_port.to_string());
            self.nodes[0].command(&["CLUSTER", "MEET", "127.0.0.1", &port, &bus_port]).await;
        }
        for node in &self.nodes {
            eventually(format!("the node on port {} knows the others", node.port()), || async {
                let entries = entries(node).await?;
                let known = self.ids.iter().filter(|id| entries.iter().any(|entry| entry.id == **id)).count();
                (known == self.ids.len()).then_some(()).ok_or_else(|| format!("it knows {known} nodes"))
            })
            .await;
        }
    }

    async fn attach_replicas(&self) {
        for (replica, primary) in self.nodes[PRIMARIES..].iter().zip(&self.ids) {
            replica.command(&["CLUSTER", "REPLICATE", primary]).await;
        }
    }

    /// The nodes' addresses, for a client that takes several.
    #[must_use]
    pub fn urls(&self) -> Vec<String> {
        self.nodes.iter().map(Server::url).collect()
    }

    /// All nodes, killed ones among them.
    #[must_use]
    pub fn nodes(&self) -> &[Server] {
        &self.nodes
    }

    /// Kills a node.
    pub fn kill(&mut self, node: usize) {
        self.nodes[node].kill();
    }

    /// Starts a killed node again. It may come back as a replica: see [`primary_of`](Self::primary_of).
    pub async fn restart(&mut self, node: usize) {
        self.nodes[node].restart().await;
    }

    /// Waits until every running node says that the cluster is complete, and every running replica is in step.
    pub async fn wait_until_ok(&mut self) {
        for index in self.running() {
            let node = &self.nodes[index];
            eventually(format!("node {index} finds the cluster complete"), || async {
                let info = ask(node, &["CLUSTER", "INFO"]).await?;
                let replication = ask(node, &["INFO", "replication"]).await?;
                let complete = info.contains("cluster_state:ok");
                let in_step = !replication.contains("role:slave") || replication.contains("master_link_status:up");
                (complete && in_step).then_some(()).ok_or_else(|| format!("{info}\n{replication}"))
            })
            .await;
        }
    }

    /// The slot of a key, as the server counts it.
    pub async fn slot_of(&mut self, key: &str) -> u16 {
        let node = self.running()[0];
        let slot = self.nodes[node].command(&["CLUSTER", "KEYSLOT", key]).await.integer();
        u16::try_from(slot).expect("a slot is below 16,384")
    }

    /// The primary of a slot; waits until all running nodes name the same running one.
    pub async fn primary_of(&mut self, slot: u16) -> usize {
        let running = self.running();
        let (nodes, ids) = (&self.nodes, &self.ids);
        eventually(format!("the nodes agree on the primary of slot {slot}"), || async {
            let mut named = Vec::new();
            for &index in &running {
                let entries = entries(&nodes[index]).await?;
                let owner = entries.iter().find(|entry| entry.is_primary() && entry.has(slot));
                named.push(owner.and_then(|entry| ids.iter().position(|id| *id == entry.id)));
            }
            match named[0] {
                Some(primary) if running.contains(&primary) && named.iter().all(|name| *name == named[0]) => {
                    Ok(primary)
                }
                _ => Err(format!("the nodes {running:?} name {named:?}")),
            }
        })
        .await
    }

    /// A running replica of a slot's primary.
    pub async fn replica_of(&mut self, slot: u16) -> usize {
        let primary = self.primary_of(slot).await;
        let port = self.nodes[primary].port().to_string();
        for index in self.running() {
            let role = self.nodes[index].command(&["ROLE"]).await;
            if role.elements()[0].text() == "slave" && role.elements()[2].text() == port {
                return index;
            }
        }
        panic!("the primary of slot {slot}, node {primary}, has no running replica");
    }

    /// Lets a replica take over a slot's primary in good order, and returns the replica when all nodes have learnt it.
    pub async fn fail_over(&mut self, slot: u16) -> usize {
        let replica = self.replica_of(slot).await;
        let node = &self.nodes[replica];
        within(format!("node {replica} takes over slot {slot}"), async {
            // A replica gives up after five seconds without a majority, and then has to be told again.
            while ask(node, &["ROLE"]).await.is_ok_and(|role| role.starts_with("slave")) {
                node.command(&["CLUSTER", "FAILOVER"]).await;
                let _ = timeout(FAILOVER_TIME, self.has_become_primary(replica)).await;
            }
        })
        .await;
        self.wait_for_primary(slot, replica).await;
        self.wait_until_ok().await;
        replica
    }

    /// Kills a slot's primary, and returns its replica when that has taken over.
    pub async fn crash_primary_of(&mut self, slot: u16) -> usize {
        let replica = self.replica_of(slot).await;
        let primary = self.primary_of(slot).await;
        self.kill(primary);
        self.wait_for_primary(slot, replica).await;
        self.wait_until_ok().await;
        replica
    }

    /// Moves a slot with its keys to the primary `target`; returns when all nodes have learnt it.
    pub async fn move_slot(&mut self, slot: u16, target: usize) {
        let source = self.primary_of(slot).await;
        if source == target {
            return;
        }
        self.begin_move(slot, target).await;
        self.move_keys(slot, source, target).await;
        // First the two, so that no moment passes in which nobody owns the slot.
        let others = self.running().into_iter().filter(|index| ![source, target].contains(index));
        for index in [target, source].into_iter().chain(others) {
            if self.nodes[index].command(&["ROLE"]).await.elements()[0].text() == "master" {
                let command = ["CLUSTER", "SETSLOT", &slot.to_string(), "NODE", &self.ids[target]];
                self.nodes[index].command(&command).await;
            }
        }
        self.wait_for_primary(slot, target).await;
    }

    /// Begins to move a slot and leaves it there: its primary answers `ASK` for keys that it doesn't have.
    /// [`move_slot`](Self::move_slot) completes the move.
    pub async fn begin_move(&mut self, slot: u16, target: usize) {
        let source = self.primary_of(slot).await;
        let number = slot.to_string();
        self.nodes[target].command(&["CLUSTER", "SETSLOT", &number, "IMPORTING", &self.ids[source]]).await;
        self.nodes[source].command(&["CLUSTER", "SETSLOT", &number, "MIGRATING", &self.ids[target]]).await;
    }

    async fn move_keys(&self, slot: u16, source: usize, target: usize) {
        let port = self.nodes[target].port().to_string();
        loop {
            let keys = self.nodes[source].command(&["CLUSTER", "GETKEYSINSLOT", &slot.to_string(), "100"]).await;
            if keys.elements().is_empty() {
                return;
            }
            for key in keys.elements() {
                self.nodes[source].command(&["MIGRATE", "127.0.0.1", &port, &key.text(), "0", "5000"]).await;
            }
        }
    }

    async fn wait_for_primary(&mut self, slot: u16, wanted: usize) {
        let running = self.running();
        let (nodes, id) = (&self.nodes, &self.ids[wanted]);
        eventually(format!("all nodes know node {wanted} as the primary of slot {slot}"), || async {
            for &index in &running {
                let entries = entries(&nodes[index]).await?;
                if !entries.iter().any(|entry| entry.id == *id && entry.is_primary() && entry.has(slot)) {
                    return Err(format!("node {index} doesn't"));
                }
            }
            Ok(())
        })
        .await;
    }

    async fn has_become_primary(&self, node: usize) {
        eventually(format!("node {node} becomes a primary"), || async move {
            let role = ask(&self.nodes[node], &["ROLE"]).await?;
            role.starts_with("master").then_some(()).ok_or(role)
        })
        .await;
    }

    fn running(&mut self) -> Vec<usize> {
        let nodes = self.nodes.iter_mut().enumerate();
        let running: Vec<_> = nodes.filter_map(|(index, node)| node.is_running().then_some(index)).collect();
        assert!(!running.is_empty(), "no node of the cluster runs");
        running
    }
}

impl Entry {
    fn is_primary(&self) -> bool {
        // A failed primary keeps its slots in the table until a replica claims them.
        self.flags.split(',').any(|flag| flag == "master") && !self.flags.split(',').any(|flag| flag == "fail")
    }

    fn has(&self, slot: u16) -> bool {
        self.slots.iter().any(|(first, last)| (*first..=*last).contains(&slot))
    }

    /// Reads `<id> <address> <flags> <primary> <ping> <pong> <epoch> <link> <slots>...`.
    fn parse(line: &str) -> Option<Self> {
        let words: Vec<_> = line.split(' ').collect();
        let (head, slots) = words.split_at_checked(8)?;
        let slots = slots.iter().filter_map(|range| {
            // `[93-<-id]` is a slot on the move, which the plain ranges say already.
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            Some((first.parse().ok()?, last.parse().ok()?))
        });
        Some(Self { id: head[0].into(), flags: head[2].into(), slots: slots.collect() })
    }
}

async fn entries(node: &Server) -> Result<Vec<Entry>, String> {
    Ok(ask(node, &["CLUSTER", "NODES"]).await?.lines().filter_map(Entry::parse).collect())
}

async fn ask(node: &Server, command: &[&str]) -> Result<String, String> {
    match node.try_command(command).await {
        Ok(value) if !value.is_error() => Ok(value.text()),
        Ok(refusal) => Err(refusal.text()),
        Err(error) => Err(error.to_string()),
    }
}
