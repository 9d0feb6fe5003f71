//! One broker's clients of the cluster: one that asks, one that appends, and the threads on which they block.
//!
//! librdkafka's calls block, and so does dropping a client. All of that happens on threads of its own, which a close waits
//! for. Only handing a record to the producer doesn't block, and is done where the caller is.

use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use rdkafka::client::{Client, ClientContext};
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::consumer::{BaseConsumer, Consumer, ConsumerContext};
use rdkafka::error::KafkaError;
use rdkafka::message::Message;
use rdkafka::metadata::Metadata;
use rdkafka::producer::{BaseProducer, BaseRecord, DeliveryResult, Producer, ProducerContext};
use rdkafka::statistics::Statistics;
use rdkafka::types::RDKafkaErrorCode as Code;
use tokio::sync::{Semaphore, oneshot};
use tokio::time::Instant;

use super::fault::{Fault, code_of};
use super::groups::{Desks, Members};
use super::log::{Readers, Recent};
use super::settings::Settings;
use super::unit::Units;
use super::waits::{Wait, Waits};
use crate::broker::lock;
use crate::capability::Host;
use crate::error::{ErrorKind, Outcome};

/// Calls that block at once; others wait for a place.
const MOST_CALLS: usize = 8;
/// How soon what failed at once is asked again.
const AGAIN: Duration = Duration::from_millis(50);
/// How soon a thread that blocks in the library notices that the broker closes.
pub(super) const SLICE: Duration = Duration::from_millis(100);

pub(super) type Asker = BaseConsumer<News>;
pub(super) type Sender = BaseProducer<News>;

/// What the clients of one broker share.
pub(super) struct Clients {
    pub(super) host: Host,
    pub(super) settings: Arc<Settings>,
    stop: Arc<AtomicBool>,
    asker: Arc<Mutex<Option<Arc<Asker>>>>,
    sender: Arc<RwLock<Option<Arc<Sender>>>>,
    /// Why the last sender had to go.
    gone: Arc<Mutex<Option<Gone>>>,
    /// One at a time makes the sender.
    sending: tokio::sync::Mutex<()>,
    calls: Arc<Semaphore>,
    pub(super) readers: Readers,
    pub(super) recent: Recent,
    pub(super) desks: Desks,
    pub(super) members: Members,
    pub(super) units: Units,
    pub(super) waits: Arc<Waits>,
}

impl Clients {
    pub(super) fn new(host: Host, settings: Arc<Settings>) -> Arc<Self> {
        Arc::new(Self {
            readers: Readers::new(host.limits().subscriptions),
            recent: Recent::default(),
            desks: Desks::default(),
            members: Members::default(),
            units: Units::default(),
            waits: Arc::default(),
            host,
            settings,
            stop: Arc::default(),
            asker: Arc::default(),
            sender: Arc::default(),
            gone: Arc::default(),
            sending: tokio::sync::Mutex::default(),
            calls: Arc::new(Semaphore::new(MOST_CALLS)),
        })
    }

    /// Lets every thread end, which drops the clients behind.
    pub(super) fn stop(&self) {
        self.stop.store(true, Ordering::Release);
        self.readers.stop();
        self.waits.close();
    }

    /// Whether the broker closes.
    pub(super) fn stopped(&self) -> bool {
        self.stop.load(Ordering::Acquire)
    }

    pub(super) fn news(&self) -> News {
        News { stop: self.stop.clone(), state: Arc::default() }
    }

