//! The connections of one broker to a cluster's nodes.

use std::collections::HashMap;
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};

use super::super::fault::{Code, Fault};
use super::super::link::Link;
use super::super::pipeline::{Pipeline, Publish};
use super::super::settings::Settings;
use super::super::streams::{self, Nodes, Waiting};
use super::super::subscriber::{RedisSubscription, Route, Subscriber, Words};
use super::super::url::Endpoint;
use super::slots::{self, Slots, redirection, slot};
use crate::broker::lock;
use crate::capability::{Feed, Host, Outgoing};
use crate::error::{ErrorKind, Outcome};

const PUBLISH: &str = "SPUBLISH";
const WORDS: Words = Words { subscribe: "SSUBSCRIBE", unsubscribe: "SUNSUBSCRIBE" };

/// What a publish is answered with, or why it isn't.
type Reply = Result<u64, Fault>;

/// The connections of one broker to a cluster's nodes, each opened when it is needed.
pub struct RedisClusterClient {
    pub(super) host: Host,
    pub(super) settings: Arc<Settings>,
    pub(super) seeds: Arc<[Endpoint]>,
    map: Arc<Mutex<Map>>,
    waiting: Waiting,
}

/// Tells how asking for the slots has ended.
type Asked = watch::Receiver<Option<Result<(), Fault>>>;

#[derive(Default)]
struct Map {
    slots: Slots,
    /// The slots are in use while this is so.
    known: bool,
    /// Someone asks for the slots.
    asking: Option<Asked>,
    /// Where in the list of those who can be asked the next question begins.
    first: usize,
    closed: bool,
    nodes: HashMap<Endpoint, Arc<Node>>,
}

struct Node {
    endpoint: Endpoint,
    publisher: Pipeline<u64>,
    subscriber: Subscriber,
    streams: Arc<streams::Node>,
}

impl RedisClusterClient {
    pub(super) fn new(host: Host, settings: Arc<Settings>, seeds: Vec<Endpoint>) -> Self {
        let waiting = Waiting::new(&host);
        Self { host, settings, seeds: seeds.into(), map: Arc::default(), waiting }
    }

    pub(super) async fn publish(&self, message: &Outgoing) -> Reply {
        let doubt = Doubt::new(self);
        let reply = self.send(message).await;
        doubt.dispel();
        reply
    }

    async fn send(&self, message: &Outgoing) -> Reply {
        let deadline = self.deadline();
        let slot = slot(&message.channel);
        let (node, reply) = if let Some(node) = self.known_owner(slot)? {
            // This one keeps the time itself.
            let reply = node.publisher.call(&Publish(PUBLISH, message)).await;
            (node, reply)
        } else {
            let node = by(deadline, Outcome::NotApplied, self.owner(slot)).await?;
            let reply = by(deadline, Outcome::Unknown, node.publisher.call(&Publish(PUBLISH, message))).await;
            (node, reply)
        };
        self.follow(reply, &node, message, deadline).await
    }

    /// Sends what was refused for its slot to the node that was named, once.
    async fn follow(&self, reply: Reply, node: &Node, message: &Outgoing, deadline: Instant) -> Reply {
        let Err(fault) = &reply else { return reply };
        self.learn(fault);
        let Some((_, named)) = &fault.moved else { return reply };
        let owner = self.node(&redirection(named, node.host())?)?;
        let reply = by(deadline, Outcome::Unknown, owner.publisher.call(&Publish(PUBLISH, message))).await;
        if let Err(fault) = &reply {
            self.learn(fault);
        }
        reply
    }

