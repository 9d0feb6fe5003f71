//! The task of a subscribing connection: tells the server what is listened to, hands out messages, watches for life.

use std::collections::VecDeque;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use redis::{PushKind, ServerError, Value};
use tokio::time::{Instant, Sleep, sleep, timeout};

use super::super::cluster::slot;
use super::super::fault::Fault;
use super::super::link::{Link, pack};
use super::super::settings::Settings;
use super::super::url::Endpoint;
use super::{Route, Shared, Words};
use crate::broker::lock;
use crate::capability::Host;
use crate::error::{Cause, ErrorKind, Outcome};

/// The task of one connection.
pub(super) struct Task {
    pub(super) host: Host,
    pub(super) settings: Arc<Settings>,
    pub(super) endpoint: Endpoint,
    pub(super) words: Words,
    pub(super) shared: Arc<Shared>,
}

impl Task {
    /// Connects and serves until nothing is listened to, the connection breaks or the subscriber is closed.
    pub(super) async fn run(self) {
        match self.connect().await {
            Ok(Some(link)) => {
                let mut session = Session::new(&self, link);
                let lost = std::future::poll_fn(|cx| session.poll(cx)).await;
                // Closed before its users hear of it.
                drop(session);
                if let Err(fault) = lost {
                    self.shared.end(Cause::Disconnected, &fault);
                }
            }
            Ok(None) => {}
            Err(fault) => self.shared.end(Cause::Disconnected, &fault),
        }
    }

    /// Connects, unless everyone who waits for it has gone.
    async fn connect(&self) -> Result<Option<Link>, Fault> {
        let limit = self.host.limits().timeout;
        let mut connecting = pin!(timeout(limit, Link::connect(&self.settings, &self.endpoint, limit)));
        std::future::poll_fn(|cx| {
            let mut routes = lock(&self.shared.routes);
            if !routes.is_open() || routes.abandon_if_unwanted(idle) {
                return Poll::Ready(Ok(None));
            }
            routes.set_task(cx.waker());
            drop(routes);
            let connected = ready!(connecting.as_mut().poll(cx));
            Poll::Ready(connected.unwrap_or_else(|_| Err(Fault::timeout(Outcome::NotApplied))).map(Some))
        })
        .await
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        self.shared.end(Cause::Disconnected, &Fault::unreachable("the task that receives ended"));
    }
}

/// One connection in use.
struct Session<'a> {
    shared: &'a Shared,
    words: Words,
    link: Link,
    /// The commands without an answer, in order.
    sent: VecDeque<Sent>,
    out: Vec<u8>,
    written: usize,
    heartbeat: std::time::Duration,
    timer: Pin<Box<Sleep>>,
    /// Nothing was heard since this was last cleared, which a beat does that asks for a sign of life.
    heard: bool,
    asked: bool,
}

#[derive(Debug, PartialEq, Eq)]
enum Sent {
    Subscribe(Route),
    Unsubscribe(Route),
    Ping,
}

impl Sent {
    fn word(&self, words: Words) -> &'static str {
        match self {
            Self::Subscribe(Route::Channel(_)) => words.subscribe,
            Self::Unsubscribe(Route::Channel(_)) => words.unsubscribe,
            Self::Subscribe(Route::Below(_)) => "PSUBSCRIBE",
            Self::Unsubscribe(Route::Below(_)) => "PUNSUBSCRIBE",
            Self::Ping => "PING",
        }
    }

    fn is_in(&self, wanted: u16) -> bool {
        match self {
            Self::Subscribe(Route::Channel(name)) | Self::Unsubscribe(Route::Channel(name)) => slot(name) == wanted,
            _ => false,
        }
    }
}

impl<'a> Session<'a> {
    fn new(task: &'a Task, link: Link) -> Self {
        let heartbeat = task.host.limits().heartbeat;
        Self {
            shared: &task.shared,
            words: task.words,
            link,
            sent: VecDeque::new(),
            out: Vec::new(),
            written: 0,
            heartbeat,
            timer: Box::pin(sleep(heartbeat)),
            heard: false,
            asked: false,
        }
    }

