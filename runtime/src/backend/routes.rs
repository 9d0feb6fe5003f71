//! Who listens to what, and what the server was told of it.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;

use crate::capability::Feed;
use crate::error::Cause;

/// What a subscription listens to.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Route {
    Channel(Arc<str>),
    /// Everything below the prefix.
    Below(Arc<str>),
}

/// One connection's subscriptions. A backend's failure is an `F`.
#[derive(Debug)]
pub(super) struct Routes<F> {
    next: u64,
    channels: HashMap<Arc<str>, Listened>,
    /// By prefix.
    below: HashMap<Arc<str>, Listened>,
    holders: BTreeMap<u64, Holder<F>>,
    /// What the task has to look at.
    changed: VecDeque<Route>,
    task: Option<Waker>,
    /// Those who wait until something is unsubscribed.
    leaving: Vec<Waker>,
    ended: Option<F>,
}

/// One channel or pattern.
#[derive(Debug, Default)]
struct Listened {
    state: State,
    feeds: Vec<(u64, Feed)>,
}

/// What the server was told of a channel. One command at a time is under way for each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum State {
    #[default]
    Off,
    Subscribing,
    On,
    Unsubscribing,
    /// The server refused to unsubscribe. Nobody listens; the next one who does finds it subscribed.
    Kept,
}

/// One subscription.
#[derive(Debug)]
struct Holder<F> {
    routes: Vec<Route>,
    /// How many of them aren't confirmed yet.
    missing: usize,
    failed: Option<F>,
    waker: Option<Waker>,
}

/// What to wake and end once the lock is released.
#[derive(Debug, Default)]
pub(super) struct Ended {
    feeds: Vec<Feed>,
    wakers: Vec<Waker>,
}

impl Ended {
    pub(super) fn finish(self, cause: Cause, detail: &Arc<str>) {
        for feed in self.feeds {
            feed.end_with(cause, detail.clone());
        }
        self.wakers.into_iter().for_each(Waker::wake);
    }
}

impl<F> Default for Routes<F> {
    fn default() -> Self {
        Self {
            next: 0,
            channels: HashMap::new(),
            below: HashMap::new(),
            holders: BTreeMap::new(),
            changed: VecDeque::new(),
            task: None,
            leaving: Vec::new(),
            ended: None,
        }
    }
}

impl<F: Clone> Routes<F> {
    pub(super) fn is_open(&self) -> bool {
        self.ended.is_none()
    }

    pub(super) fn ended(&self) -> Option<&F> {
        self.ended.as_ref()
    }

    pub(super) fn set_task(&mut self, waker: &Waker) {
        match &mut self.task {
            Some(task) => task.clone_from(waker),
            none => *none = Some(waker.clone()),
        }
    }

    pub(super) fn take_waker(&mut self) -> Option<Waker> {
        self.task.take()
    }

    fn listened(&mut self, route: &Route) -> Option<&mut Listened> {
        match route {
            Route::Channel(name) => self.channels.get_mut(name),
            Route::Below(prefix) => self.below.get_mut(prefix),
        }
    }

    pub(super) fn add(&mut self, routes: Vec<Route>, feed: &Feed) -> u64 {
        self.next += 1;
        let id = self.next;
        let mut missing = 0;
        for route in &routes {
            let listened = match route {
                Route::Channel(name) => self.channels.entry(name.clone()).or_default(),
                Route::Below(prefix) => self.below.entry(prefix.clone()).or_default(),
            };
            listened.feeds.push((id, feed.clone()));
            if listened.state == State::Kept {
                listened.state = State::On;
            }
            if listened.state != State::On {
                missing += 1;
            }
            if listened.state == State::Off {
                self.changed.push_back(route.clone());
            }
        }
        self.holders.insert(id, Holder { routes, missing, failed: None, waker: None });
        id
    }

