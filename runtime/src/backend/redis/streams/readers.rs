//! Reads that may wait: each on a connection of its own while it lasts, which is kept for the next.

use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{Instant, sleep, sleep_until, timeout, timeout_at};

use super::super::fault::Fault;
use super::super::link::Link;
use super::super::pipeline::{Packed, Pipeline};
use super::super::settings::Settings;
use super::super::url::Endpoint;
use super::{Permit, packed};
use crate::broker::lock;
use crate::capability::Host;
use crate::error::{ErrorKind, Outcome};

/// A connection that nobody has used for so long is closed.
const KEPT: Duration = Duration::from_mins(1);
/// So long a close waits for what a server may just be handing out, and for that to be given back.
const LINGER: Duration = Duration::from_millis(500);

/// One node's reading connections.
pub(super) struct Readers {
    host: Host,
    shared: Arc<Shared>,
    /// Dropped, it ends the tasks.
    closing: watch::Sender<bool>,
}

struct Shared {
    settings: Arc<Settings>,
    endpoint: Endpoint,
    /// Over which a connection that waits is told to stop.
    control: Arc<Pipeline<Bytes>>,
    /// The tasks that have nothing to do.
    idle: Mutex<Vec<mpsc::Sender<Work>>>,
}

/// Commands to be sent at once, of which the first may wait on the server.
pub(super) struct Job {
    pub(super) bytes: Vec<u8>,
    /// The commands' words.
    pub(super) words: Vec<&'static str>,
    /// When the server is told to wait no longer.
    pub(super) enough: Instant,
    /// Held as long as the connection is in use.
    pub(super) permit: Permit,
    /// What is to become of replies that nobody takes.
    pub(super) unclaimed: Option<Unclaimed>,
}

type GiveBack = Box<dyn Fn(&[Result<Bytes, Fault>]) -> Vec<Packed> + Send>;

/// What is done with replies that nobody takes: their entries are given back.
pub(super) struct Unclaimed {
    /// The commands that do so.
    pub(super) commands: GiveBack,
    pub(super) returning: Arc<Returning>,
}

/// One read whose entries may have to be given back. It counts from when nobody wants them until they are.
pub(super) struct Returning {
    reads: watch::Sender<usize>,
    counted: AtomicBool,
}

impl Returning {
    pub(super) fn new(reads: watch::Sender<usize>) -> Self {
        Self { reads, counted: AtomicBool::new(false) }
    }

    fn begin(&self) {
        if !self.counted.swap(true, Ordering::Relaxed) {
            self.reads.send_modify(|reads| *reads += 1);
        }
    }
}

impl Drop for Returning {
    fn drop(&mut self) {
        if *self.counted.get_mut() {
            self.reads.send_modify(|reads| *reads -= 1);
        }
    }
}

/// The replies to a job's commands. Dropped without having been taken, what they hand out is given back.
pub(super) struct Replies {
    all: Vec<Result<Bytes, Fault>>,
    unclaimed: Option<(Unclaimed, Arc<Shared>, Host)>,
    /// Held as long as something may have to be given back, which a close waits for.
    closing: watch::Receiver<bool>,
}

impl Replies {
    pub(super) fn get(&self) -> &[Result<Bytes, Fault>] {
        &self.all
    }

    /// Says that whoever asked has what is in them.
    pub(super) fn taken(&mut self) {
        self.unclaimed = None;
    }
}

impl Drop for Replies {
    fn drop(&mut self) {
        let Some((unclaimed, shared, host)) = self.unclaimed.take() else { return };
        let commands = (unclaimed.commands)(&self.all);
        // Without a runtime there is no connection left either.
        if commands.is_empty() || tokio::runtime::Handle::try_current().is_err() {
            return;
        }
        unclaimed.returning.begin();
        let closing = self.closing.clone();
        host.spawn("redis give-back", async move {
            // One that fails leaves its entries pending, as the end of the process would.
            shared.control.call_all(commands.into_iter()).await;
            drop((unclaimed, closing));
        });
    }
}