    /// Serves; ends well when nothing is left to do or the subscriber was closed.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Fault>> {
        loop {
            self.read(cx)?;
            if !self.prepare(cx) {
                return Poll::Ready(Ok(()));
            }
            self.beat(cx)?;
            if self.out.is_empty() {
                return Poll::Pending;
            }
            ready!(self.link.poll_write(cx, &self.out, &mut self.written))?;
            self.out.clear();
            self.written = 0;
        }
    }

    /// Packs the commands that are due; says no when the connection isn't needed any more.
    fn prepare(&mut self, cx: &Context<'_>) -> bool {
        let mut routes = lock(&self.shared.routes);
        if routes.ended().is_some() {
            return false;
        }
        routes.set_task(cx.waker());
        // What is being written stays as it is.
        while self.written == 0 {
            let Some((subscribe, route)) = routes.next_command() else { break };
            let command = if subscribe { Sent::Subscribe(route.clone()) } else { Sent::Unsubscribe(route.clone()) };
            let word = command.word(self.words).as_bytes();
            match &route {
                Route::Channel(name) => pack(&mut self.out, [word, name.as_bytes()].into_iter()),
                Route::Below(prefix) => pack(&mut self.out, [word, pattern(prefix).as_bytes()].into_iter()),
            }
            self.sent.push_back(command);
        }
        !routes.end_if_idle(idle)
    }

    /// Asks for a sign of life at every beat, and gives up when there was none since the last.
    fn beat(&mut self, cx: &mut Context<'_>) -> Result<(), Fault> {
        while self.timer.as_mut().poll(cx).is_ready() {
            if self.asked && !self.heard {
                return Err(Fault::unreachable("the server gave no sign of life from one heartbeat to the next"));
            }
            self.timer.as_mut().reset(Instant::now() + self.heartbeat);
            self.heard = false;
            self.asked = true;
            if self.written == 0 && !self.sent.contains(&Sent::Ping) {
                pack(&mut self.out, [&b"PING"[..]].into_iter());
                self.sent.push_back(Sent::Ping);
            }
        }
        Ok(())
    }

    fn read(&mut self, cx: &mut Context<'_>) -> Result<(), Fault> {
        loop {
            let filled = self.link.poll_fill(cx);
            if matches!(filled, Poll::Ready(Ok(()))) {
                self.heard = true;
            }
            while let Some(value) = self.link.value()? {
                self.take(value)?;
            }
            if filled?.is_pending() {
                return Ok(());
            }
        }
    }

    fn take(&mut self, value: Value) -> Result<(), Fault> {
        match value {
            Value::Push { kind, data } => self.take_push(&kind, data),
            Value::ServerError(error) => self.take_refusal(&error),
            // The answer to PING is the only one that isn't a push.
            _ => match self.sent.pop_front() {
                Some(Sent::Ping) => Ok(()),
                _ => Err(Fault::malformed()),
            },
        }
    }

    fn take_refusal(&mut self, error: &ServerError) -> Result<(), Fault> {
        let word = self.sent.front().map_or(self.words.unsubscribe, |sent| sent.word(self.words));
        let fault = Fault::refusal(error, word);
        if let Some((moved, _)) = &fault.moved
            && !self.sent.front().is_some_and(|sent| sent.is_in(*moved))
        {
            // The server unsubscribed of itself when the slot moved, which was taken for the confirmation of a command
            // that was under way then. This is that command's own answer.
            return Ok(());
        }
        match self.sent.pop_front().ok_or_else(Fault::malformed)? {
            Sent::Subscribe(route) => lock(&self.shared.routes).refused(&route, &fault),
            Sent::Unsubscribe(route) if fault.moved.is_some() => lock(&self.shared.routes).unsubscribed(&route),
            // Others have no part in that; the server goes on sending what nobody listens to.
            Sent::Unsubscribe(route) if fault.kind == ErrorKind::Forbidden => lock(&self.shared.routes).kept(&route),
            // An answer is a sign of life.
            Sent::Ping if fault.kind == ErrorKind::Forbidden => {}
            _ => return Err(fault),
        }
        Ok(())
    }

    fn take_push(&mut self, kind: &PushKind, data: Vec<Value>) -> Result<(), Fault> {
        let mut data = data.into_iter();
        match kind {
            PushKind::Message | PushKind::SMessage => {
                let (channel, payload) = (bytes(data.next())?, bytes(data.next())?);
                lock(&self.shared.routes).message(&String::from_utf8_lossy(&channel), payload.into());
            }
            PushKind::PMessage => {
                let (pattern, channel, payload) = (bytes(data.next())?, bytes(data.next())?, bytes(data.next())?);
                let prefix = prefix(&pattern).ok_or_else(Fault::malformed)?;
                let channel = String::from_utf8_lossy(&channel);
                lock(&self.shared.routes).message_below(&prefix, &channel, payload.into());
            }
            PushKind::Subscribe | PushKind::SSubscribe | PushKind::PSubscribe => match self.sent.pop_front() {
                Some(Sent::Subscribe(route)) if is_about(&route, kind, &bytes(data.next())?) => {
                    lock(&self.shared.routes).subscribed(&route);
                }
                _ => return Err(Fault::malformed()),
            },
            PushKind::Unsubscribe | PushKind::SUnsubscribe | PushKind::PUnsubscribe => {
                let channel = bytes(data.next())?;
                match self.sent.front() {
                    Some(Sent::Unsubscribe(route)) if is_about(route, kind, &channel) => {
                        lock(&self.shared.routes).unsubscribed(route);
                        self.sent.pop_front();
                    }
                    _ => {
                        let route = if *kind == PushKind::PUnsubscribe {
                            Route::Below(prefix(&channel).ok_or_else(Fault::malformed)?.into())
                        } else {
                            Route::Channel(String::from_utf8_lossy(&channel).into())
                        };
                        let ended = lock(&self.shared.routes).taken_away(&route);
                        let why =
                            if *kind == PushKind::SUnsubscribe { "the slot moved" } else { "it was unsubscribed" };
                        ended.finish(Cause::Disconnected, &why.into());
                    }
                }
            }
            // A server may push what nobody asked for.
            _ => {}
        }
        Ok(())
    }
}