    pub(super) async fn publish_all(&self, messages: &[Outgoing]) -> Vec<Reply> {
        let doubt = Doubt::new(self);
        let deadline = self.deadline();
        let mut replies: Vec<Option<Reply>> = vec![None; messages.len()];
        let mut groups: Vec<(Arc<Node>, Vec<usize>)> = Vec::new();
        let known = lock(&self.map).known;
        let mut failed: Option<Fault> = None;
        for (index, message) in messages.iter().enumerate() {
            let slot = slot(&message.channel);
            let owner = match &failed {
                None => by(deadline, Outcome::NotApplied, self.owner(slot)).await,
                // The cluster has been asked in vain; once is enough for a batch.
                Some(fault) => self.known_owner(slot).and_then(|owner| owner.ok_or_else(|| fault.clone())),
            };
            match owner {
                Err(fault) => {
                    replies[index] = Some(Err(fault.clone()));
                    failed.get_or_insert(fault);
                }
                Ok(node) => match groups.iter_mut().find(|(owner, _)| Arc::ptr_eq(owner, &node)) {
                    Some((_, indices)) => indices.push(index),
                    None => groups.push((node, vec![index])),
                },
            }
        }
        let sending = groups.iter().map(async |(node, indices)| {
            let publishing = node.publisher.call_all(indices.iter().map(|index| Publish(PUBLISH, &messages[*index])));
            if known {
                // This one keeps the time itself.
                return publishing.await;
            }
            let late = || vec![Err(Fault::timeout(Outcome::Unknown)); indices.len()];
            timeout_at(deadline, publishing).await.unwrap_or_else(|_| late())
        });
        for ((node, indices), group) in groups.iter().zip(streams::join(sending).await) {
            for (index, reply) in indices.iter().zip(group) {
                replies[*index] = Some(self.follow(reply, node, &messages[*index], deadline).await);
            }
        }
        doubt.dispel();
        replies.into_iter().flatten().collect()
    }

    /// Subscribes to all channels, each on its slot's owner.
    pub(super) async fn subscribe(
        &self,
        channels: Vec<Arc<str>>,
        feed: &Feed,
    ) -> Result<Vec<RedisSubscription>, Fault> {
        let doubt = Doubt::new(self);
        let subscribed = self.subscribe_on_owners(channels, feed).await;
        doubt.dispel();
        subscribed
    }

    async fn subscribe_on_owners(&self, channels: Vec<Arc<str>>, feed: &Feed) -> Result<Vec<RedisSubscription>, Fault> {
        let mut held = Vec::new();
        let mut wanted = channels;
        // The second time is for those whose slot has moved since the slots were asked for.
        for last in [false, true] {
            let mut moved = Vec::new();
            for (node, channels) in self.by_owner(std::mem::take(&mut wanted)).await? {
                let routes = channels.iter().cloned().map(Route::Channel).collect();
                match node.subscriber.subscribe(routes, feed.clone()).await {
                    Ok(subscription) => held.push(subscription),
                    Err(fault) => {
                        self.learn(&fault);
                        if fault.moved.is_none() || last {
                            return Err(fault);
                        }
                        moved.extend(channels);
                    }
                }
            }
            if moved.is_empty() {
                break;
            }
            wanted = moved;
        }
        Ok(held)
    }

    async fn by_owner(&self, channels: Vec<Arc<str>>) -> Result<Vec<(Arc<Node>, Vec<Arc<str>>)>, Fault> {
        let mut groups: Vec<(Arc<Node>, Vec<Arc<str>>)> = Vec::new();
        for channel in channels {
            let node = self.owner(slot(&channel)).await?;
            match groups.iter_mut().find(|(owner, _)| Arc::ptr_eq(owner, &node)) {
                Some((_, channels)) => channels.push(channel),
                None => groups.push((node, vec![channel])),
            }
        }
        Ok(groups)
    }

    fn deadline(&self) -> Instant {
        Instant::now() + self.host.limits().timeout
    }

    /// Where a failure means that the slots may have other owners, they are asked for before the next use.
    fn learn(&self, fault: &Fault) {
        let down = fault.code == Some(Code::ClusterDown);
        if fault.moved.is_some()
            || fault.unfit
            || down
            || matches!(fault.kind, ErrorKind::Unavailable | ErrorKind::Timeout)
        {
            self.doubt();
        }
    }

    fn doubt(&self) {
        lock(&self.map).known = false;
    }