    /// Lets a subscription go, and returns its feeds, to be dropped outside of the lock.
    pub(super) fn remove(&mut self, id: u64) -> Vec<Feed> {
        let Some(holder) = self.holders.remove(&id) else { return Vec::new() };
        let mut feeds = Vec::new();
        for route in &holder.routes {
            if let Some(listened) = self.listened(route) {
                feeds.extend(listened.feeds.extract_if(.., |(held, _)| *held == id).map(|(_, feed)| feed));
                if listened.feeds.is_empty() {
                    self.changed.push_back(route.clone());
                }
            }
        }
        feeds
    }

    pub(super) fn poll_ready(&mut self, id: u64, cx: &mut Context<'_>) -> Poll<Result<(), F>> {
        let ended = self.ended.clone();
        let Some(holder) = self.holders.get_mut(&id) else {
            // Its feed ended before it was ready: let the receiver say why.
            return Poll::Ready(ended.map_or(Ok(()), Err));
        };
        if let Some(fault) = holder.failed.take() {
            return Poll::Ready(Err(fault));
        }
        if holder.missing == 0 {
            return Poll::Ready(Ok(()));
        }
        holder.waker = Some(cx.waker().clone());
        Poll::Pending
    }

    /// Waits until the server has let go of what nobody listens to any more.
    pub(super) fn poll_gone(&mut self, held: &[Route], cx: &mut Context<'_>) -> Poll<()> {
        let left = |routes: &mut Self, route| {
            routes.listened(route).is_some_and(|listened| {
                listened.feeds.is_empty() && !matches!(listened.state, State::Off | State::Kept)
            })
        };
        if self.ended.is_some() || !held.iter().any(|route| left(self, route)) {
            return Poll::Ready(());
        }
        self.leaving.push(cx.waker().clone());
        Poll::Pending
    }

    /// Takes the next command that the server has to be told: whether to subscribe, and to what.
    pub(super) fn next_command(&mut self) -> Option<(bool, Route)> {
        while let Some(route) = self.changed.pop_front() {
            let Some(listened) = self.listened(&route) else { continue };
            match (listened.state, listened.feeds.is_empty()) {
                (State::Off, false) => {
                    listened.state = State::Subscribing;
                    return Some((true, route));
                }
                (State::On, true) => {
                    listened.state = State::Unsubscribing;
                    return Some((false, route));
                }
                (State::Off, true) => self.forget(&route),
                _ => {}
            }
        }
        None
    }

    fn forget(&mut self, route: &Route) {
        match route {
            Route::Channel(name) => drop(self.channels.remove(name)),
            Route::Below(prefix) => drop(self.below.remove(prefix)),
        }
    }

    /// Says whether nothing is listened to and nothing under way; then the connection ends.
    pub(super) fn end_if_idle(&mut self, fault: impl FnOnce() -> F) -> bool {
        let mut left = self.channels.values().chain(self.below.values());
        let idle = self.holders.is_empty() && left.all(|listened| listened.state == State::Kept);
        if idle && self.ended.is_none() {
            self.ended = Some(fault());
            self.leaving.drain(..).for_each(Waker::wake);
        }
        idle
    }

    /// Says whether everyone has gone before there was a connection; then none is needed.
    pub(super) fn abandon_if_unwanted(&mut self, fault: impl FnOnce() -> F) -> bool {
        if self.holders.is_empty() {
            self.channels.clear();
            self.below.clear();
        }
        self.end_if_idle(fault)
    }

    /// Takes note of a set-up's confirmation.
    pub(super) fn subscribed(&mut self, route: &Route) {
        let Some(listened) = self.listened(route) else { return };
        listened.state = State::On;
        let ids: Vec<u64> = listened.feeds.iter().map(|(id, _)| *id).collect();
        if ids.is_empty() {
            self.changed.push_back(route.clone());
        }
        for id in ids {
            if let Some(holder) = self.holders.get_mut(&id) {
                holder.missing -= 1;
                if holder.missing == 0 {
                    holder.waker.take().into_iter().for_each(Waker::wake);
                }
            }
        }
    }

