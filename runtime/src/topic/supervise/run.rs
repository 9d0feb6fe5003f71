use std::any::Any;
use std::fmt;
use std::future::Future;
use std::sync::Arc;

use tokio::time::Instant;

use super::source::{KeysUnder, OneKey, SomeKeys, Source};
use super::{Backoff, Ended, Ends, Gap, Interruption, Notice, Stop, SupervisePolicy, words};
use crate::broker::{Tracked, caught};
use crate::capability::{PatternPubSub, PubSub};
use crate::codec::Decode;
use crate::declaration::TopicSpec;
use crate::error::{Cause, Error, ErrorKind, HandlerError, Operation};
use crate::key::{PrefixOf, TopicKey};
use crate::telemetry;
use crate::topic::Topic;

/// A supervision that is ready to run: [`Topic::supervise`] and its siblings make one.
#[must_use = "a supervision does nothing until `run` is awaited"]
pub struct Supervise<F, S = ()> {
    source: F,
    policy: SupervisePolicy,
    state: S,
    stop: Option<Stop>,
    notice: Notified,
}

type Notified = Option<Box<dyn Fn(Notice<'_>) + Send + Sync>>;

impl<T: TopicSpec, B: PubSub> Topic<T, B> {
    /// Supervises one key: handles its events, and after an interruption subscribes again and tells the gap.
    ///
    /// # Examples
    ///
    /// ```
    /// # use tidings::{Broker, Config, Gap, Namespace, Stop, SupervisePolicy, backend::Memory, topic};
    /// #[topic(name = "orders.placed", version = 1, key = u64)]
    /// #[derive(serde::Serialize, serde::Deserialize)]
    /// struct OrderPlaced { cents: i64 }
    ///
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
    /// let broker = Broker::new(Memory::new(), Config::new(Namespace::new("shop", "test")?))?;
    /// let placed = OrderPlaced::topic(&broker)?;
    /// let stop = Stop::new();
    /// let supervision = placed.supervise(&7, SupervisePolicy::default()).with(stop.clone()).until(&stop).run(
    ///     async |event, stop| {
    ///         assert_eq!(event.cents, 990);
    ///         stop.stop();
    ///         Ok(())
    ///     },
    ///     async |gap: Gap, _| Err(format!("lost something: {gap}").into()),
    /// );
    /// let publish = async {
    ///     while placed.publish(&7, &OrderPlaced { cents: 990 }).await?.count() != Some(1) {
    ///         tokio::task::yield_now().await;
    ///     }
    ///     Ok::<_, tidings::Error>(())
    /// };
    /// let (ended, published) = tokio::join!(supervision, publish);
    /// assert_eq!(ended?, tidings::Ended::Stopped);
    /// published?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn supervise(&self, key: &T::Key, policy: SupervisePolicy) -> Supervise<OneKey<T, B>>
    where
        T::Codec: Decode<T>,
    {
        let channel = self.channel(Operation::Subscribe, |to| key.write(to));
        Supervise::new(OneKey::new(self, channel), policy)
    }

    /// Supervises several keys; the handler is given `(key, event)`. See [`Supervise::run`] for errors.
    pub fn supervise_keys<'k>(
        &self,
        first: &T::Key,
        rest: impl IntoIterator<Item = &'k T::Key>,
        policy: SupervisePolicy,
    ) -> Supervise<SomeKeys<T, B>>
    where
        T::Key: 'k,
        T::Codec: Decode<T>,
    {
        let channels = self.channels(first, rest);
        Supervise::new(SomeKeys::new(self, channels), policy)
    }

    /// Supervises every key; the handler is given `(key, event)`. See [`Supervise::run`] for errors.
    pub fn supervise_all(&self, policy: SupervisePolicy) -> Supervise<KeysUnder<T, B>>
    where
        B: PatternPubSub,
        T::Codec: Decode<T>,
    {
        let prefix = Ok(self.bound.address.clone());
        Supervise::new(KeysUnder::new(self, prefix), policy)
    }

    /// Supervises every key that starts with these parts; the handler is given `(key, event)`. See [`Supervise::run`] for errors.
    // By value, so that a tuple of parts can be written in place.
    #[allow(clippy::needless_pass_by_value)]
    pub fn supervise_under<P>(&self, prefix: P, policy: SupervisePolicy) -> Supervise<KeysUnder<T, B>>
    where
        B: PatternPubSub,
        P: PrefixOf<<T::Key as TopicKey>::Parts>,
        T::Codec: Decode<T>,
    {
        let prefix = self.channel(Operation::Subscribe, |to| prefix.write_prefix(to)).map(Arc::from);
        Supervise::new(KeysUnder::new(self, prefix), policy)
    }
}

