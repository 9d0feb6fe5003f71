use std::time::Duration;

use tokio::time::{sleep, timeout};

use super::super::binary::NatsKind;
use super::super::deadline::eventually;
use super::{ATTEMPTS, Failure, Nats, NatsOptions};

const NODES: usize = 3;
/// It takes a second or two.
const FORMING: Duration = Duration::from_secs(20);

/// Three servers with JetStream, of which one may be gone at a time.
///
/// Servers are named by their index, which stays the same over [`kill`](Self::kill) and [`restart`](Self::restart).
#[derive(Debug)]
pub struct NatsCluster {
    nodes: Vec<Nats>,
}

impl NatsCluster {
    /// Starts the servers and returns when they have chosen who leads them.
    pub async fn start(kind: NatsKind, options: NatsOptions) -> Self {
        let mut taken = String::new();
        'attempts: for _ in 0..ATTEMPTS {
            let mut nodes: Vec<_> = (0..NODES).map(|_| Nats::prepare(kind, options.clone())).collect();
            let routes: Vec<_> = nodes.iter().map(|node| node.ports.cluster).collect();
            for (index, node) in nodes.iter_mut().enumerate() {
                node.member = Some((name(index), routes.clone()));
                if let Err(Failure::PortTaken(words) | Failure::Other(words)) = node.spawn() {
                    panic!("{words}");
                }
            }
            for node in &mut nodes {
                match node.wait_until_healthy().await {
                    Ok(()) => eprintln!("{}", node.describe()),
                    Err(Failure::PortTaken(words)) => {
                        taken = words;
                        continue 'attempts;
                    }
                    Err(Failure::Other(words)) => panic!("{words}"),
                }
            }
            let cluster = Self { nodes };
            match timeout(FORMING, cluster.form()).await {
                Ok(()) => return cluster,
                // Another's server may have taken a port for a moment, which the others then don't find.
                Err(_) => "the servers don't find each other".clone_into(&mut taken),
            }
        }
        panic!("no cluster in {ATTEMPTS} attempts: {taken}");
    }

    /// All servers, killed ones among them.
    #[must_use]
    pub fn nodes(&self) -> &[Nats] {
        &self.nodes
    }

    /// The address for clients, with all servers in it.
    #[must_use]
    pub fn url(&self) -> String {
        let hosts: Vec<_> = self.nodes.iter().map(|node| format!("127.0.0.1:{}", node.port())).collect();
        format!("nats://{}", hosts.join(","))
    }

    /// Waits until the servers have a leader and know each other.
    async fn form(&self) {
        for node in &self.nodes {
            loop {
                let meta = node.try_monitor("/jsz").await.unwrap_or_default();
                let meta = &meta["meta_cluster"];
                let led = meta["leader"].as_str().is_some_and(|leader| !leader.is_empty());
                if led && meta["cluster_size"] == NODES {
                    break;
                }
                sleep(Duration::from_millis(20)).await;
            }
        }
    }

    /// The server that leads a stream's copies; waits until a running one is named.
    pub async fn leader_of(&mut self, stream: &str) -> usize {
        let running: Vec<_> =
            (0..NODES).map(|index| (index, self.nodes[index].is_running())).filter(|(_, runs)| *runs).collect();
        let nodes = &self.nodes;
        eventually(format!("`{stream}` has a leader"), || async {
            let mut seen = Vec::new();
            for (index, _) in &running {
                let answer = nodes[*index].try_monitor("/jsz?streams=1").await.map_err(|error| error.to_string())?;
                let accounts = answer["account_details"].as_array().cloned().unwrap_or_default();
                let streams = accounts.iter().filter_map(|account| account["stream_detail"].as_array()).flatten();
                for detail in streams.filter(|detail| detail["name"] == stream) {
                    let leader = detail["cluster"]["leader"].as_str().unwrap_or_default().to_owned();
                    if let Some(found) = running.iter().map(|(index, _)| *index).find(|index| name(*index) == leader) {
                        return Ok(found);
                    }
                    seen.push(leader);
                }
            }
            Err(format!("named: {seen:?}"))
        })
        .await
    }

    /// Kills a server.
    pub fn kill(&mut self, node: usize) {
        self.nodes[node].kill();
    }

    /// Stops a server where it is.
    pub async fn pause(&self, node: usize) {
        self.nodes[node].pause().await;
    }

    /// Lets a paused server go on.
    pub async fn resume(&self, node: usize) {
        self.nodes[node].resume().await;
    }

    /// Starts a killed server again.
    pub async fn restart(&mut self, node: usize) {
        self.nodes[node].restart().await;
    }
}

fn name(index: usize) -> String {
    format!("n{index}")
}
