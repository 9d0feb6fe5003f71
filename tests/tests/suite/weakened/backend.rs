//! A backend in memory with connections that can break, and a weakness of choice.

use std::collections::BTreeSet;
use std::future::pending;
use std::marker::PhantomData;
use std::sync::{Arc, Mutex, MutexGuard};

use bytes::Bytes;
use tidings::capability::{
    Backend, BackendError, Checked, Feed, Host, Outgoing, PatternPubSub, PubSub, Unsubscribe, Wanted,
};
use tidings::conformance::{Counts, Network, Subject, Tap, Topics};
use tidings::{Cause, ErrorKind, Outcome};
use tokio::sync::mpsc;
use tokio::task::yield_now;

/// What is wrong with a backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Flaw {
    Nothing,
    DropsOne,
    DeliversTwice,
    Reorders,
    ReadyTooEarly,
    DeliversTheLastAgain,
    CountsWrong,
    CountsWhereItCant,
    RetriesPublish,
    DeniesALostReply,
    HidesADisconnect,
    DropsWhenFull,
    EndsTheNeighbour,
    MatchesSiblings,
    LeaksACancelledSetUp,
    UnsubscribesBoth,
    SubscribesToTheFirstKey,
    HangsInClose,
    LeavesATask,
    ReversesABatch,
    StopsABatch,
    SpawnsWhenBuilt,
    NeedsTheServerWhenBuilt,
    ConnectsForEach,
    NeverAsksForALife,
    ManglesPayloads,
    FoldsTheCaseOfKeys,
    MixesEnvironments,
    GivesUpForGood,
}

/// Chooses a flaw by a type.
pub(super) trait Weakness: Send + Sync + 'static {
    const FLAW: Flaw;
}

#[derive(Default)]
struct Hub {
    refuse: bool,
    silent: bool,
    lose_replies: bool,
    next: u64,
    published: u64,
    subscriptions: Vec<Held>,
    taps: Vec<(String, mpsc::UnboundedSender<Vec<u8>>)>,
    beating: BTreeSet<u64>,
    last: Option<(Arc<str>, Bytes)>,
    held_back: Option<(Arc<str>, Bytes)>,
}

struct Held {
    id: u64,
    client: u64,
    names: Vec<Arc<str>>,
    is_prefix: bool,
    feed: Feed,
    queue: Option<mpsc::Sender<(Arc<str>, Bytes)>>,
}

pub(super) struct Weakened<W> {
    hub: Arc<Mutex<Hub>>,
    weakness: PhantomData<fn() -> W>,
}

pub(super) struct Client {
    hub: Arc<Mutex<Hub>>,
    host: Host,
    id: u64,
}

pub(super) struct Subscribed {
    hub: Arc<Mutex<Hub>>,
    id: u64,
    both: bool,
}

fn lock(hub: &Mutex<Hub>) -> MutexGuard<'_, Hub> {
    hub.lock().expect("nobody panicked with it")
}

fn unavailable() -> BackendError {
    BackendError::new(ErrorKind::Unavailable, Outcome::NotApplied)
}

impl Held {
    fn hears(&self, channel: &str, flaw: Flaw) -> bool {
        let fold = |text: &str| match flaw {
            Flaw::FoldsTheCaseOfKeys => text.to_lowercase(),
            Flaw::MixesEnvironments => {
                let parts: Vec<_> = text.split('.').collect();
                [&parts[..1], &parts[2..]].concat().join(".")
            }
            _ => text.to_owned(),
        };
        let channel = fold(channel);
        self.names.iter().any(|name| {
            let rest = channel.strip_prefix(&fold(name));
            match (self.is_prefix, flaw) {
                (true, Flaw::MatchesSiblings) => rest.is_some(),
                (true, _) => rest.is_some_and(|rest| rest.starts_with('.')),
                (false, _) => rest == Some(""),
            }
        })
    }
}

impl Hub {
    fn deliver(&mut self, channel: &str, payload: &Bytes, flaw: Flaw) -> u64 {
        self.taps.retain(|(name, tap)| name != channel || tap.send(payload.to_vec()).is_ok());
        self.published += 1;
        let name: Arc<str> = channel.into();
        let every_hundredth = self.published.is_multiple_of(100);
        let mut messages = vec![(name.clone(), payload.clone())];
        match flaw {
            Flaw::DropsOne if every_hundredth => messages.clear(),
            Flaw::DeliversTwice if every_hundredth => messages.push((name.clone(), payload.clone())),
            Flaw::Reorders if every_hundredth => self.held_back = messages.pop(),
            Flaw::Reorders => messages.extend(self.held_back.take()),
            _ => {}
        }
        let mut heard = 0;
        let mut ended = BTreeSet::new();
        for held in self.subscriptions.iter().filter(|held| held.hears(channel, flaw)) {
            heard += 1;
            for (name, payload) in messages.iter().filter(|(name, _)| held.hears(name, flaw)) {
                if let Some(queue) = &held.queue {
                    let _ = queue.try_send((name.clone(), payload.clone()));
                } else if held.feed.push(name, payload.clone()).is_err() {
                    ended.insert(held.id);
                }
            }
        }
        if flaw == Flaw::EndsTheNeighbour && !ended.is_empty() {
            for held in self.subscriptions.iter().filter(|held| held.hears(channel, flaw)) {
                held.feed.end(Cause::Overflow);
                ended.insert(held.id);
            }
        }
        self.subscriptions.retain(|held| !ended.contains(&held.id));
        self.last = Some((name, payload.clone()));
        heard
    }

