//! Commands that many callers have waiting at once go out as one write, and each caller gets its own reply.

mod batch;
mod session;

use std::sync::{Arc, Mutex, TryLockError};
use std::task::Waker;

use bytes::BytesMut;

use super::fault::Fault;
use super::link::pack;
use super::settings::Settings;
use super::url::Endpoint;
use crate::broker::lock;
use crate::capability::{Host, Outgoing};
use crate::error::{ErrorKind, Outcome};

use batch::{Caller, Queue};
use session::{Line, Task};

/// What the commands of one pipeline are answered with.
pub(super) trait Answer: Clone + Send + 'static {
    /// Takes a reply that isn't an error: the first `length` bytes, which it leaves out of the buffer.
    fn take(unread: &mut BytesMut, length: usize) -> Result<Self, Fault>;
}

/// One command on its way out, with one reply.
pub(super) trait Command {
    /// Its name, for errors.
    fn word(&self) -> &'static str;

    /// Appends it as it goes over the wire.
    fn write(&self, out: &mut Vec<u8>);
}

/// A message, and `PUBLISH` or `SPUBLISH`.
pub(super) struct Publish<'a>(pub(super) &'static str, pub(super) &'a Outgoing);

impl Command for Publish<'_> {
    fn word(&self) -> &'static str {
        self.0
    }

    fn write(&self, out: &mut Vec<u8>) {
        pack(out, [self.0.as_bytes(), self.1.channel.as_bytes(), &self.1.payload].into_iter());
    }
}

/// A command that was written already.
pub(super) struct Packed {
    pub(super) word: &'static str,
    pub(super) bytes: Vec<u8>,
}

impl Command for Packed {
    fn word(&self) -> &'static str {
        self.word
    }

    fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.bytes);
    }
}

/// What makes sure of a batch: a command behind it, whose reply decides over all of them.
pub(super) struct Confirm<R> {
    /// Says why a connection can't be used for this, before anything is sent on it.
    pub(super) greeting: Option<Packed>,
    pub(super) command: Packed,
    pub(super) check: Check<R>,
}

/// Says what is wrong with a confirmation.
pub(super) type Check<R> = Box<dyn Fn(&R) -> Result<(), Fault> + Send + Sync>;

/// A connection to one node, opened by the first command. Dropping it closes the connection.
pub(super) struct Pipeline<R: Answer> {
    host: Host,
    shared: Arc<Shared<R>>,
}

struct Shared<R: Answer> {
    settings: Arc<Settings>,
    endpoint: Endpoint,
    /// The task's name.
    name: &'static str,
    confirm: Option<Arc<Confirm<R>>>,
    queue: Mutex<Queue<R>>,
    /// The connection, while there is one. Whoever locks the queue as well locks this before.
    line: Mutex<Option<Line<R>>>,
}

impl<R: Answer> Pipeline<R> {
    pub(super) fn new(host: Host, settings: Arc<Settings>, endpoint: Endpoint, name: &'static str) -> Self {
        let queue = Mutex::default();
        Self {
            host,
            shared: Arc::new(Shared { settings, endpoint, name, confirm: None, queue, line: Mutex::default() }),
        }
    }

    /// Has each batch confirmed.
    pub(super) fn confirmed(mut self, confirm: Confirm<R>) -> Self {
        if let Some(shared) = Arc::get_mut(&mut self.shared) {
            shared.confirm = Some(Arc::new(confirm));
        }
        self
    }

    /// Sends one command. A caller that stops waiting harms no other; its command goes out nevertheless. At most as
    /// many such are kept as there may be operations.
    pub(super) async fn call(&self, command: &impl Command) -> Result<R, Fault> {
        let (batch, place) = self.append(|queue| queue.push(command))?;
        let caller = Caller::new(batch.clone());
        let reply = std::future::poll_fn(|cx| batch.poll_one(place, cx)).await;
        caller.finish();
        reply
    }

    /// Sends several commands, one after another.
    pub(super) async fn call_all(
        &self,
        commands: impl ExactSizeIterator<Item = impl Command>,
    ) -> Vec<Result<R, Fault>> {
        let count = commands.len();
        let appended = self.append(|queue| {
            let mut runs: Vec<(_, std::ops::Range<usize>)> = Vec::new();
            for command in commands {
                let (batch, place) = queue.push(&command);
                match runs.last_mut() {
                    Some((last, places)) if Arc::ptr_eq(last, &batch) => places.end = place + 1,
                    _ => runs.push((batch, place..place + 1)),
                }
            }
            runs
        });
        let runs = match appended {
            Ok(runs) => runs,
            Err(fault) => return (0..count).map(|_| Err(fault.clone())).collect(),
        };
        // The last batch is the last to be done.
        let caller = runs.last().map(|(last, _)| Caller::new(last.clone()));
        let mut replies = Vec::with_capacity(count);
        for (batch, places) in runs {
            replies.extend(std::future::poll_fn(|cx| batch.poll_range(places.clone(), cx)).await);
        }
        if let Some(caller) = caller {
            caller.finish();
        }
        replies
    }

    /// Sends one command whose reply nobody waits for, where there is a runtime still.
    pub(super) fn post(&self, command: &impl Command) {
        if tokio::runtime::Handle::try_current().is_ok() {
            // A closed connection sends nothing.
            let _ = self.append(|queue| queue.push(command));
        }
    }

