//! Subscribing: one connection for all subscriptions of a client on one node.

mod session;

use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use super::super::routes::Routes;
use super::fault::Fault;
use super::settings::Settings;
use super::url::Endpoint;
use crate::broker::lock;
use crate::capability::{Feed, Host, Unsubscribe};
use crate::error::{Cause, Outcome};

pub(super) use super::super::routes::Route;

/// The commands of channels, which differ between a server and a cluster.
#[derive(Clone, Copy, Debug)]
pub(super) struct Words {
    pub(super) subscribe: &'static str,
    pub(super) unsubscribe: &'static str,
}

/// One node's subscriptions. Dropping it ends them.
pub(super) struct Subscriber {
    host: Host,
    settings: Arc<Settings>,
    endpoint: Endpoint,
    words: Words,
    current: Mutex<Current>,
}

#[derive(Default)]
struct Current {
    session: Option<Arc<Shared>>,
    closed: bool,
}

/// One connection's routes, shared by its task and the subscriptions.
#[derive(Debug, Default)]
struct Shared {
    routes: Mutex<Routes<Fault>>,
}

impl Subscriber {
    pub(super) fn new(host: Host, settings: Arc<Settings>, endpoint: Endpoint, words: Words) -> Self {
        Self { host, settings, endpoint, words, current: Mutex::default() }
    }

    /// Subscribes to every route; returns when the server has confirmed them all.
    pub(super) async fn subscribe(&self, routes: Vec<Route>, feed: Feed) -> Result<RedisSubscription, Fault> {
        let subscription = self.register(routes, &feed)?;
        std::future::poll_fn(|cx| lock(&subscription.shared.routes).poll_ready(subscription.id, cx)).await?;
        Ok(subscription)
    }

    /// Adds the routes to the connection there is, or to a new one.
    fn register(&self, routes: Vec<Route>, feed: &Feed) -> Result<RedisSubscription, Fault> {
        let mut current = lock(&self.current);
        if current.closed {
            return Err(Fault::closed(Outcome::NotApplied));
        }
        if let Some(shared) = &current.session {
            let mut there = lock(&shared.routes);
            if there.is_open() {
                let id = there.add(routes.clone(), feed);
                let waker = there.take_waker();
                drop(there);
                if let Some(waker) = waker {
                    waker.wake();
                }
                return Ok(RedisSubscription { shared: shared.clone(), id, routes });
            }
        }
        let shared = Arc::<Shared>::default();
        let id = lock(&shared.routes).add(routes.clone(), feed);
        current.session = Some(shared.clone());
        drop(current);
        let task = session::Task {
            host: self.host.clone(),
            settings: self.settings.clone(),
            endpoint: self.endpoint.clone(),
            words: self.words,
            shared: shared.clone(),
        };
        self.host.spawn("redis subscriber", task.run());
        Ok(RedisSubscription { shared, id, routes })
    }

    /// Says whether there is a connection.
    pub(super) fn is_open(&self) -> bool {
        lock(&self.current).session.as_ref().is_some_and(|shared| lock(&shared.routes).is_open())
    }

    /// Closes the connection and ends its subscriptions.
    pub(super) fn close(&self) {
        self.end(Cause::Closed, &Fault::closed(Outcome::NotApplied));
    }

    fn end(&self, cause: Cause, fault: &Fault) {
        let mut current = lock(&self.current);
        current.closed = true;
        let session = current.session.take();
        drop(current);
        if let Some(shared) = session {
            shared.end(cause, fault);
        }
    }
}

impl Drop for Subscriber {
    fn drop(&mut self) {
        // A subscription keeps its broker, so one that is left here is on a node that has left the cluster.
        self.end(Cause::Disconnected, &Fault::unreachable("the node is no part of the cluster any more"));
    }
}

impl Shared {
    /// Ends everything; the task sees it and drops the connection.
    fn end(&self, cause: Cause, fault: &Fault) {
        let ended = lock(&self.routes).end(fault);
        ended.finish(cause, &fault.text);
    }
}

/// Holds a subscription of [`Redis`](super::Redis) or [`RedisCluster`](super::RedisCluster).
#[derive(Debug)]
pub struct RedisSubscription {
    shared: Arc<Shared>,
    id: u64,
    /// What its end is waited for, whoever let it go.
    routes: Vec<Route>,
}

impl RedisSubscription {
    /// Lets the feed go; the task unsubscribes what nobody else listens to.
    fn let_go(&self) {
        let mut routes = lock(&self.shared.routes);
        let feeds = routes.remove(self.id);
        let waker = routes.take_waker();
        drop(routes);
        drop(feeds);
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    fn poll_gone(&self, cx: &mut Context<'_>) -> Poll<()> {
        lock(&self.shared.routes).poll_gone(&self.routes, cx)
    }
}

impl Unsubscribe for RedisSubscription {
    async fn close(self) {
        self.let_go();
        std::future::poll_fn(|cx| self.poll_gone(cx)).await;
    }
}

impl Drop for RedisSubscription {
    fn drop(&mut self) {
        self.let_go();
    }
}
