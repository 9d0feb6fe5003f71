//! The task of a pipeline's connection: connects when there is something to send, writes batches, reads replies.

use std::collections::VecDeque;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use tokio::time::{Instant, Sleep, sleep_until, timeout_at};

use super::super::fault::Fault;
use super::super::link::Link;
use super::batch::{Pending, Queue, Replies};
use super::{Answer, Shared};
use crate::broker::lock;
use crate::capability::Host;
use crate::error::{ErrorKind, Outcome};

/// So many batches may be without replies at once.
const MOST_IN_FLIGHT: usize = 8;

pub(super) struct Task<R: Answer> {
    host: Host,
    shared: Arc<Shared<R>>,
}

/// Why a connection isn't used any further.
enum End {
    Closed,
    Broken(Fault),
    TimedOut,
    /// The server said what only another connection can mend.
    Unfit,
}

impl<R: Answer> Task<R> {
    /// Makes the one task of a pipeline, whose `running` was set for it.
    pub(super) fn new(host: Host, shared: Arc<Shared<R>>) -> Self {
        Self { host, shared }
    }

    /// Serves until the pipeline is closed.
    pub(super) async fn run(self) {
        while self.wait_for_work().await {
            let Some(link) = self.connect().await else { continue };
            *lock(&self.shared.line) = Some(Line::new(link));
            let mut session =
                Session { shared: &self.shared, timeout: self.host.limits().timeout, timer: None, yielded: false };
            let end = std::future::poll_fn(|cx| session.poll(cx)).await;
            let Some(ended) = self.hang_up() else { return };
            let sent = ended.sent;
            session.end(ended, &end);
            // A connection that breaks before it was of use has failed what waits, as one that couldn't be made has:
            // otherwise a server that closes what it accepts would be asked again and again.
            if let (false, End::Broken(fault)) = (sent, &end) {
                self.fail(fault, |_| true);
            }
        }
    }

    /// Takes the connection out of use.
    fn hang_up(&self) -> Option<Line<R>> {
        let line = lock(&self.shared.line).take();
        let mut queue = lock(&self.shared.queue);
        (queue.busy, queue.left) = (false, false);
        line
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
        let connecting = timeout_at(deadline, async {
            let mut link = Link::connect(&self.shared.settings, &self.shared.endpoint, left).await?;
            if let Some(greeting) = self.shared.confirm.as_ref().and_then(|confirm| confirm.greeting.as_ref()) {
                link.send(&greeting.bytes, greeting.word).await?;
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
    fn fail(&self, fault: &Fault, is_due: impl Fn(&Pending<R>) -> bool) {
        let mut failed = Vec::new();
        let mut queue = lock(&self.shared.queue);
        while queue.front().is_some_and(&is_due) {
            failed.extend(queue.pop());
        }
        drop(queue);
        for mut pending in failed {
            pending.replies.fail(fault.clone());
        }
    }
}

impl<R: Answer> Drop for Task<R> {
    fn drop(&mut self) {
        drop(self.hang_up());
        let mut queue = lock(&self.shared.queue);
        queue.running = false;
        let waiting = queue.drain();
        let closed = queue.closed;
        drop(queue);
        for mut pending in waiting {
            if closed {
                pending.replies.fail(Fault::closed(Outcome::NotApplied));
            }
        }
    }
}

/// The task's side of a connection in use.
struct Session<'a, R: Answer> {
    shared: &'a Shared<R>,
    timeout: std::time::Duration,
    /// Set for a flight's deadline. Later ones are later, so it is set again only when it rings.
    timer: Option<Pin<Box<Sleep>>>,
    yielded: bool,
}

/// A connection in use, which its task reads from, and callers write to as well.
pub(super) struct Line<R> {
    link: Link,
    /// The last flight's bytes, and how many of them were written.
    writing: Option<(Vec<u8>, usize)>,
    flights: VecDeque<Flight<R>>,
    /// How many commands the last batch had.
    last: usize,
    /// Whether a byte was written.
    sent: bool,
    unfit: bool,
    /// Whether the task's timer will ring.
    pub(super) armed: bool,
    /// What a caller met.
    fault: Option<Fault>,
}

/// A batch that is sent, or is being sent.
struct Flight<R> {
    replies: Replies<R>,
    arrived: Instant,
}

impl<R: Answer> Session<'_, R> {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<End> {
        let mut line = lock(&self.shared.line);
        let Some(line) = &mut *line else { return Poll::Ready(End::Closed) };
        let read = line.read(self.shared, cx);
        if let Some(fault) = line.fault.take().or(read.err()) {
            return Poll::Ready(End::Broken(fault));
        }
        if line.unfit && line.flights.is_empty() {
            return Poll::Ready(End::Unfit);
        }
        if let Err(fault) = line.write(self.shared, cx, std::mem::take(&mut self.yielded)) {
            return Poll::Ready(End::Broken(fault));
        }
        let mut queue = lock(&self.shared.queue);
        if queue.closed {
            return Poll::Ready(End::Closed);
        }
        queue.left = false;
        if !queue.busy && queue.front().is_some() {
            // Those who are about to append to it have their turn first.
            self.yielded = true;
            cx.waker().wake_by_ref();
        } else {
            queue.idle = Some(cx.waker().clone());
        }
        drop(queue);
        if self.is_late(line, cx) { Poll::Ready(End::TimedOut) } else { Poll::Pending }
    }

    /// Says whether the first batch's time has passed.
    fn is_late(&mut self, line: &mut Line<R>, cx: &mut Context<'_>) -> bool {
        while let Some(flight) = line.flights.front() {
            let deadline = flight.arrived + self.timeout;
            let timer = self.timer.get_or_insert_with(|| Box::pin(sleep_until(deadline)));
            if timer.as_mut().poll(cx).is_pending() {
                line.armed = true;
                return false;
            }
            if deadline <= Instant::now() {
                return true;
            }
            timer.as_mut().reset(deadline);
        }
        line.armed = self.timer.as_mut().is_some_and(|timer| timer.as_mut().poll(cx).is_pending());
        false
    }

    /// Fails what is in flight; what wasn't sent waits for another connection.
    fn end(&self, mut line: Line<R>, end: &End) {
        let now = Instant::now();
        if let Some((bytes, 0)) = line.writing.take()
            && let Some(Flight { mut replies, arrived }) = line.flights.pop_back()
        {
            let unsent = match end {
                End::Closed => Some(Fault::closed(Outcome::NotApplied)),
                End::TimedOut if arrived + self.timeout <= now => Some(Fault::timeout(Outcome::NotApplied)),
                _ => None,
            };
            match unsent {
                Some(fault) => replies.fail(fault),
                None => lock(&self.shared.queue).put_back(bytes, replies, arrived),
            }
        }
        for flight in &mut line.flights {
            flight.replies.fail(match end {
                End::Closed => Fault::closed(Outcome::Unknown),
                End::Broken(fault) => fault.sent(),
                End::TimedOut if flight.arrived + self.timeout <= now => Fault::timeout(Outcome::Unknown),
                End::TimedOut | End::Unfit => {
                    let text = "the connection was given up, since it didn't answer an earlier command in time";
                    Fault::new(ErrorKind::Unavailable, Outcome::Unknown, text)
                }
            });
        }
    }
}

impl<R: Answer> Line<R> {
    pub(super) fn new(link: Link) -> Self {
        Self {
            link,
            writing: None,
            flights: VecDeque::new(),
            last: 0,
            sent: false,
            unfit: false,
            armed: false,
            fault: None,
        }
    }