    /// Appends to the queue, and sees to it that the task runs.
    fn append<T>(&self, append: impl FnOnce(&mut Queue<R>) -> T) -> Result<T, Fault> {
        let mut queue = lock(&self.shared.queue);
        if queue.closed {
            return Err(Fault::closed(Outcome::NotApplied));
        }
        if queue.abandoned() >= self.host.limits().operations {
            let text = "as many commands as `operations` were given up by their callers and wait for the server still";
            return Err(Fault::new(ErrorKind::Overloaded, Outcome::NotApplied, text));
        }
        let appended = append(&mut queue);
        let idle = if queue.busy { None } else { queue.idle.take() };
        let is_due = !queue.busy && queue.is_due();
        let start = !std::mem::replace(&mut queue.running, true);
        drop(queue);
        if start {
            let task = Task::new(self.host.clone(), self.shared.clone());
            self.host.spawn(self.shared.name, task.run());
        }
        if idle.is_some() || is_due {
            self.shared.write(idle);
        }
        Ok(appended)
    }

    /// Closes the connection; what waits fails.
    pub(super) fn close(&self) {
        let mut queue = lock(&self.shared.queue);
        queue.closed = true;
        let idle = queue.idle.take();
        drop(queue);
        if let Some(idle) = idle {
            idle.wake();
        }
    }
}

impl<R: Answer> Shared<R> {
    /// Writes what shouldn't wait any longer from within a caller, who needn't wait for the connection's task to have its
    /// turn then. The rest is that task's, which is woken for it by the waker it left: this caller has it, or another, who
    /// looks at what is left before it puts it back.
    fn write(&self, idle: Option<Waker>) {
        let line = match self.line.try_lock() {
            Ok(line) => Some(line),
            Err(TryLockError::Poisoned(line)) => Some(line.into_inner()),
            // The task is at it, or another caller.
            Err(TryLockError::WouldBlock) if idle.is_none() => return,
            Err(TryLockError::WouldBlock) => None,
        };
        let is_done = line.is_some_and(|mut line| line.as_mut().is_some_and(|line| line.write_for_caller(self)));
        if is_done && idle.is_none() {
            return;
        }
        let mut queue = lock(&self.queue);
        if is_done && !queue.left && !queue.closed && (queue.busy || queue.front().is_none()) {
            // A newer one may be there.
            queue.idle = queue.idle.take().or(idle);
            return;
        }
        let idle = idle.or_else(|| queue.idle.take());
        drop(queue);
        if let Some(idle) = idle {
            idle.wake();
        }
    }
}

impl<R: Answer> Drop for Pipeline<R> {
    fn drop(&mut self) {
        self.close();
    }
}

/// A number, which is what `PUBLISH` answers.
impl Answer for u64 {
    fn take(unread: &mut BytesMut, length: usize) -> Result<Self, Fault> {
        use bytes::Buf as _;
        let [b':', digits @ .., b'\r', b'\n'] = &unread[..length] else { return Err(Fault::malformed()) };
        let number = super::resp::signed(digits).ok_or_else(Fault::malformed)?;
        unread.advance(length);
        Self::try_from(number).map_err(|_| Fault::malformed())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Wake;

    use super::super::link::Link;
    use super::super::url;
    use super::*;

    #[derive(Default)]
    struct Woken(AtomicUsize);

    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    /// A connection whose other end takes so many bytes, and the waker of its task.
    fn connected(bytes: usize) -> (Shared<u64>, tokio::io::DuplexStream, Arc<Woken>) {
        let address = url::parse("redis://localhost").unwrap();
        let endpoint = address.endpoint.clone();
        let (near, far) = Link::taking(bytes);
        let mut line = Line::new(near);
        line.armed = true;
        let shared = Shared {
            settings: Arc::new(Settings::new(address)),
            endpoint,
            name: "test",
            confirm: None,
            queue: Mutex::default(),
            line: Mutex::new(Some(line)),
        };
        (shared, far, Arc::default())
    }

    fn push(shared: &Shared<u64>) {
        lock(&shared.queue).push(&Packed { word: "ASK", bytes: vec![b'?'; 64] });
    }

    #[tokio::test]
    async fn a_task_for_which_nothing_is_left_sleeps_on() {
        let (shared, _far, woken) = connected(1_000);
        push(&shared);
        shared.write(Some(woken.clone().into()));
        assert!(lock(&shared.queue).front().is_none());
        assert!(lock(&shared.queue).idle.is_some());
        assert_eq!(woken.0.load(Ordering::SeqCst), 0);
    }

    #[tokio::test]
    async fn a_task_is_woken_for_what_a_caller_without_its_waker_couldnt_write() {
        let (shared, _far, woken) = connected(10);
        // Another caller had it, and has put it back.
        lock(&shared.queue).idle = Some(woken.clone().into());
        push(&shared);
        shared.write(None);
        assert!(lock(&shared.queue).busy);
        assert_eq!(woken.0.load(Ordering::SeqCst), 1);
    }

    #[tokio::test]
    async fn a_task_is_woken_by_who_puts_its_waker_back_for_what_another_left() {
        let (shared, _far, woken) = connected(10);
        push(&shared);
        // The other has written while this one had the waker, and saw nobody to wake.
        shared.write(None);
        assert!(lock(&shared.queue).left);
        shared.write(Some(woken.clone().into()));
        assert_eq!(woken.0.load(Ordering::SeqCst), 1);
        assert!(lock(&shared.queue).idle.is_none());
    }
}
