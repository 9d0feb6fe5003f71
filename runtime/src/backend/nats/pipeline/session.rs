//! The task of a pipeline's connection: connects when there is something to send, writes batches, reads what comes.

use std::collections::VecDeque;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::time::{Instant, Sleep, sleep_until, timeout_at};

use super::super::fault::{Complaint, Fault};
use super::super::link::Link;
use super::super::wire::{self, Op};
use super::Shared;
use super::batch::Pending;
use super::request::SHARED_SID;
use crate::broker::lock;
use crate::capability::Host;
use crate::error::{ErrorKind, Outcome};

/// So many batches may be unconfirmed at once.
const MOST_IN_FLIGHT: usize = 4;
/// A server that asks for more signs of life than it reads is none.
const MOST_UNWRITTEN_BYTES: usize = 1 << 20;

pub(super) struct Task {
    host: Host,
    shared: Arc<Shared>,
}

/// Why a connection isn't used any further.
enum End {
    Closed,
    Broken(Fault),
    TimedOut,
}

impl Task {
    /// Makes the one task of a pipeline, whose `running` was set for it.
    pub(super) fn new(host: Host, shared: Arc<Shared>) -> Self {
        Self { host, shared }
    }

    /// Serves until the pipeline is closed.
    pub(super) async fn run(self) {
        while self.wait_for_work().await {
            let Some(link) = self.connect().await else { continue };
            lock(&self.shared.queue).facts = Some(Arc::new(link.info.clone()));
            let mut session = Session::new(&self, link);
            let end = std::future::poll_fn(|cx| session.poll(cx)).await;
            let sent = session.sent;
            session.end(&end);
            lock(&self.shared.queue).facts = None;
            // A connection that breaks before it was of use has failed what waits, as one that couldn't be made has:
            // otherwise a server that closes what it accepts would be asked again and again.
            if let (false, End::Broken(fault)) = (sent, &end) {
                self.fail(fault, |_| true);
            }
        }
    }

    /// Waits for a batch; says no when the pipeline is closed.
    async fn wait_for_work(&self) -> bool {
        std::future::poll_fn(|cx| {
            let mut queue = lock(&self.shared.queue);
            if queue.closed {
                return Poll::Ready(false);
            }
            if queue.front().is_some() {
                return Poll::Ready(true);
            }
            queue.idle = Some(cx.waker().clone());
            Poll::Pending
        })
        .await
    }

    /// Connects once for what waits, within the first batch's time, or fails what waits.
    async fn connect(&self) -> Option<Link> {
        let limit = self.host.limits().timeout;
        let deadline = lock(&self.shared.queue).front()?.arrived + limit;
        let left = deadline.saturating_duration_since(Instant::now());
        let shared = &self.shared;
        let connecting = timeout_at(deadline, async {
            let mut link = shared.servers.connect(&shared.settings, shared.name, left).await?;
            if let Some(inbox) = &shared.inbox {
                link.listen(&format!("{inbox}.*"), SHARED_SID).await?;
            }
            Ok::<_, Fault>(link)
        });
        let mut connecting = pin!(connecting);
        let connected = std::future::poll_fn(|cx| {
            let mut queue = lock(&self.shared.queue);
            if queue.closed {
                return Poll::Ready(None);
            }
            queue.idle = Some(cx.waker().clone());
            drop(queue);
            connecting.as_mut().poll(cx).map(Some)
        });
        let (fault, expired) = match connected.await? {
            Ok(Ok(link)) => return Some(link),
            Ok(Err(fault)) => (fault, false),
            Err(_) => (Fault::timeout(Outcome::NotApplied), true),
        };
        let now = Instant::now();
        self.fail(&fault, |pending| !expired || pending.arrived + limit <= now);
        None
    }

    /// Fails those at the front of the queue of which this is true.
    fn fail(&self, fault: &Fault, is_due: impl Fn(&Pending) -> bool) {
        let mut failed = Vec::new();
        let mut queue = lock(&self.shared.queue);
        while queue.front().is_some_and(&is_due) {
            failed.extend(queue.pop(0));
        }
        drop(queue);
        for mut pending in failed {
            pending.fail(fault.clone());
        }
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        let mut queue = lock(&self.shared.queue);
        queue.running = false;
        queue.facts = None;
        let waiting = queue.drain();
        let closed = queue.closed;
        drop(queue);
        for mut pending in waiting {
            if closed {
                pending.fail(Fault::closed(Outcome::NotApplied));
            }
        }
        let fault = if closed { Fault::closed(Outcome::Unknown) } else { Fault::task_ended().sent() };
        lock(&self.shared.requests).fail_sent(&fault);
    }
}