    fn end(&mut self, cause: Cause, whose: impl Fn(&Held) -> bool) {
        for held in self.subscriptions.extract_if(.., |held| whose(held)) {
            held.feed.end(cause);
        }
    }
}

impl<W: Weakness> Backend for Weakened<W> {
    type Client = Client;

    fn system(&self) -> &'static str {
        "weakened"
    }

    fn client(&self, host: Host) -> Result<Client, Vec<String>> {
        match W::FLAW {
            Flaw::SpawnsWhenBuilt => host.spawn("a task from the start", async {}),
            Flaw::NeedsTheServerWhenBuilt if lock(&self.hub).refuse => return Err(vec!["no server".to_owned()]),
            _ => {}
        }
        let mut hub = lock(&self.hub);
        hub.next += 1;
        Ok(Client { hub: self.hub.clone(), host, id: hub.next })
    }

    async fn check(client: &Client, _: Wanted) -> Result<Checked, BackendError> {
        if lock(&client.hub).refuse { Err(unavailable()) } else { Ok(Checked::new("weakened")) }
    }

    async fn close(client: &Client) {
        if W::FLAW == Flaw::HangsInClose {
            pending::<()>().await;
        }
        lock(&client.hub).end(Cause::Closed, |held| held.client == client.id);
    }
}

impl<W: Weakness> Weakened<W> {
    fn send(client: &Client, message: &Outgoing) -> Result<Option<u64>, BackendError> {
        let mut hub = lock(&client.hub);
        if hub.refuse {
            return Err(unavailable());
        }
        let mut payload = message.payload.clone();
        if W::FLAW == Flaw::ManglesPayloads {
            payload = [&payload[..], b" "].concat().into();
        }
        let heard = hub.deliver(&message.channel, &payload, W::FLAW);
        if hub.lose_replies {
            if W::FLAW == Flaw::RetriesPublish {
                hub.deliver(&message.channel, &payload, W::FLAW);
            }
            let outcome = if W::FLAW == Flaw::DeniesALostReply { Outcome::NotApplied } else { Outcome::Unknown };
            return Err(BackendError::new(ErrorKind::Unavailable, outcome));
        }
        Ok(Some(if W::FLAW == Flaw::CountsWrong { heard.max(1) } else { heard }))
    }

    async fn hold(
        client: &Client,
        names: Vec<Arc<str>>,
        is_prefix: bool,
        feed: Feed,
    ) -> Result<Subscribed, BackendError> {
        if lock(&client.hub).silent {
            pending::<()>().await;
        }
        if lock(&client.hub).refuse {
            let kind = if W::FLAW == Flaw::GivesUpForGood { ErrorKind::Unsupported } else { ErrorKind::Unavailable };
            return Err(BackendError::new(kind, Outcome::NotApplied));
        }
        yield_now().await;
        let id = {
            let mut hub = lock(&client.hub);
            hub.next += 1;
            hub.next
        };
        let queue = (W::FLAW == Flaw::DropsWhenFull).then(|| {
            let (queue, mut queued) = mpsc::channel::<(Arc<str>, Bytes)>(16);
            let feed = feed.clone();
            client.host.spawn("a queue", async move {
                while let Some((channel, payload)) = queued.recv().await {
                    let _ = feed.push(&channel, payload);
                }
            });
            queue
        });
        let mut names = names;
        if W::FLAW == Flaw::SubscribesToTheFirstKey {
            names.truncate(1);
        }
        if W::FLAW == Flaw::DeliversTheLastAgain
            && let Some((channel, payload)) = &lock(&client.hub).last
            && names.contains(channel)
        {
            let _ = feed.push(channel, payload.clone());
        }
        let held = Held { id, client: client.id, names, is_prefix, feed, queue };
        let subscribed = Subscribed { hub: client.hub.clone(), id, both: W::FLAW == Flaw::UnsubscribesBoth };
        match W::FLAW {
            Flaw::ReadyTooEarly => {
                let hub = client.hub.clone();
                client.host.spawn("a late registration", async move {
                    yield_now().await;
                    lock(&hub).subscriptions.push(held);
                });
            }
            Flaw::LeaksACancelledSetUp => {
                let subscribed = std::mem::ManuallyDrop::new(subscribed);
                lock(&client.hub).subscriptions.push(held);
                yield_now().await;
                Self::beat(client);
                return Ok(std::mem::ManuallyDrop::into_inner(subscribed));
            }
            _ => lock(&client.hub).subscriptions.push(held),
        }
        Self::beat(client);
        yield_now().await;
        Ok(subscribed)
    }