    /// The slot's owner, if it is known.
    fn known_owner(&self, slot: u16) -> Result<Option<Arc<Node>>, Fault> {
        if lock(&self.map).known { self.last_owner(slot) } else { Ok(None) }
    }

    /// The slot's owner by the last answer, if it had one.
    fn last_owner(&self, slot: u16) -> Result<Option<Arc<Node>>, Fault> {
        let map = lock(&self.map);
        if map.closed {
            return Err(Fault::closed(Outcome::NotApplied));
        }
        let Some(owner) = map.slots.owner(slot) else { return Ok(None) };
        if let Some(node) = map.nodes.get(owner) {
            return Ok(Some(node.clone()));
        }
        let owner = owner.clone();
        drop(map);
        self.node(&owner).map(Some)
    }

    /// The slot's owner. Asks the cluster when that isn't known.
    async fn owner(&self, slot: u16) -> Result<Arc<Node>, Fault> {
        if let Some(node) = self.known_owner(slot)? {
            return Ok(node);
        }
        let mut asked = self.ask();
        let answer = asked.wait_for(Option::is_some).await.ok().and_then(|answer| answer.clone());
        answer.unwrap_or_else(|| Err(Fault::unreachable("the task that asks for the slots ended")))?;
        // Others may doubt it meanwhile, but it is the latest answer there is.
        self.last_owner(slot)?.ok_or_else(slots::uncovered)
    }

    /// Has a task ask for the slots, unless one does. A caller may be left alone for long, with everyone else waiting.
    fn ask(&self) -> Asked {
        let mut map = lock(&self.map);
        // One whose task has ended without a word tells nothing any more.
        if let Some(asked) = map.asking.as_ref().filter(|asked| asked.has_changed().is_ok()) {
            return asked.clone();
        }
        let (tell, asked) = watch::channel(None);
        map.asking = Some(asked.clone());
        drop(map);
        let question = Question {
            host: self.host.clone(),
            settings: self.settings.clone(),
            seeds: self.seeds.clone(),
            map: self.map.clone(),
        };
        self.host.spawn("redis cluster", async move {
            let answer = question.answer().await;
            lock(&question.map).asking = None;
            tell.send_replace(Some(answer));
        });
        asked
    }

    /// Finds or makes a node's connections.
    fn node(&self, endpoint: &Endpoint) -> Result<Arc<Node>, Fault> {
        let mut map = lock(&self.map);
        if map.closed {
            return Err(Fault::closed(Outcome::NotApplied));
        }
        let made = || {
            let (host, settings) = (self.host.clone(), self.settings.clone());
            Arc::new(Node {
                endpoint: endpoint.clone(),
                publisher: Pipeline::new(host.clone(), settings.clone(), endpoint.clone(), "redis publisher"),
                streams: Arc::new(streams::Node::new(&host, &settings, endpoint)),
                subscriber: Subscriber::new(host, settings, endpoint.clone(), WORDS),
            })
        };
        Ok(map.nodes.entry(endpoint.clone()).or_insert_with(made).clone())
    }

    pub(super) fn close(&self) {
        let mut map = lock(&self.map);
        map.closed = true;
        let nodes = std::mem::take(&mut map.nodes);
        drop(map);
        for node in nodes.values() {
            node.publisher.close();
            node.subscriber.close();
            node.streams.close();
        }
    }
}

/// Who has which slots, asked of one node after another.
struct Question {
    host: Host,
    settings: Arc<Settings>,
    seeds: Arc<[Endpoint]>,
    map: Arc<Mutex<Map>>,
}

impl Question {
    async fn answer(&self) -> Result<(), Fault> {
        let (mut closing, mut asking) = (pin!(self.host.closing()), pin!(self.ask()));
        std::future::poll_fn(|cx| {
            if closing.as_mut().poll(cx).is_ready() {
                return Poll::Ready(Err(Fault::closed(Outcome::NotApplied)));
            }
            asking.as_mut().poll(cx)
        })
        .await
    }