    /// Takes note that the server refused to subscribe.
    pub(super) fn refused(&mut self, route: &Route, fault: &F) {
        let Some(listened) = self.listened(route) else { return };
        listened.state = State::Off;
        let ids: Vec<u64> = listened.feeds.iter().map(|(id, _)| *id).collect();
        self.changed.push_back(route.clone());
        for id in ids {
            if let Some(holder) = self.holders.get_mut(&id) {
                holder.failed.get_or_insert_with(|| fault.clone());
                holder.waker.take().into_iter().for_each(Waker::wake);
            }
            // It leaves this route alone, so that the server isn't asked for it again; its guard does the rest.
            if let Some(listened) = self.listened(route) {
                listened.feeds.retain(|(held, _)| *held != id);
            }
        }
    }

    /// Takes note of an unsubscription's confirmation.
    pub(super) fn unsubscribed(&mut self, route: &Route) {
        if let Some(listened) = self.listened(route) {
            listened.state = State::Off;
            self.changed.push_back(route.clone());
        }
        self.leaving.drain(..).for_each(Waker::wake);
    }

    /// Takes note that the server refused to unsubscribe, and so goes on sending.
    #[cfg(feature = "redis")]
    pub(super) fn kept(&mut self, route: &Route) {
        // Those who came meanwhile have what they want.
        self.subscribed(route);
        if let Some(listened) = self.listened(route)
            && listened.feeds.is_empty()
        {
            listened.state = State::Kept;
        }
        self.leaving.drain(..).for_each(Waker::wake);
    }

    /// Takes note that the server unsubscribed of itself, and returns the feeds that it ends.
    pub(super) fn taken_away(&mut self, route: &Route) -> Ended {
        let mut ended = Ended::default();
        let Some(listened) = self.listened(route) else { return ended };
        if !matches!(listened.state, State::On | State::Kept) {
            return ended;
        }
        let ids: Vec<u64> = listened.feeds.iter().map(|(id, _)| *id).collect();
        for id in ids {
            ended.feeds.extend(self.remove(id));
        }
        self.unsubscribed(route);
        ended
    }

    /// Hands one message to those who listen to its channel.
    pub(super) fn message(&mut self, channel: &str, payload: Bytes) {
        let Some((name, listened)) = self.channels.get_key_value(channel) else { return };
        if listened.state == State::On {
            let ended = deliver(&listened.feeds, name, payload);
            self.remove_all(ended);
        }
    }

    /// Hands one message to those who listen below the prefix.
    pub(super) fn message_below(&mut self, prefix: &str, channel: &str, payload: Bytes) {
        let Some(listened) = self.below.get(prefix) else { return };
        // The pattern `prefix.*` matches `prefix.` too.
        let below = channel.strip_prefix(prefix).is_some_and(|rest| rest.len() > 1);
        if below && listened.state == State::On {
            let ended = deliver(&listened.feeds, &channel.into(), payload);
            self.remove_all(ended);
        }
    }

    fn remove_all(&mut self, ended: Vec<u64>) {
        for id in ended {
            drop(self.remove(id));
        }
    }

    /// Ends everything.
    pub(super) fn end(&mut self, fault: &F) -> Ended {
        let mut ended = Ended::default();
        if self.ended.is_some() {
            return ended;
        }
        self.ended = Some(fault.clone());
        ended.wakers.append(&mut self.leaving);
        ended.wakers.extend(self.task.take());
        for holder in std::mem::take(&mut self.holders).into_values() {
            ended.wakers.extend(holder.waker);
        }
        for (_, listened) in self.channels.drain().chain(self.below.drain()) {
            ended.feeds.extend(listened.feeds.into_iter().map(|(_, feed)| feed));
        }
        self.changed.clear();
        ended
    }
}

/// Returns the subscriptions that take nothing more.
fn deliver(feeds: &[(u64, Feed)], channel: &Arc<str>, payload: Bytes) -> Vec<u64> {
    let mut ended = Vec::new();
    if let Some(((last, last_feed), others)) = feeds.split_last() {
        for (id, feed) in others {
            if feed.push(channel, payload.clone()).is_err() {
                ended.push(*id);
            }
        }
        if last_feed.push(channel, payload).is_err() {
            ended.push(*last);
        }
    }
    ended
}