fn idle() -> Fault {
    Fault::unreachable("the connection had nothing left to do")
}

fn bytes(value: Option<Value>) -> Result<Vec<u8>, Fault> {
    match value {
        Some(Value::BulkString(bytes)) => Ok(bytes),
        _ => Err(Fault::malformed()),
    }
}

fn is_about(route: &Route, kind: &PushKind, name: &[u8]) -> bool {
    match route {
        Route::Channel(channel) => {
            !matches!(kind, PushKind::PSubscribe | PushKind::PUnsubscribe) && channel.as_bytes() == name
        }
        Route::Below(prefix) => {
            matches!(kind, PushKind::PSubscribe | PushKind::PUnsubscribe) && pattern(prefix).as_bytes() == name
        }
    }
}

/// The glob that matches all below a prefix.
fn pattern(prefix: &str) -> String {
    let mut pattern = String::with_capacity(prefix.len() + 2);
    for letter in prefix.chars() {
        if matches!(letter, '*' | '?' | '[' | ']' | '^' | '\\') {
            pattern.push('\\');
        }
        pattern.push(letter);
    }
    pattern.push_str(".*");
    pattern
}

/// The prefix that a glob of [`pattern`]'s was made of.
fn prefix(pattern: &[u8]) -> Option<String> {
    let mut rest = std::str::from_utf8(pattern).ok()?.strip_suffix(".*")?.chars();
    let mut prefix = String::with_capacity(pattern.len());
    while let Some(letter) = rest.next() {
        prefix.push(if letter == '\\' { rest.next()? } else { letter });
    }
    Some(prefix)
}