impl<F> Supervise<F> {
    fn new(source: F, policy: SupervisePolicy) -> Self {
        Self { source, policy, state: (), stop: None, notice: None }
    }
}

impl<F, S> Supervise<F, S> {
    /// Gives the callbacks a state, cloned for each call. Without it they are given `()`.
    pub fn with<N: Clone + Send>(self, state: N) -> Supervise<F, N> {
        Supervise { source: self.source, policy: self.policy, state, stop: self.stop, notice: self.notice }
    }

    /// Ends the supervision when the token is pulled.
    pub fn until(mut self, stop: &Stop) -> Self {
        self.stop = Some(stop.clone());
        self
    }

    /// Tells when a subscription is ready, when one is interrupted, and when an attempt to subscribe fails.
    ///
    /// A gap is told only once delivery has resumed. This is where a service learns that it is deaf meanwhile, for
    /// good perhaps (a missing right is `Forbidden`, which a supervision goes on trying), and when its first subscription
    /// is ready. It is called in between, so it must return soon.
    pub fn on_notice(mut self, notice: impl Fn(Notice<'_>) + Send + Sync + 'static) -> Self {
        self.notice = Some(Box::new(notice));
        self
    }
}

impl<F: fmt::Debug, S> fmt::Debug for Supervise<F, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Supervise").field("source", &self.source).field("policy", &self.policy).finish_non_exhaustive()
    }
}