    /// Does on a thread what blocks. Whoever waits for it bounds the time, and so must the work.
    pub(super) async fn call<T: Send + 'static>(
        self: &Arc<Self>,
        name: &'static str,
        work: impl FnOnce(&Arc<Self>) -> Result<T, Fault> + Send + 'static,
    ) -> Result<T, Fault> {
        // It is never closed.
        let place = self.calls.clone().acquire_owned().await.map_err(|_| Fault::closed(Outcome::NotApplied))?;
        if self.stopped() {
            return Err(Fault::closed(Outcome::NotApplied));
        }
        let (tell, told) = oneshot::channel();
        let clients = self.clone();
        self.thread(name, move || {
            let done = work(&clients);
            drop(clients);
            drop(place);
            // Who asked may have given up.
            let _ = tell.send(done);
        })?;
        told.await.unwrap_or_else(|_| Err(Fault::unreachable("a thread of Kafka's client panicked")))
    }

    pub(super) fn thread(&self, name: &'static str, work: impl FnOnce() + Send + 'static) -> Result<(), Fault> {
        self.host.spawn_thread(name, work).map_err(|_| {
            Fault::new(ErrorKind::Overloaded, Outcome::NotApplied, "the system has no thread left; raise its limit")
        })
    }

    /// The client that asks. To be called on a thread that may block, and to be dropped there.
    pub(super) fn asker(&self) -> Result<Arc<Asker>, Fault> {
        let mut asker = lock(&self.asker);
        if let Some(asker) = &*asker {
            return Ok(asker.clone());
        }
        if self.stopped() {
            return Err(Fault::closed(Outcome::NotApplied));
        }
        let config = self.settings.control(self.host.limits());
        let made: Arc<Asker> = Arc::new(config.create_with_context(self.news()).map_err(|error| Fault::of(&error))?);
        let (kept, stop, slot) = (made.clone(), self.stop.clone(), self.asker.clone());
        self.thread("kafka client", move || {
            while !stop.load(Ordering::Acquire) {
                // What comes of it went to the context.
                drop(kept.poll(SLICE));
            }
            // Others have it only on threads that may block.
            drop(lock(&slot).take());
            drop(kept);
        })?;
        *asker = Some(made.clone());
        Ok(made)
    }

    /// How long something is asked for: a little less than an operation may take, so that its failure can be explained.
    pub(super) fn patience(&self) -> Duration {
        before(self.host.limits().timeout)
    }

    /// Asks for a topic's partitions. To be called on a thread that may block.
    pub(super) fn metadata(&self, topic: &str) -> Result<Metadata, Fault> {
        self.metadata_by(topic, Instant::now() + self.patience())
    }

    /// The same by then.
    pub(super) fn metadata_by(&self, topic: &str, until: Instant) -> Result<Metadata, Fault> {
        self.ask_by(until, |asker, most| asker.fetch_metadata(Some(topic), most))
    }

    /// Asks something until it is answered. To be called on a thread that may block.
    ///
    /// It asks anew after a while, so that it ends as soon as it is known that the user may not log in, and where the client is
    /// about to connect again.
    pub(super) fn ask_by<T>(
        &self,
        until: Instant,
        ask: impl Fn(&Asker, Duration) -> Result<T, KafkaError>,
    ) -> Result<T, Fault> {
        let mut most = Duration::from_millis(250);
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let fault = match self.ask(|asker| ask(asker, left.min(most))) {
                Err(fault) if left > AGAIN && !self.stopped() => fault,
                asked => return asked,
            };
            match fault.kind {
                ErrorKind::Timeout if left > most => most *= 2,
                ErrorKind::Unavailable => std::thread::park_timeout(AGAIN),
                _ => return Err(fault),
            }
        }
    }

    /// Asks something, and tells more of a failure than that no answer came.
    pub(super) fn ask<T>(&self, ask: impl FnOnce(&Asker) -> Result<T, KafkaError>) -> Result<T, Fault> {
        let asker = self.asker()?;
        match ask(&asker) {
            Ok(answer) => {
                asker.client().context().well();
                Ok(answer)
            }
            Err(error) => Err(asker.client().context().explain(Fault::of(&error))),
        }
    }

    /// Makes the client that appends, where it isn't there, and says whether it did.
    pub(super) async fn sender(self: &Arc<Self>) -> Result<bool, Fault> {
        if self.has_sender() {
            return Ok(false);
        }
        let _one = self.sending.lock().await;
        if self.has_sender() {
            return Ok(false);
        }
        self.call("kafka producer's start", |clients| clients.make_sender()).await?;
        Ok(true)
    }

    /// Whether the client that appends is there and can do so.
    pub(super) fn has_sender(&self) -> bool {
        let sender = self.sender.read().unwrap_or_else(PoisonError::into_inner);
        sender.as_ref().is_some_and(|sender| !sender.client().context().is_fatal())
    }

    fn make_sender(&self) -> Result<(), Fault> {
        let config = self.settings.producer(self.host.limits());
        let made: Arc<Sender> = Arc::new(config.create_with_context(self.news()).map_err(|error| Fault::of(&error))?);
        let mut place = self.sender.write().unwrap_or_else(PoisonError::into_inner);
        if self.stopped() {
            return Err(Fault::closed(Outcome::NotApplied));
        }
        let (kept, stop, slot, gone) = (made.clone(), self.stop.clone(), self.sender.clone(), self.gone.clone());
        let waits = self.waits.clone();
        let slice = SLICE.min(self.host.limits().timeout / 8);
        self.thread("kafka producer", move || {
            let fatal = || kept.client().context().is_fatal();
            while !stop.load(Ordering::Acquire) && !fatal() {
                kept.poll(slice);
                waits.expire(slice);
            }
            if let Some(why) = Gone::of(&kept) {
                *lock(&gone) = Some(why);
            }
            // Those who send look at it under the lock alone, so that this thread is the last to have it. Another may have
            // taken its place.
            let mut place = slot.write().unwrap_or_else(PoisonError::into_inner);
            drop(place.take_if(|sender| Arc::ptr_eq(sender, &kept)));
            drop(place);
            drop(kept);
        })?;
        *place = Some(made);
        Ok(())
    }

    /// Hands a record to the client that appends. It doesn't block.
    pub(super) fn send(&self, record: BaseRecord<'_, [u8], [u8], Arc<Wait>>) -> Result<(), Fault> {
        let sender = self.sender.read().unwrap_or_else(PoisonError::into_inner);
        let sent = match &*sender {
            Some(sender) => sender.send(record).map_err(|(error, _)| {
                let fault = Fault::of(&error);
                if fault.code == Some(Code::Fatal) {
                    sender.client().context().state.fatal.store(true, Ordering::Release);
                }
                fault
            }),
            None if self.stopped() => Err(Fault::closed(Outcome::NotApplied)),
            None => Err(Fault::of_code(Code::Fatal, Outcome::NotApplied)),
        };
        drop(sender);
        sent.map_err(|fault| self.explain(fault))
    }

    /// Where the client that appends has to go, says why.
    pub(super) fn explain(&self, fault: Fault) -> Fault {
        let purged =
            matches!(fault.code, Some(Code::PurgeQueue | Code::PurgeInflight)) && fault.kind != ErrorKind::Closed;
        if fault.code != Some(Code::Fatal) && !purged {
            return fault;
        }
        let sender = self.sender.read().unwrap_or_else(PoisonError::into_inner);
        let going = sender.as_ref().and_then(|sender| Gone::of(sender));
        let Some(Gone { code, stored }) = going.or_else(|| *lock(&self.gone)) else { return fault };
        let why = Fault::of_code(code, fault.outcome);
        // A client that was refused from the beginning has sent nothing of what waited.
        let refused = fault.code == Some(Code::PurgeQueue) && why.kind == ErrorKind::Forbidden && !stored;
        let outcome = if refused { Outcome::NotApplied } else { fault.outcome };
        Fault { outcome, ..why }
    }

    /// Looks at the client that appends. To be called on a thread that may block.
    pub(super) fn with_sender<T>(&self, look: impl FnOnce(&Client<News>) -> T) -> Option<T> {
        let sender = self.sender.read().unwrap_or_else(PoisonError::into_inner).clone();
        sender.map(|sender| look(sender.client()))
    }

    /// Whether the cluster was out of reach when it was last heard of.
    pub(super) fn is_down(&self) -> bool {
        let sender = self.sender.read().unwrap_or_else(PoisonError::into_inner);
        sender.as_ref().is_some_and(|sender| sender.client().context().is_down())
    }

    /// The cluster answered.
    pub(super) fn is_up(&self) {
        let sender = self.sender.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(sender) = &*sender {
            sender.client().context().well();
        }
    }
}