/// One connection in use.
struct Session<'a> {
    shared: &'a Shared,
    timeout: std::time::Duration,
    heartbeat: std::time::Duration,
    link: Link,
    /// How much of the last flight was written.
    writing: Option<usize>,
    flights: VecDeque<Flight>,
    /// Answers to the server's own questions, and how much of them was written.
    answers: (Vec<u8>, usize),
    timer: Option<Pin<Box<Sleep>>>,
    yielded: bool,
    /// How many messages the last batch had.
    last: usize,
    /// Whether a byte of a batch was written.
    sent: bool,
    heard: Instant,
}

/// A batch that is sent, or is being sent, and when its confirmation is late.
struct Flight {
    pending: Pending,
    deadline: Instant,
    /// Whether the server is asked for a sign of life behind it. A request by itself has its reply.
    asks: bool,
}

impl<'a> Session<'a> {
    fn new(task: &'a Task, link: Link) -> Self {
        let limits = task.host.limits();
        Self {
            shared: &task.shared,
            timeout: limits.timeout,
            heartbeat: limits.heartbeat,
            link,
            writing: None,
            flights: VecDeque::new(),
            answers: (Vec::new(), 0),
            timer: None,
            yielded: false,
            last: 0,
            sent: false,
            heard: Instant::now(),
        }
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<End> {
        loop {
            if let Err(fault) = self.read(cx).and_then(|()| self.write(cx)) {
                return Poll::Ready(End::Broken(fault));
            }
            if self.writing.is_none() && self.answers.0.is_empty() && self.flights.len() < MOST_IN_FLIGHT {
                match self.take(cx) {
                    Poll::Ready(Some(pending)) => {
                        let deadline = pending.arrived + self.timeout;
                        self.launch(pending, deadline);
                        continue;
                    }
                    Poll::Ready(None) => return Poll::Ready(End::Closed),
                    Poll::Pending => {}
                }
            } else {
                let mut queue = lock(&self.shared.queue);
                if queue.closed {
                    return Poll::Ready(End::Closed);
                }
                queue.idle = Some(cx.waker().clone());
            }
            if !self.is_late(cx) {
                return Poll::Pending;
            }
            // Nothing can be asked in the middle of something that is being written.
            let is_between = self.writing.is_none() && self.answers.0.is_empty();
            if !is_between || self.flights.iter().any(|flight| flight.asks) {
                return Poll::Ready(End::TimedOut);
            }
            // Someone waits for a reply, and nothing was heard for a while.
            let pending = lock(&self.shared.queue).empty();
            // It is answered behind what the server takes before, which may be large.
            let soon = Instant::now() + self.heartbeat.min(self.timeout);
            let deadline = self.flights.front().map_or(soon, |flight| flight.deadline.max(soon));
            self.launch(pending, deadline);
        }
    }

    /// Takes the next batch, once those who are about to append to it have had their turn. A caller who is alone, as
    /// the last one was, has nobody to wait for.
    fn take(&mut self, cx: &mut Context<'_>) -> Poll<Option<Pending>> {
        let mut queue = lock(&self.shared.queue);
        if queue.closed {
            return Poll::Ready(None);
        }
        if queue.front().is_none() {
            queue.idle = Some(cx.waker().clone());
            return Poll::Pending;
        }
        let lone = self.last <= 1 && self.flights.is_empty();
        if !lone && queue.may_grow() && !std::mem::replace(&mut self.yielded, true) {
            drop(queue);
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        self.yielded = false;
        Poll::Ready(queue.pop(self.flights.iter().map(|flight| flight.pending.count()).sum()))
    }

    fn launch(&mut self, mut pending: Pending, deadline: Instant) {
        self.last = pending.count();
        // One that says nothing of it is asked.
        let most = Some(self.link.info.max_payload).filter(|most| *most > 0).unwrap_or(usize::MAX);
        let asks = !self.flights.is_empty() || !pending.is_request(most);
        pending.seal(most, asks);
        pending.fail(Fault::task_ended().sent());
        self.writing = Some(0);
        self.flights.push_back(Flight { pending, deadline, asks });
    }

    fn write(&mut self, cx: &mut Context<'_>) -> Result<(), Fault> {
        if let (Some(from), Some(flight)) = (&mut self.writing, self.flights.back()) {
            let written = self.link.poll_write(cx, &flight.pending.bytes, from);
            self.sent |= *from > 0;
            if written?.is_pending() {
                return Ok(());
            }
            self.writing = None;
        }
        let (bytes, from) = &mut self.answers;
        if !bytes.is_empty() && self.link.poll_write(cx, bytes, from)?.is_ready() {
            bytes.clear();
            *from = 0;
        }
        Ok(())
    }

    fn read(&mut self, cx: &mut Context<'_>) -> Result<(), Fault> {
        loop {
            let filled = self.link.poll_fill(cx);
            if matches!(filled, Poll::Ready(Ok(()))) {
                self.heard = Instant::now();
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
            Op::Message(message) => {
                let token = lock(&self.shared.requests).receive(message);
                let is_answer =
                    |flight: &Flight| !flight.asks && token.is_some_and(|token| flight.pending.is_of(token));
                if self.written() > 0 && self.flights.front().is_some_and(is_answer) {
                    self.confirm(1);
                }
            }
            Op::Pong => {
                // It confirms what was sent before, too, and doesn't come before its own question was written.
                let asked = self.flights.iter().take(self.written()).position(|flight| flight.asks);
                self.confirm(asked.ok_or_else(Fault::malformed)? + 1);
            }
            Op::Ping => {
                if self.answers.0.len() > MOST_UNWRITTEN_BYTES {
                    return Err(Fault::malformed());
                }
                self.answers.0.extend_from_slice(wire::PONG);
            }
            Op::Complaint(text) => match Complaint::read(&text) {
                Complaint::Fatal(fault) => return Err(fault),
                Complaint::Publish(subject) => {
                    let fault = Fault::no_right_to_publish(&subject);
                    let refused = self.flights.iter_mut().position(|flight| flight.pending.refuse(&subject, &fault));
                    // One by itself has no other answer.
                    if refused == Some(0) && self.written() > 0 && !self.flights[0].asks {
                        self.confirm(1);
                    }
                }
                Complaint::Subscribe(subject) => {
                    let fault = Fault::no_right_to_reply();
                    // The right was taken away, and the server has dropped what replies come by: none ever does here.
                    let inbox = self.shared.inbox.as_deref();
                    if inbox.is_some_and(|inbox| subject.strip_prefix(inbox) == Some(".*")) {
                        return Err(fault);
                    }
                    lock(&self.shared.requests).fail_sent(&fault.sent());
                }
                Complaint::Subscriptions | Complaint::Other => {}
            },
            // A server that is about to end is used until then: what is sent is confirmed one by one.
            Op::Info(info) => self.link.info.max_payload = info.max_payload,
            Op::Ok => {}
        }
        Ok(())
    }

    /// How many flights were written whole.
    fn written(&self) -> usize {
        self.flights.len() - usize::from(self.writing.is_some())
    }

    /// The server has taken the first of them.
    fn confirm(&mut self, count: usize) {
        for flight in self.flights.drain(..count) {
            let bytes = flight.pending.confirm();
            lock(&self.shared.queue).recycle(bytes);
        }
    }

    /// When the first answer is late that was asked for; without one, when a sign of life is due for those who wait for
    /// replies.
    fn deadline(&self) -> Option<Instant> {
        if let Some(flight) = self.flights.iter().find(|flight| flight.asks) {
            return Some(flight.deadline);
        }
        if self.writing.is_some() {
            return self.flights.back().map(|flight| flight.deadline);
        }
        let waits = !self.flights.is_empty() || lock(&self.shared.requests).any_sent();
        waits.then(|| self.heard + self.heartbeat)
    }

    fn is_late(&mut self, cx: &mut Context<'_>) -> bool {
        while let Some(deadline) = self.deadline() {
            let timer = self.timer.get_or_insert_with(|| Box::pin(sleep_until(deadline)));
            // One that is set for earlier is set again when it rings.
            if timer.deadline() > deadline {
                timer.as_mut().reset(deadline);
            }
            if timer.as_mut().poll(cx).is_pending() {
                return false;
            }
            if deadline <= Instant::now() {
                return true;
            }
            timer.as_mut().reset(deadline);
        }
        false
    }

    /// Fails what is in flight; what wasn't sent waits for another connection.
    fn end(mut self, end: &End) {
        let now = Instant::now();
        if self.writing == Some(0)
            && let Some(Flight { mut pending, deadline, .. }) = self.flights.pop_back()
        {
            let unsent = match end {
                End::Closed => Some(Fault::closed(Outcome::NotApplied)),
                End::TimedOut if deadline <= now => Some(Fault::timeout(Outcome::NotApplied)),
                _ => None,
            };
            match unsent {
                Some(fault) => pending.fail(fault),
                None => lock(&self.shared.queue).put_back(pending),
            }
        }
        for Flight { pending, deadline, .. } in &mut self.flights {
            pending.fail(match end {
                End::Closed => Fault::closed(Outcome::Unknown),
                End::Broken(fault) => fault.sent(),
                End::TimedOut if *deadline <= now => Fault::timeout(Outcome::Unknown),
                End::TimedOut => given_up(),
            });
        }
        self.flights.clear();
        let fault = match end {
            End::Closed => Fault::closed(Outcome::Unknown),
            End::Broken(fault) => fault.sent(),
            End::TimedOut => given_up(),
        };
        lock(&self.shared.requests).fail_sent(&fault);
    }
}

fn given_up() -> Fault {
    let text = "the connection was given up, since it didn't answer in time";
    Fault::new(ErrorKind::Unavailable, Outcome::Unknown, text)
}
