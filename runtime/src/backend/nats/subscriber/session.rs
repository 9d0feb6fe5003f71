//! The task of a subscribing connection: tells the server what is listened to, hands out messages, watches for life.

use std::collections::{HashMap, VecDeque};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use tokio::time::{Instant, Sleep, sleep, timeout};

use super::super::super::routes::Route;
use super::super::fault::{Complaint, Fault};
use super::super::link::{Link, Servers};
use super::super::settings::Settings;
use super::super::wire::{self, Message, Op};
use super::Shared;
use crate::broker::lock;
use crate::capability::Host;
use crate::error::{Cause, ErrorKind, Outcome};

/// A server that asks for more signs of life than it reads is none.
const MOST_UNWRITTEN_BYTES: usize = 1 << 20;
/// A smaller payload gets memory of its own, so that it doesn't hold what came around it.
const SHARED_BYTES: usize = 4 << 10;

/// The task of one connection.
pub(super) struct Task {
    pub(super) host: Host,
    pub(super) settings: Arc<Settings>,
    pub(super) servers: Arc<Servers>,
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
        let connecting = timeout(limit, self.servers.connect(&self.settings, "tidings subscriber", limit));
        let mut connecting = pin!(connecting);
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
        self.shared.end(Cause::Disconnected, &Fault::task_ended());
    }
}

fn idle() -> Fault {
    Fault::unreachable("the connection had nothing left to do")
}

/// One connection in use.
struct Session<'a> {
    shared: &'a Shared,
    link: Link,
    /// Which route the server knows by which number. A number is used once, so what comes late for an old one is nobody's.
    routes: HashMap<u64, Route>,
    last: u64,
    /// What was sent before each question for a sign of life. Its answer confirms that.
    asked: VecDeque<Vec<Sent>>,
    out: Vec<u8>,
    written: usize,
    heartbeat: std::time::Duration,
    timer: Pin<Box<Sleep>>,
    /// Something was heard since the last beat.
    heard: bool,
    beaten: bool,
}

#[derive(Debug)]
enum Sent {
    Subscribe(u64, Route),
    Unsubscribe(Route),
}