/// Why a client that appends had to go, and whether the server had taken a record of it.
#[derive(Clone, Copy)]
struct Gone {
    code: Code,
    stored: bool,
}

impl Gone {
    fn of(sender: &Sender) -> Option<Self> {
        let stored = sender.client().context().state.stored.load(Ordering::Relaxed);
        sender.client().fatal_error().map(|(code, _)| Self { code, stored })
    }
}

/// A little less than that long.
pub(super) fn before(timeout: Duration) -> Duration {
    timeout.saturating_sub((timeout / 8).min(Duration::from_millis(250)))
}

/// What a client says of itself, and of what was appended.
#[derive(Clone)]
pub(super) struct News {
    stop: Arc<AtomicBool>,
    state: Arc<State>,
}

#[derive(Default)]
struct State {
    /// What went wrong last with the connections.
    last: Mutex<Option<Code>>,
    down: AtomicBool,
    fatal: AtomicBool,
    /// Whether the server has taken a record.
    stored: AtomicBool,
}

impl News {
    fn well(&self) {
        *lock(&self.state.last) = None;
        self.state.down.store(false, Ordering::Release);
    }

    pub(super) fn is_down(&self) -> bool {
        self.state.down.load(Ordering::Acquire)
    }

    fn is_fatal(&self) -> bool {
        self.state.fatal.load(Ordering::Acquire)
    }