    /// Writes what shouldn't wait, and says whether nothing is left for the task, which is who waits for the connection. What
    /// is being written is the task's: a caller who tried would take its place among those that the connection wakes.
    pub(super) fn write_for_caller(&mut self, shared: &Shared<R>) -> bool {
        if self.fault.is_none() && self.writing.is_none() {
            self.fault = self.write(shared, &mut Context::from_waker(Waker::noop()), false).err();
        }
        let is_done = self.fault.is_none() && self.writing.is_none() && self.armed;
        if !is_done {
            lock(&shared.queue).left = true;
        }
        is_done
    }

    /// Writes batches that are due, while it can, and then one that isn't if those who are about to append to it have had
    /// their turn.
    fn write(&mut self, shared: &Shared<R>, cx: &mut Context<'_>, mut waited: bool) -> Result<(), Fault> {
        loop {
            let mut written = None;
            if let Some((bytes, from)) = &mut self.writing {
                let wrote = self.link.poll_write(cx, bytes, from);
                self.sent |= *from > 0;
                if wrote?.is_ready() {
                    written = self.writing.take();
                }
            }
            let mut queue = lock(&shared.queue);
            if let Some((bytes, _)) = written {
                queue.recycle(bytes);
            }
            self.tell(&mut queue);
            // A caller who is alone, as the last one was, has nobody to wait for.
            let lone = self.last <= 1 && self.flights.is_empty();
            if queue.closed || queue.busy || !(queue.is_due() || lone || std::mem::take(&mut waited)) {
                return Ok(());
            }
            let Some(pending) = queue.pop() else { return Ok(()) };
            drop(queue);
            self.launch(shared, pending);
        }
    }

    /// Tells those who append what the connection has to do.
    fn tell(&self, queue: &mut Queue<R>) {
        queue.unanswered = self.flights.iter().map(|flight| flight.replies.expected).sum();
        queue.busy = self.writing.is_some() || self.flights.len() >= MOST_IN_FLIGHT || self.unfit;
    }

    fn launch(&mut self, shared: &Shared<R>, mut pending: Pending<R>) {
        if let Some(confirm) = &shared.confirm {
            pending.seal(confirm);
        }
        let Pending { bytes, mut replies, arrived, .. } = pending;
        self.last = replies.expected;
        replies.fail(Fault::unreachable("the connection's task ended").sent());
        self.writing = Some((bytes, 0));
        self.flights.push_back(Flight { replies, arrived });
    }

    fn read(&mut self, shared: &Shared<R>, cx: &mut Context<'_>) -> Result<(), Fault> {
        let flights = self.flights.len();
        loop {
            let filled = self.link.poll_fill(cx);
            loop {
                let Some(flight) = self.flights.front_mut() else {
                    if self.link.has_reply()? {
                        return Err(Fault::malformed());
                    }
                    break;
                };
                let Some(reply) = self.link.reply(|| flight.replies.word())? else { break };
                self.unfit |= reply.as_ref().is_err_and(|fault| fault.unfit);
                if flight.replies.receive(reply) {
                    self.flights.pop_front();
                }
            }
            if filled?.is_pending() {
                break;
            }
        }
        if self.flights.len() < flights {
            self.tell(&mut lock(&shared.queue));
        }
        Ok(())
    }
}