type Answer = Result<Replies, Fault>;

/// A job under way.
pub(super) struct Running {
    answer: oneshot::Receiver<Answer>,
    enough: Option<oneshot::Sender<()>>,
    returning: Option<Arc<Returning>>,
}

impl Drop for Running {
    fn drop(&mut self) {
        // Before the answer's receiver is gone.
        if let Some(returning) = self.returning.take() {
            returning.begin();
        }
    }
}

impl Running {
    /// Has the server wait no longer; the answer comes soon.
    pub(super) fn stop_waiting(&mut self) {
        self.enough = None;
    }

    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Answer> {
        let ended = || Err(Fault::unreachable("the connection's task ended").sent());
        let answer = pin!(&mut self.answer).poll(cx).map(|answer| answer.unwrap_or_else(|_| ended()));
        if answer.is_ready() {
            self.returning = None;
        }
        answer
    }
}

struct Work {
    job: Job,
    answer: oneshot::Sender<Answer>,
    /// Ends when whoever asked doesn't want to wait any longer.
    enough: oneshot::Receiver<()>,
}

impl Readers {
    pub(super) fn new(host: Host, settings: Arc<Settings>, endpoint: Endpoint, control: Arc<Pipeline<Bytes>>) -> Self {
        let shared = Shared { settings, endpoint, control, idle: Mutex::default() };
        Self { host, shared: Arc::new(shared), closing: watch::Sender::new(false) }
    }

    /// Hands the job to a connection.
    pub(super) fn start(&self, job: Job) -> Result<Running, Fault> {
        if *self.closing.borrow() {
            return Err(Fault::closed(Outcome::NotApplied));
        }
        let (answer, answered) = oneshot::channel();
        let (stop, enough) = oneshot::channel();
        let returning = job.unclaimed.as_ref().map(|unclaimed| unclaimed.returning.clone());
        let mut work = Work { job, answer, enough };
        let running = Running { answer: answered, enough: Some(stop), returning };
        loop {
            let Some(idle) = lock(&self.shared.idle).pop() else { break };
            match idle.try_send(work) {
                Ok(()) => return Ok(running),
                // Its task has ended meanwhile.
                Err(refused) => work = refused.into_inner(),
            }
        }
        let (sender, receiver) = mpsc::channel(1);
        // It has room for one.
        let _ = sender.try_send(work);
        let task = Task {
            host: self.host.clone(),
            shared: self.shared.clone(),
            closing: self.closing.subscribe(),
            sender,
            receiver,
            link: None,
        };
        self.host.spawn("redis reader", task.run());
        Ok(running)
    }

    pub(super) fn close(&self) {
        self.closing.send_replace(true);
        lock(&self.shared.idle).clear();
    }

    /// Whether a connection, or the giving back of what it was being handed, is left.
    pub(super) fn is_busy(&self) -> bool {
        self.closing.receiver_count() > 0
    }

    /// Returns when nothing is left, or that takes too long.
    pub(super) async fn ended(&self) {
        let _ = timeout(LINGER * 2, self.closing.closed()).await;
    }
}

impl Drop for Readers {
    fn drop(&mut self) {
        self.close();
    }
}

/// Tells whether the client was closed, again and again.
struct Closed {
    waiting: Pin<Box<dyn Future<Output = ()> + Send>>,
    closed: bool,
}

impl Closed {
    fn new(mut closing: watch::Receiver<bool>) -> Self {
        let waiting = Box::pin(async move { drop(closing.wait_for(|closing| *closing).await) });
        Self { waiting, closed: false }
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> bool {
        self.closed = self.closed || self.waiting.as_mut().poll(cx).is_ready();
        self.closed
    }
}

/// Whoever asked for a job, and for how long they want its answer.
struct Wanted {
    answer: Option<oneshot::Sender<Answer>>,
    /// Ends when whoever asked doesn't want to wait any longer.
    enough: oneshot::Receiver<()>,
    until: Instant,
    /// Whether what nobody takes has to be given back.
    hands_out: bool,
}

impl Wanted {
    fn is_over(&mut self, cx: &mut Context<'_>) -> bool {
        let gone = self.answer.as_mut().is_some_and(|answer| answer.poll_closed(cx).is_ready());
        gone || pin!(&mut self.enough).poll(cx).is_ready()
    }

