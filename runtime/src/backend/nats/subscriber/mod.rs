//! Subscribing: one connection for all topics' subscriptions of a client.

mod session;

use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use super::super::routes::{Route, Routes};
use super::fault::Fault;
use super::link::Servers;
use super::settings::Settings;
use crate::broker::lock;
use crate::capability::{Feed, Host, Unsubscribe};
use crate::error::{Cause, Outcome};

/// A client's subscriptions.
pub(super) struct Subscriber {
    host: Host,
    settings: Arc<Settings>,
    servers: Arc<Servers>,
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
    pub(super) fn new(host: Host, settings: Arc<Settings>, servers: Arc<Servers>) -> Self {
        Self { host, settings, servers, current: Mutex::default() }
    }

    /// Subscribes to every route; returns when the server has confirmed them all.
    pub(super) async fn subscribe(&self, routes: Vec<Route>, feed: Feed) -> Result<NatsSubscription, Fault> {
        let subscription = self.register(routes, &feed)?;
        std::future::poll_fn(|cx| lock(&subscription.shared.routes).poll_ready(subscription.id, cx)).await?;
        Ok(subscription)
    }

    /// Adds the routes to the connection there is, or to a new one.
    fn register(&self, routes: Vec<Route>, feed: &Feed) -> Result<NatsSubscription, Fault> {
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
                return Ok(NatsSubscription { shared: shared.clone(), id, routes });
            }
        }
        let shared = Arc::<Shared>::default();
        let id = lock(&shared.routes).add(routes.clone(), feed);
        current.session = Some(shared.clone());
        drop(current);
        let task = session::Task {
            host: self.host.clone(),
            settings: self.settings.clone(),
            servers: self.servers.clone(),
            shared: shared.clone(),
        };
        self.host.spawn("nats subscriber", task.run());
        Ok(NatsSubscription { shared, id, routes })
    }

    /// Closes the connection and ends its subscriptions.
    pub(super) fn close(&self) {
        let mut current = lock(&self.current);
        current.closed = true;
        let session = current.session.take();
        drop(current);
        if let Some(shared) = session {
            shared.end(Cause::Closed, &Fault::closed(Outcome::NotApplied));
        }
    }
}

impl Drop for Subscriber {
    fn drop(&mut self) {
        self.close();
    }
}

impl Shared {
    /// Ends everything; the task sees it and drops the connection.
    fn end(&self, cause: Cause, fault: &Fault) {
        let ended = lock(&self.routes).end(fault);
        ended.finish(cause, &fault.text);
    }
}

/// Holds a subscription of [`Nats`](super::Nats).
#[derive(Debug)]
pub struct NatsSubscription {
    shared: Arc<Shared>,
    id: u64,
    /// What its end is waited for, whoever let it go.
    routes: Vec<Route>,
}

impl NatsSubscription {
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

impl Unsubscribe for NatsSubscription {
    async fn close(self) {
        self.let_go();
        std::future::poll_fn(|cx| self.poll_gone(cx)).await;
    }
}

impl Drop for NatsSubscription {
    fn drop(&mut self) {
        self.let_go();
    }
}