impl<F: Source, S: Clone + Send> Supervise<F, S> {
    /// Runs until it is stopped or dropped, the broker closes, or a callback fails.
    ///
    /// One callback runs at a time. After an interruption it backs off, subscribes again, and once the new
    /// subscription is ready and before anything is delivered calls `gap` with the first cause and the failed
    /// attempts; `gap` is the place to read state again. A first subscribe that fails counts as an interruption. With
    /// [`OnMalformed::Report`](crate::OnMalformed::Report) a malformed message is a gap of its own, without a new
    /// subscription.
    ///
    /// # Errors
    ///
    /// `Callback` with the callback's error as the source, `Panicked`, or what makes subscribing again pointless:
    /// `Invalid`, `Duplicate`, `Reentrant`, `Unsupported`. A server that is out of reach or refuses, for want of a right
    /// perhaps, is tried again for ever: [`on_notice`](Self::on_notice) tells each attempt.
    ///
    /// # Cancel safety
    ///
    /// Dropping it unsubscribes behind and cancels a callback under way. So does closing the broker; a stop token lets
    /// the callback finish.
    pub async fn run<H, HandleFuture, G, GapFuture>(self, handle: H, gap: G) -> Result<Ended, Error>
    where
        H: Fn(F::Event, S) -> HandleFuture + Send + Sync,
        HandleFuture: Future<Output = Result<(), HandlerError>> + Send + 'static,
        G: Fn(Gap, S) -> GapFuture + Send + Sync,
        GapFuture: Future<Output = Result<(), HandlerError>> + Send + 'static,
    {
        let topic = self.source.topic();
        let problems = self.policy.problems();
        if !problems.is_empty() {
            return Err(topic.error(ErrorKind::Invalid, Operation::Supervise).detail(problems.join("; ")));
        }
        let host = &topic.broker.inner.host;
        let (declaration, system) = (topic.bound.declaration, topic.broker.inner.system);
        let _entry = host.shared().tracker.enter(Tracked::Callback, format!("supervision of `{declaration}`"));

        let handle = |event| {
            let (handle, state) = (&handle, self.state.clone());
            async move { handle(event, state).await }
        };
        let tell = |told: Gap| {
            telemetry::gap(declaration, system, &told);
            let (gap, state) = (&gap, self.state.clone());
            async move { gap(told, state).await }
        };
        let notice = |notice: Notice<'_>| {
            if let Some(notified) = &self.notice {
                notified(notice);
            }
        };
        let mut ends = Ends::new(host, self.stop.as_ref());
        let mut backoff = Backoff::new(self.policy);
        let mut interruption: Option<Interruption> = None;
        let ended = 'run: loop {
            match ends.first(self.source.open()).await {
                Err(ended) => break ended,
                Ok(Err(failed)) if failed.kind() == ErrorKind::Closed => break Ended::Closed,
                // Rights are often granted later, and a service that waits for them needs no restart.
                Ok(Err(failed)) if !failed.is_transient() && failed.kind() != ErrorKind::Forbidden => {
                    return Err(failed);
                }
                Ok(Err(failed)) => {
                    let begun = interruption.get_or_insert_with(|| Interruption::new(Cause::Disconnected, &failed));
                    begun.attempts = begun.attempts.saturating_add(1);
                    telemetry::attempt_failed(declaration, system, &failed, begun.attempts);
                    notice(Notice::Failed { error: &failed, attempts: begun.attempts });
                }
                Ok(Ok(mut subscription)) => {
                    notice(Notice::Ready);
                    if let Some(interruption) = interruption.take()
                        && let Some(ended) = call(topic, &mut ends, tell(interruption.over())).await?
                    {
                        break ended;
                    }
                    let since = Instant::now();
                    interruption = loop {
                        // Decoding runs the payload's own code.
                        let received = match ends.first(caught(F::receive(&mut subscription))).await {
                            Ok(Ok(received)) => received,
                            Ok(Err(panic)) => return Err(panicked(topic, &*panic)),
                            Err(ended) => break 'run ended,
                        };
                        let called = match received {
                            Ok(event) => call(topic, &mut ends, handle(event)).await?,
                            Err(ended) => match ended.cause() {
                                Some(Cause::Closed) => break 'run Ended::Closed,
                                Some(cause) => {
                                    notice(Notice::Interrupted { error: &ended });
                                    break Some(Interruption::new(cause, &ended));
                                }
                                None => {
                                    let told = Interruption::new(Cause::Malformed, &ended).over();
                                    call(topic, &mut ends, tell(told)).await?
                                }
                            },
                        };
                        if let Some(ended) = called {
                            break 'run ended;
                        }
                    };
                    if since.elapsed() >= self.policy.stable_after {
                        backoff.start_over();
                    }
                }
            }
            if let Err(ended) = ends.first(tokio::time::sleep(backoff.wait(host.random()))).await {
                break ended;
            }
        };
        telemetry::supervision_ended(declaration, system, ended);
        Ok(ended)
    }
}

/// Runs one callback, unless the broker closes meanwhile.
async fn call<T: TopicSpec, B: PubSub>(
    topic: &Topic<T, B>,
    ends: &mut Ends<'_>,
    callback: impl Future<Output = Result<(), HandlerError>>,
) -> Result<Option<Ended>, Error> {
    let inner = &*topic.broker.inner;
    let callback = telemetry::process(topic.bound.declaration, inner.system, caught(callback));
    match ends.unless_closed(inner.host.shared().inside(callback)).await {
        None => Ok(Some(Ended::Closed)),
        Some(Ok(Ok(()))) => Ok(None),
        Some(Ok(Err(failed))) => {
            Err(topic.error(ErrorKind::Callback, Operation::Supervise).source_of(failed.into_inner()))
        }
        Some(Err(panic)) => Err(panicked(topic, &*panic)),
    }
}

fn panicked<T: TopicSpec, B: PubSub>(topic: &Topic<T, B>, panic: &(dyn Any + Send)) -> Error {
    topic.error(ErrorKind::Panicked, Operation::Supervise).detail(words(panic))
}