    /// Tells whoever asked that the client was closed.
    fn closed(&mut self) {
        if let Some(answer) = self.answer.take() {
            let _ = answer.send(Err(Fault::closed(Outcome::Unknown)));
        }
    }
}

/// The task of one connection.
struct Task {
    host: Host,
    shared: Arc<Shared>,
    closing: watch::Receiver<bool>,
    sender: mpsc::Sender<Work>,
    receiver: mpsc::Receiver<Work>,
    link: Option<Link>,
}

impl Task {
    async fn run(mut self) {
        let mut closed = Closed::new(self.closing.clone());
        loop {
            let Some(work) = self.next(&mut closed).await else { return };
            let Work { job, answer, enough } = work;
            let Job { bytes, words, enough: until, permit, unclaimed } = job;
            let mut wanted = Wanted { answer: Some(answer), enough, until, hands_out: unclaimed.is_some() };
            let read = self.read(&bytes, &words, &mut wanted, &mut closed).await;
            let failed = read.is_err() || closed.closed;
            // The one who asked may ask again at once, and is to find this connection.
            drop(permit);
            if failed {
                self.link = None;
            } else {
                lock(&self.shared.idle).push(self.sender.clone());
            }
            let closing = self.closing.clone();
            let unclaimed = unclaimed.map(|unclaimed| (unclaimed, self.shared.clone(), self.host.clone()));
            let read = read.map(|replies| Replies { all: replies, unclaimed, closing });
            if let Some(answer) = wanted.answer.take() {
                let _ = answer.send(read);
            }
            if failed {
                return;
            }
        }
    }

    /// Waits for work. `None` where there is nothing left to do, or nothing to do it with.
    async fn next(&mut self, closed: &mut Closed) -> Option<Work> {
        let mut expired = pin!(sleep(KEPT));
        let Self { receiver, link, .. } = self;
        let next = std::future::poll_fn(|cx| {
            if closed.poll(cx) {
                return Poll::Ready(None);
            }
            if let Poll::Ready(work) = receiver.poll_recv(cx) {
                return Poll::Ready(work);
            }
            // It says nothing unasked, so this is its end.
            let ended = link.as_mut().is_some_and(|link| link.poll_fill(cx).is_ready());
            if ended || expired.as_mut().poll(cx).is_ready() { Poll::Ready(None) } else { Poll::Pending }
        })
        .await;
        if next.is_some() {
            return next;
        }
        // Whoever has taken this task from the list meanwhile has its work done still.
        lock(&self.shared.idle).retain(|idle| !idle.same_channel(&self.sender));
        let late = self.receiver.try_recv().ok();
        if late.is_some() {
            self.link = None;
        }
        late
    }