    async fn ask(&self) -> Result<(), Fault> {
        let mut candidates: Vec<Endpoint> = Vec::new();
        let first = {
            let map = lock(&self.map);
            for endpoint in map.slots.nodes().chain(&*self.seeds) {
                if !candidates.contains(endpoint) {
                    candidates.push(endpoint.clone());
                }
            }
            map.first
        };
        let mut failed = Fault::unreachable("the cluster has no node");
        let timeout = self.host.limits().timeout;
        let deadline = Instant::now() + timeout;
        for turn in 0..candidates.len() {
            let index = (first + turn) % candidates.len();
            // Where this is late for those who wait, the next question begins with the next node.
            lock(&self.map).first = index + 1;
            // One that stands still leaves time for the others, and the last has all that is left.
            let left = deadline.saturating_duration_since(Instant::now());
            let unasked = u32::try_from(candidates.len() - turn).unwrap_or(u32::MAX);
            let share = (left / unasked).max(timeout / 4);
            match by(Instant::now() + share, Outcome::NotApplied, self.ask_node(&candidates[index], share)).await {
                Ok(slots) => {
                    let mut map = lock(&self.map);
                    map.first = index;
                    map.nodes.retain(|node, held| slots.nodes().any(|it| it == node) || held.subscriber.is_open());
                    map.slots = slots;
                    map.known = true;
                    return Ok(());
                }
                Err(fault) => failed = fault,
            }
        }
        Err(failed)
    }

    async fn ask_node(&self, endpoint: &Endpoint, share: Duration) -> Result<Slots, Fault> {
        let mut link = Link::connect(&self.settings, endpoint, share).await?;
        match link.ask(&["CLUSTER", "SLOTS"]).await {
            Ok(answer) => Slots::read(&answer, host(endpoint)),
            Err(fault) => Err(fault),
        }
    }
}

impl Drop for RedisClusterClient {
    fn drop(&mut self) {
        self.close();
    }
}

impl Nodes for RedisClusterClient {
    const APART: bool = true;

    fn host(&self) -> &Host {
        &self.host
    }

    fn waiting(&self) -> &Waiting {
        &self.waiting
    }

    fn known(&self, slot: u16) -> Result<Option<Arc<streams::Node>>, Fault> {
        Ok(self.known_owner(slot)?.map(|node| node.streams.clone()))
    }

    async fn owner(&self, slot: u16) -> Result<Arc<streams::Node>, Fault> {
        // In a box: it is large and rare, and would be part of every operation.
        Box::pin(Self::owner(self, slot)).await.map(|node| node.streams.clone())
    }

    fn redirected(&self, fault: &Fault, from: &streams::Node) -> Option<Arc<streams::Node>> {
        self.learn(fault);
        let (_, named) = fault.moved.as_ref()?;
        let named = redirection(named, host(&from.endpoint)).ok()?;
        self.node(&named).ok().map(|node| node.streams.clone())
    }

    fn doubt(&self) {
        Self::doubt(self);
    }
}

/// Doubts the slots when an operation is dropped midway: its node may be one that stands still and has a successor.
struct Doubt<'a> {
    client: Option<&'a RedisClusterClient>,
}

impl<'a> Doubt<'a> {
    fn new(client: &'a RedisClusterClient) -> Self {
        Self { client: Some(client) }
    }

    fn dispel(mut self) {
        self.client = None;
    }
}

impl Drop for Doubt<'_> {
    fn drop(&mut self) {
        if let Some(client) = self.client {
            client.doubt();
        }
    }
}

impl Node {
    fn host(&self) -> &str {
        host(&self.endpoint)
    }
}

fn host(endpoint: &Endpoint) -> &str {
    match endpoint {
        Endpoint::Tcp(place) => &place.host,
        Endpoint::Unix(_) => "localhost",
    }
}

async fn by<T>(deadline: Instant, late: Outcome, step: impl Future<Output = Result<T, Fault>>) -> Result<T, Fault> {
    timeout_at(deadline, step).await.unwrap_or_else(|_| Err(Fault::timeout(late)))
}