impl<'a> Session<'a> {
    fn new(task: &'a Task, link: Link) -> Self {
        let heartbeat = task.host.limits().heartbeat;
        Self {
            shared: &task.shared,
            link,
            routes: HashMap::new(),
            last: 0,
            asked: VecDeque::new(),
            out: Vec::new(),
            written: 0,
            heartbeat,
            timer: Box::pin(sleep(heartbeat)),
            heard: false,
            beaten: false,
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
        let mut sent = Vec::new();
        // What is being written goes out first.
        while self.written == 0 {
            let Some((subscribe, route)) = routes.next_command() else { break };
            if subscribe {
                self.last += 1;
                wire::subscribe(&mut self.out, &subject(&route), self.last);
                self.routes.insert(self.last, route.clone());
                sent.push(Sent::Subscribe(self.last, route));
            } else {
                let known = self.routes.iter().find(|(_, known)| **known == route).map(|(sid, _)| *sid);
                if let Some(sid) = known {
                    wire::unsubscribe(&mut self.out, sid);
                    self.routes.remove(&sid);
                }
                sent.push(Sent::Unsubscribe(route));
            }
        }
        let needed = !routes.end_if_idle(idle);
        drop(routes);
        if needed && !sent.is_empty() {
            self.ask(sent);
        }
        needed
    }

    fn ask(&mut self, sent: Vec<Sent>) {
        self.out.extend_from_slice(wire::PING);
        self.asked.push_back(sent);
    }

    /// Asks for a sign of life at every beat, and gives up when there was none since the last.
    fn beat(&mut self, cx: &mut Context<'_>) -> Result<(), Fault> {
        while self.timer.as_mut().poll(cx).is_ready() {
            if self.beaten && !self.heard {
                return Err(Fault::unreachable("the server gave no sign of life from one heartbeat to the next"));
            }
            self.timer.as_mut().reset(Instant::now() + self.heartbeat);
            self.heard = false;
            self.beaten = true;
            if self.asked.is_empty() {
                self.ask(Vec::new());
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
            while let Some(op) = self.link.take()? {
                self.receive(op)?;
            }
            if filled?.is_pending() {
                return Ok(());
            }
        }
    }

    fn receive(&mut self, op: Op) -> Result<(), Fault> {
        match op {
            Op::Message(message) => self.deliver(message),
            Op::Pong => {
                for sent in self.asked.pop_front().ok_or_else(Fault::malformed)? {
                    let mut routes = lock(&self.shared.routes);
                    match sent {
                        Sent::Subscribe(_, route) => routes.subscribed(&route),
                        Sent::Unsubscribe(route) => routes.unsubscribed(&route),
                    }
                }
            }
            Op::Ping => {
                if self.out.len() > MOST_UNWRITTEN_BYTES {
                    return Err(Fault::malformed());
                }
                self.out.extend_from_slice(wire::PONG);
            }
            Op::Complaint(text) => self.complained(Complaint::read(&text))?,
            // What is published until its end might go another way already.
            Op::Info(info) if info.lame_duck_mode => {
                return Err(Fault::unreachable("the server is about to end (lame duck mode)"));
            }
            Op::Info(_) | Op::Ok => {}
        }
        Ok(())
    }

    fn deliver(&mut self, message: Message) {
        let Some(route) = self.routes.get(&message.sid) else { return };
        let Message { subject, payload, .. } = message;
        let payload = if payload.len() < SHARED_BYTES { Bytes::copy_from_slice(&payload) } else { payload };
        let mut routes = lock(&self.shared.routes);
        match route {
            Route::Channel(name) => routes.message(name, payload),
            Route::Below(prefix) => routes.message_below(prefix, &String::from_utf8_lossy(&subject), payload),
        }
    }

    fn complained(&mut self, complaint: Complaint) -> Result<(), Fault> {
        match complaint {
            Complaint::Fatal(fault) => return Err(fault),
            Complaint::Subscribe(named) => {
                if !self.refuse(&Fault::no_right_to_subscribe(), |route| *subject(route) == *named) {
                    self.taken_away(&named);
                }
            }
            Complaint::Subscriptions => {
                let text = "the connection has as many subscriptions as it may; raise `max_subscriptions`";
                let fault = Fault::new(ErrorKind::Refused, Outcome::NotApplied, text);
                self.refuse(&fault, |_| true);
            }
            Complaint::Publish(_) | Complaint::Other => {}
        }
        Ok(())
    }

    /// Takes note that the server refused the first set-up under way of which this is true.
    fn refuse(&mut self, fault: &Fault, is_meant: impl Fn(&Route) -> bool) -> bool {
        let meant = |sent: &Sent| matches!(sent, Sent::Subscribe(_, route) if is_meant(route));
        for group in &mut self.asked {
            if let Some(place) = group.iter().position(meant) {
                if let Sent::Subscribe(sid, route) = group.remove(place) {
                    self.routes.remove(&sid);
                    lock(&self.shared.routes).refused(&route, fault);
                }
                return true;
            }
        }
        false
    }

    /// Ends what the server has unsubscribed of itself, when rights were taken away.
    fn taken_away(&mut self, named: &str) {
        let found = self.routes.iter().find(|(_, route)| *subject(route) == *named);
        let Some((sid, route)) = found.map(|(sid, route)| (*sid, route.clone())) else { return };
        self.routes.remove(&sid);
        let ended = lock(&self.shared.routes).taken_away(&route);
        ended.finish(Cause::Disconnected, &Fault::no_right_to_subscribe().text);
    }
}

/// What the server is told. Names hold no wildcard.
fn subject(route: &Route) -> std::borrow::Cow<'_, str> {
    match route {
        Route::Channel(name) => (&**name).into(),
        Route::Below(prefix) => format!("{prefix}.>").into(),
    }
}
