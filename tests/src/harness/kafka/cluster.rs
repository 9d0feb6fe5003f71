use super::super::binary::KafkaKind;
use super::super::deadline::{eventually, eventually_in};
use super::wire::Partition;
use super::{ATTEMPTS, Failure, Kafka, KafkaOptions, START};

const BROKERS: usize = 3;

/// Three brokers, each a controller too. Topics have three replicas, of which two have to be in sync.
///
/// Brokers are named by their index, which stays the same over [`kill`](Self::kill) and [`restart`](Self::restart). One of
/// the three may be gone at a time.
#[derive(Debug)]
pub struct KafkaCluster {
    nodes: Vec<Kafka>,
}

impl KafkaCluster {
    /// Starts the brokers and returns when each knows the others to be in service.
    pub async fn start(kind: KafkaKind, options: KafkaOptions) -> Self {
        let mut taken = String::new();
        'attempts: for _ in 0..ATTEMPTS {
            let prepare = |id| Kafka::prepare("tidings-", kind, options.clone(), id);
            let mut nodes: Vec<_> = (1..=BROKERS).map(prepare).collect();
            let voters: Vec<_> = nodes.iter().map(|node| (node.id, node.ports.controller)).collect();
            for node in &mut nodes {
                node.configure(&voters).await;
                node.spawn();
            }
            for node in &mut nodes {
                match node.wait_until_ready(BROKERS).await {
                    Ok(()) => eprintln!("{}", node.describe()),
                    Err(Failure::PortTaken(words)) => {
                        taken = words;
                        continue 'attempts;
                    }
                    Err(Failure::Other(words)) => panic!("{words}"),
                }
            }
            nodes[0].prepare_groups().await;
            return Self { nodes };
        }
        panic!("found no ports in {ATTEMPTS} attempts: {taken}");
    }

    /// All brokers, killed ones among them.
    #[must_use]
    pub fn nodes(&self) -> &[Kafka] {
        &self.nodes
    }

    /// The brokers' addresses for clients, with commas between.
    #[must_use]
    pub fn addresses(&self) -> String {
        self.nodes.iter().map(Kafka::address).collect::<Vec<_>>().join(",")
    }

    /// Creates a topic with three replicas; returns when its partitions have leaders and all replicas are in sync.
    pub async fn create_topic(&mut self, name: &str, partitions: usize, settings: &[(&str, &str)]) {
        let node = self.running()[0];
        self.nodes[node].create(name, partitions, 3, settings).await;
        for partition in 0..partitions {
            self.wait_until_in_sync(name, partition).await;
        }
    }

    /// The leader of a partition; waits until all running brokers name the same running one.
    pub async fn leader_of(&mut self, topic: &str, partition: usize) -> usize {
        let running = self.running();
        let nodes = &self.nodes;
        eventually(format!("the brokers agree on the leader of partition {partition} of `{topic}`"), || async {
            let mut named = Vec::new();
            for &index in &running {
                named.push(look_at(&nodes[index], topic, partition).await?.leader);
            }
            let leader = usize::try_from(named[0] - 1).ok().filter(|leader| running.contains(leader));
            let leader = leader.filter(|_| named.iter().all(|name| *name == named[0]));
            leader.ok_or_else(|| format!("the brokers {running:?} name {named:?}"))
        })
        .await
    }

    /// Waits until all replicas of a partition are in sync.
    pub async fn wait_until_in_sync(&mut self, topic: &str, partition: usize) {
        let node = self.running()[0];
        let node = &self.nodes[node];
        eventually_in(START, format!("partition {partition} of `{topic}` is in sync"), || async {
            let seen = look_at(node, topic, partition).await?;
            (seen.in_sync.len() == seen.replicas.len()).then_some(()).ok_or_else(|| format!("{seen:?}"))
        })
        .await;
    }

    /// Kills a partition's leader, and returns the new one when the others have chosen it.
    pub async fn crash_leader_of(&mut self, topic: &str, partition: usize) -> usize {
        let leader = self.leader_of(topic, partition).await;
        self.kill(leader);
        self.leader_of(topic, partition).await
    }

    /// Kills a broker.
    pub fn kill(&mut self, node: usize) {
        self.nodes[node].kill();
    }

    /// Stops a broker in good order: it hands over what it leads first.
    pub async fn stop(&mut self, node: usize) {
        self.nodes[node].stop().await;
    }

    /// Starts a killed or stopped broker again. It may take a moment until it is [in sync](Self::wait_until_in_sync).
    pub async fn restart(&mut self, node: usize) {
        self.nodes[node].restart().await;
    }

    fn running(&mut self) -> Vec<usize> {
        let nodes = self.nodes.iter_mut().enumerate();
        let running: Vec<_> = nodes.filter_map(|(index, node)| node.is_running().then_some(index)).collect();
        assert!(!running.is_empty(), "no broker of the cluster runs");
        running
    }
}

async fn look_at(node: &Kafka, topic: &str, partition: usize) -> Result<Partition, String> {
    let number = i32::try_from(partition).expect("a topic has few partitions");
    let mut metadata = node.metadata(Some(topic)).await?;
    metadata.partitions.remove(&number).ok_or_else(|| format!("no partition {number}"))
}