    /// Asks for signs of life as long as there are subscriptions.
    fn beat(client: &Client) {
        let (hub, host, id) = (client.hub.clone(), client.host.clone(), client.id);
        if !lock(&hub).beating.insert(id) {
            return;
        }
        client.host.spawn("a heartbeat", async move {
            loop {
                tokio::select! {
                    () = tokio::time::sleep(host.limits().heartbeat) => {}
                    () = host.closing(), if W::FLAW != Flaw::LeavesATask => break,
                }
                let mut hub = lock(&hub);
                if hub.silent && W::FLAW != Flaw::NeverAsksForALife {
                    hub.end(Cause::Disconnected, |held| held.client == id);
                }
                if W::FLAW != Flaw::LeavesATask && !hub.subscriptions.iter().any(|held| held.client == id) {
                    hub.beating.remove(&id);
                    break;
                }
            }
        });
    }
}

impl<W: Weakness> PubSub for Weakened<W> {
    type Subscription = Subscribed;

    async fn publish(client: &Client, message: Outgoing) -> Result<Option<u64>, BackendError> {
        Self::send(client, &message)
    }

    async fn publish_all(client: &Client, mut messages: Vec<Outgoing>) -> Vec<Result<Option<u64>, BackendError>> {
        if W::FLAW == Flaw::ReversesABatch {
            messages.reverse();
        }
        if W::FLAW == Flaw::StopsABatch {
            messages.truncate(50);
        }
        messages.iter().map(|message| Self::send(client, message)).collect()
    }

    async fn subscribe(client: &Client, channels: Vec<Arc<str>>, feed: Feed) -> Result<Subscribed, BackendError> {
        Self::hold(client, channels, false, feed).await
    }
}

impl<W: Weakness> PatternPubSub for Weakened<W> {
    async fn subscribe_under(client: &Client, prefix: Arc<str>, feed: Feed) -> Result<Subscribed, BackendError> {
        Self::hold(client, vec![prefix], true, feed).await
    }
}

impl Unsubscribe for Subscribed {
    async fn close(self) {}
}

impl Drop for Subscribed {
    fn drop(&mut self) {
        let mut hub = lock(&self.hub);
        let Some(own) = hub.subscriptions.iter().position(|held| held.id == self.id) else { return };
        let removed = hub.subscriptions.remove(own);
        if self.both {
            let same = |held: &Held| held.client == removed.client && held.names.contains(&removed.names[0]);
            hub.subscriptions.retain(|held| !same(held));
        }
    }
}

pub(super) struct Tapped(mpsc::UnboundedReceiver<Vec<u8>>);

impl Tap for Tapped {
    async fn next(&mut self) -> Vec<u8> {
        self.0.recv().await.expect("the hub outlives its taps")
    }
}

impl<W: Weakness> Subject for Weakened<W> {
    type Backend = Self;

    const PAUSED: bool = true;

    async fn start() -> Self {
        Self { hub: Arc::default(), weakness: PhantomData }
    }

    fn backend(&self) -> Self {
        Self { hub: self.hub.clone(), weakness: PhantomData }
    }

    async fn interrupt(&self) {
        if W::FLAW != Flaw::HidesADisconnect {
            lock(&self.hub).end(Cause::Disconnected, |_| true);
        }
    }

    async fn refuse(&self, refuse: bool) {
        lock(&self.hub).refuse = refuse;
    }
}

impl<W: Weakness> Topics for Weakened<W> {
    type Tap = Tapped;

    const COUNTS: Counts = match W::FLAW {
        Flaw::CountsWhereItCant => Counts::Nothing,
        _ => Counts::Subscriptions,
    };

    async fn publish_raw(&self, channel: &str, payload: &[u8]) {
        lock(&self.hub).deliver(channel, &Bytes::copy_from_slice(payload), W::FLAW);
    }

    async fn tap(&self, channel: &str) -> Tapped {
        let (sender, receiver) = mpsc::unbounded_channel();
        lock(&self.hub).taps.push((channel.to_owned(), sender));
        Tapped(receiver)
    }
}

impl<W: Weakness> Network for Weakened<W> {
    async fn silence(&self, silent: bool) {
        lock(&self.hub).silent = silent;
    }

    async fn lose_replies(&self, lose: bool) {
        lock(&self.hub).lose_replies = lose;
    }

    async fn subscribed_connections(&self) -> usize {
        let hub = lock(&self.hub);
        let clients = hub.subscriptions.iter().map(|held| held.client).collect::<BTreeSet<_>>();
        if W::FLAW == Flaw::ConnectsForEach { hub.subscriptions.len() } else { clients.len() }
    }
}