    async fn read(
        &mut self,
        bytes: &[u8],
        words: &[&'static str],
        wanted: &mut Wanted,
        closed: &mut Closed,
    ) -> Result<Vec<Result<Bytes, Fault>>, Fault> {
        let limit = self.host.limits().timeout;
        if self.link.is_none() {
            let deadline = Instant::now() + limit;
            let connecting = Link::connect(&self.shared.settings, &self.shared.endpoint, limit);
            let mut connecting = pin!(timeout_at(deadline, connecting));
            let connected = std::future::poll_fn(|cx| {
                if closed.poll(cx) {
                    return Poll::Ready(Ok(Err(Fault::closed(Outcome::NotApplied))));
                }
                connecting.as_mut().poll(cx)
            });
            self.link = Some(connected.await.map_err(|_| Fault::timeout(Outcome::NotApplied))??);
        }
        let Some(link) = &mut self.link else { return Err(Fault::malformed()) };
        let mut exchange = Exchange { link, bytes, words, written: 0, replies: Vec::with_capacity(words.len()) };
        let mut expired = pin!(sleep_until(wanted.until));
        let done = std::future::poll_fn(|cx| {
            if let Poll::Ready(done) = exchange.poll(cx) {
                return Poll::Ready(done.map(|()| true));
            }
            if closed.poll(cx) || wanted.is_over(cx) || expired.as_mut().poll(cx).is_ready() {
                return Poll::Ready(Ok(false));
            }
            Poll::Pending
        })
        .await?;
        if !done {
            if closed.closed {
                wanted.closed();
                if !wanted.hands_out {
                    return Err(Fault::closed(Outcome::Unknown));
                }
            }
            // A dead server doesn't answer this either.
            let mut late = pin!(sleep(if closed.closed { LINGER.min(limit) } else { limit }));
            let unblocking = unblock(&self.shared.control, exchange.link.client_id());
            let (mut unblocking, mut unblocked) = (pin!(unblocking), None);
            std::future::poll_fn(|cx| {
                if let Poll::Ready(done) = exchange.poll(cx) {
                    return Poll::Ready(done);
                }
                if !closed.closed && closed.poll(cx) {
                    wanted.closed();
                    if !wanted.hands_out {
                        return Poll::Ready(Err(Fault::closed(Outcome::Unknown)));
                    }
                    let lingered = Instant::now() + LINGER;
                    if lingered < late.deadline() {
                        late.as_mut().reset(lingered);
                    }
                }
                if unblocked.is_none() {
                    unblocked = match unblocking.as_mut().poll(cx) {
                        Poll::Ready(done) => Some(done),
                        Poll::Pending => None,
                    };
                }
                // The server lets a connection go that has nothing more to say, whatever it waits for.
                if let Some(Err(_)) = unblocked {
                    let _ = exchange.link.poll_shutdown(cx);
                }
                late.as_mut().poll(cx).map(|()| Err(Fault::timeout(Outcome::Unknown)))
            })
            .await?;
        }
        Ok(exchange.replies)
    }
}

/// Has the server end the wait of a connection.
async fn unblock(control: &Pipeline<Bytes>, client: Option<i64>) -> Result<(), Fault> {
    let Some(client) = client else {
        return Err(Fault::new(ErrorKind::Unavailable, Outcome::NotApplied, "the server told no id"));
    };
    control.call(&packed("CLIENT UNBLOCK", &[&client.to_string()])).await.map(drop)
}

/// A short reply of its own, so that what else is read meanwhile can go where its buffer ends and begins again.
fn unshared(reply: Bytes) -> Bytes {
    const SHORT: usize = 64;
    if reply.len() > SHORT { reply } else { Bytes::copy_from_slice(&reply) }
}

/// Commands on their way and the replies so far.
struct Exchange<'a> {
    link: &'a mut Link,
    bytes: &'a [u8],
    words: &'a [&'static str],
    written: usize,
    replies: Vec<Result<Bytes, Fault>>,
}

impl Exchange<'_> {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Fault>> {
        if self.written < self.bytes.len() {
            let written = self.link.poll_write(cx, self.bytes, &mut self.written);
            if let Poll::Ready(Err(fault)) = written {
                return Poll::Ready(Err(if self.written > 0 { fault.sent() } else { fault }));
            }
        }
        loop {
            while let Some(word) = self.words.get(self.replies.len()) {
                match self.link.reply(|| word).map_err(|fault| fault.sent())? {
                    Some(reply) => self.replies.push(reply.map(unshared)),
                    None => break,
                }
            }
            if self.replies.len() == self.words.len() {
                return Poll::Ready(Ok(()));
            }
            match self.link.poll_fill(cx) {
                Poll::Ready(Ok(())) => {}
                Poll::Ready(Err(fault)) => return Poll::Ready(Err(fault.sent())),
                Poll::Pending => return Poll::Pending,
            }
        }
    }
}