    /// Where no answer came, the connection's own failure says why.
    pub(super) fn explain(&self, fault: Fault) -> Fault {
        let silent = matches!(fault.kind, ErrorKind::Timeout | ErrorKind::Unavailable);
        match *lock(&self.state.last) {
            Some(code) if silent => {
                let why = Fault::of_code(code, fault.outcome);
                Fault { outcome: fault.outcome, ..why }
            }
            _ => fault,
        }
    }
}

impl ClientContext for News {
    // Its texts may hold names of the caller's.
    fn log(&self, _: RDKafkaLogLevel, _: &str, _: &str) {}

    fn stats(&self, _: Statistics) {}

    fn error(&self, error: KafkaError, _: &str) {
        let Some(code) = code_of(&error) else { return };
        match code {
            Code::Fatal => self.state.fatal.store(true, Ordering::Release),
            Code::AllBrokersDown => self.state.down.store(true, Ordering::Release),
            Code::Authentication
            | Code::SaslAuthenticationFailed
            | Code::UnsupportedSASLMechanism
            | Code::SSL
            | Code::Resolve
            | Code::BrokerTransportFailure => *lock(&self.state.last) = Some(code),
            _ => {}
        }
    }
}

impl ConsumerContext for News {}

impl ProducerContext for News {
    type DeliveryOpaque = Arc<Wait>;

    fn delivery(&self, result: &DeliveryResult<'_>, wait: Arc<Wait>) {
        wait.tell(match result {
            Ok(message) => {
                self.state.down.store(false, Ordering::Release);
                self.state.stored.store(true, Ordering::Relaxed);
                Ok((message.partition(), message.offset()))
            }
            Err((error, _)) => Err(self.failed(error)),
        });
    }
}

impl News {
    fn failed(&self, error: &KafkaError) -> Fault {
        let fault = Fault::of_sent(error);
        if fault.kind == ErrorKind::Closed && !self.stop.load(Ordering::Acquire) {
            // The client goes because the server lost its memory of it, or refuses it one; who waits is told which.
            return Fault { outcome: fault.outcome, code: fault.code, ..Fault::of_code(Code::Fatal, fault.outcome) };
        }
        fault
    }
}

/// Waits for a future on a thread that may block.
pub(super) fn wait<F: Future>(future: F) -> F::Output {
    struct Unpark(std::thread::Thread);

    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }

    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut context = Context::from_waker(&waker);
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut context) {
            Poll::Ready(output) => return output,
            Poll::Pending => std::thread::park(),
        }
    }
}
