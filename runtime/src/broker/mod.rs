//! The broker: it owns callbacks, subscriptions and limits, and borrows its backend.

mod brokers;
mod caught;
mod config;
mod host;
mod limits;
mod stats;
mod tracker;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use std::any::TypeId;

use crate::address::{Namespace, check_declaration};
use crate::capability::{Backend, Capability, Checked, Log, Wanted};
use crate::declaration::{Declaration, Kind, StreamSpec};
use crate::error::{Error, ErrorKind, Operation, Outcome};
use crate::stream::{BoundStream, Durability};
use crate::topic::Bound;

pub use brokers::{Brokers, BrokersBuilder};
pub use config::Config;
pub use host::Host;
pub(crate) use host::{Place, Waiting};
pub use limits::Limits;
pub use stats::Stats;

pub(crate) use caught::caught;
pub(crate) use tracker::{Entry, Tracked};

/// Declarations bound to one backend, with everything that runs for them. Clones are the same broker.
///
/// Dropping the last clone closes connections behind; [`close`](Self::close) waits for it.
pub struct Broker<B: Backend> {
    pub(crate) inner: Arc<Inner<B>>,
}

pub(crate) struct Inner<B: Backend> {
    pub(crate) system: &'static str,
    pub(crate) client: B::Client,
    pub(crate) host: Host,
    namespace: Namespace,
    bound: Mutex<HashMap<Identity, (TypeId, As)>>,
    subscriptions: Mutex<Vec<Weak<dyn End>>>,
}

/// Kind, name and version: what two declarations on a broker must differ in.
type Identity = (Kind, &'static str, u32);

/// What a declaration is bound as.
#[derive(Clone)]
enum As {
    Topic(Arc<Bound>),
    Stream(Arc<BoundStream>),
}

/// A subscription as its broker sees it.
pub(crate) trait End: Send + Sync {
    /// Ends it with `Closed` and lets the backend go.
    fn end(&self);
}

impl<B: Backend> Broker<B> {
    /// Builds a broker. It does no I/O and spawns nothing; [`check`](Self::check) or the first operation connects.
    ///
    /// # Errors
    ///
    /// `Invalid` with every limit out of its bounds and every setting that the backend can't honour.
    // By value, since a backend is cheap to clone and a caller has no more use for it.
    #[allow(clippy::needless_pass_by_value)]
    pub fn new(backend: B, config: Config) -> Result<Self, Error> {
        let system = backend.system();
        let mut problems = config.limits.problems();
        let host = Host::new(config.limits, config.random, config.clock);
        let client = match backend.client(host.clone()) {
            Ok(client) if problems.is_empty() => client,
            Ok(_) => return Err(invalid(system, &problems)),
            Err(more) => {
                problems.extend(more);
                return Err(invalid(system, &problems));
            }
        };
        let inner = Inner {
            system,
            client,
            host,
            namespace: config.namespace,
            bound: Mutex::default(),
            subscriptions: Mutex::default(),
        };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// Returns the namespace that starts every address.
    #[must_use]
    pub fn namespace(&self) -> &Namespace {
        &self.inner.namespace
    }

    /// Returns the limits.
    #[must_use]
    pub fn limits(&self) -> &Limits {
        self.inner.host.limits()
    }

    /// Connects, and reports what the server is and what the bound declarations can't have there.
    ///
    /// # Errors
    ///
    /// `Unavailable`, `Forbidden` (credentials), `Refused`, `Timeout` after `deadline`, or `Closed`.
    pub async fn check(&self, deadline: Duration) -> Result<Checked, Error> {
        let inner = &*self.inner;
        let error = |kind| Error::new(kind, Operation::Check).on(inner.system);
        let _place = inner.host.shared().admit().await.map_err(error)?;
        let mut wanted = Wanted { patience: Some(deadline), ..Wanted::default() };
        for (_, bound) in lock(&inner.bound).values() {
            match bound {
                As::Topic(topic) => wanted.topics.push(topic.address.clone()),
                As::Stream(stream) => wanted.streams.push(stream.address.clone()),
            }
        }
        let asked = B::check(&inner.client, wanted);
        let checked = inner.host.within_time(deadline, Outcome::NotApplied, asked).await;
        checked.map_err(|failed| Error::of_backend(failed, Operation::Check).on(inner.system))
    }

    /// Counts what runs, without I/O.
    #[must_use]
    pub fn stats(&self) -> Stats {
        Stats::of(self.inner.host.shared(), self.inner.host.is_closing())
    }

    /// Stops new work, cancels what runs, and returns when every owned task, callback and subscription has exited.
    ///
    /// A callback under way is dropped at its next await. To let it finish, pull the supervision's
    /// [`Stop`](crate::Stop) and await the supervision before closing.
    ///
    /// It can be called again, and by many at once; each call waits for itself.
    ///
    /// # Errors
    ///
    /// `StillRunning` after `deadline`, with the names of what is left, which goes on ending. `Reentrant` from inside
    /// one of the broker's own callbacks.
    ///
    /// # Cancel safety
    ///
    /// A close that is dropped midway has begun: the broker takes no new work. Call it again to wait for the rest.
    pub async fn close(&self, deadline: Duration) -> Result<(), Error> {
        let inner = &*self.inner;
        let shared = inner.host.shared();
        let error = |kind| Error::new(kind, Operation::Close).on(inner.system);
        if shared.is_inside() {
            return Err(
                error(ErrorKind::Reentrant).detail("return from the callback first, or close from another task")
            );
        }
        shared.start_closing();
        let ended = async {
            // A set-up that was under way when closing began may add its subscription until it is gone.
            inner.end_subscriptions();
            B::close(&inner.client).await;
            shared.tracker.none_left(&[Tracked::SettingUp]).await;
            inner.end_subscriptions();
            shared.operations_ended().await;
            shared.tracker.none_left(&Tracked::ALL).await;
        };
        if tokio::time::timeout(deadline, ended).await.is_ok() {
            return Ok(());
        }
        let mut left = shared.tracker.names();
        let operations = shared.operations();
        if operations > 0 {
            left.push(format!("{operations} operations"));
        }
        Err(error(ErrorKind::StillRunning).detail(format!("still running: {}", left.join(", "))))
    }

    /// Finds or makes what a topic is bound to. Another type under the same name is refused.
    pub(crate) fn bind_topic(&self, declaration: Declaration, payload: TypeId) -> Result<Arc<Bound>, Error> {
        let bound = self.bind(declaration, payload, &[Capability::PubSub], |_| {
            Ok(As::Topic(Arc::new(Bound::new(declaration, &self.inner.namespace))))
        })?;
        match bound {
            As::Topic(topic) => Ok(topic),
            As::Stream(_) => Err(self.bind_error(declaration, ErrorKind::Duplicate)),
        }
    }

    /// Finds or makes what a stream is bound to. Another type under the same name, and another stream under the same
    /// address, are refused.
    pub(crate) fn bind_stream<T: StreamSpec>(&self, payload: TypeId) -> Result<Arc<BoundStream>, Error>
    where
        B: Log,
    {
        let declaration = T::DECLARATION;
        let wanted: Vec<_> = std::iter::once(Capability::Log).chain(T::REQUIRES.iter().copied()).collect();
        let bound = self.bind(declaration, payload, &wanted, |others| {
            let stream = BoundStream::new::<T>(&self.inner.namespace);
            let text = stream.address.text();
            let same = |other: &&As| matches!(other, As::Stream(other) if other.address.text() == text);
            if let Some(As::Stream(other)) = others.values().map(|(_, other)| other).find(same) {
                let detail =
                    format!("`{}` has the address `{text}` already; give one of the two another", other.declaration);
                return Err(self.bind_error(declaration, ErrorKind::Duplicate).detail(detail));
            }
            B::admits(&self.inner.client, &stream.address, Durability::Primary)
                .map_err(|problem| self.bind_error(declaration, ErrorKind::Invalid).detail(problem))?;
            Ok(As::Stream(Arc::new(stream)))
        })?;
        match bound {
            As::Stream(stream) => Ok(stream),
            As::Topic(_) => Err(self.bind_error(declaration, ErrorKind::Duplicate)),
        }
    }

    fn bind_error(&self, declaration: Declaration, kind: ErrorKind) -> Error {
        Error::new(kind, Operation::Bind).about(declaration, self.inner.system)
    }

    fn bind(
        &self,
        declaration: Declaration,
        payload: TypeId,
        wanted: &[Capability],
        make: impl FnOnce(&HashMap<Identity, (TypeId, As)>) -> Result<As, Error>,
    ) -> Result<As, Error> {
        let inner = &*self.inner;
        let error = |kind| self.bind_error(declaration, kind);
        check_declaration(&declaration).map_err(|wrong| error(ErrorKind::Invalid).detail(wrong.to_string()))?;
        if inner.host.is_closing() {
            return Err(error(ErrorKind::Closed));
        }
        inner.has(wanted).map_err(|lacking| error(ErrorKind::Unsupported).detail(lacking))?;
        let mut bound = lock(&inner.bound);
        let identity = (declaration.kind(), declaration.name(), declaration.version());
        if let Some((holder, bound)) = bound.get(&identity) {
            return if *holder == payload {
                Ok(bound.clone())
            } else {
                Err(error(ErrorKind::Duplicate).detail("give one of the two another name or version"))
            };
        }
        let most = inner.host.limits().declarations;
        if bound.len() >= most {
            return Err(
                error(ErrorKind::Overloaded).detail(format!("{most} declarations are bound; raise `declarations`"))
            );
        }
        let new = make(&bound)?;
        bound.insert(identity, (payload, new.clone()));
        Ok(new)
    }
}

impl<B: Backend> Inner<B> {
    /// Says what a backend chosen at run time lacks of these.
    pub(crate) fn has(&self, wanted: &[Capability]) -> Result<(), String> {
        let lacking: Vec<_> = B::lacking(&self.client, wanted).iter().map(|lacking| format!("`{lacking}`")).collect();
        if lacking.is_empty() {
            return Ok(());
        }
        Err(format!("the backend has no {}; choose one that has, or change the declaration", lacking.join(", no ")))
    }

    pub(crate) fn register(&self, subscription: Weak<dyn End>) {
        let mut subscriptions = lock(&self.subscriptions);
        // Swept when it would grow, with room for as many again, so that a sweep's cost is spread over them.
        if subscriptions.len() == subscriptions.capacity() {
            subscriptions.retain(|subscription| subscription.strong_count() > 0);
            let left = subscriptions.len();
            subscriptions.reserve(left.max(16));
        }
        subscriptions.push(subscription);
    }

    fn end_subscriptions(&self) {
        let subscriptions = std::mem::take(&mut *lock(&self.subscriptions));
        for subscription in subscriptions {
            if let Some(subscription) = subscription.upgrade() {
                subscription.end();
            }
        }
    }
}

fn invalid(system: &'static str, problems: &[String]) -> Error {
    Error::new(ErrorKind::Invalid, Operation::Build).on(system).detail(problems.join("; "))
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    // No code that can panic runs under the crate's locks; what a waker does is not ours to poison them with.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<B: Backend> Clone for Broker<B> {
    fn clone(&self) -> Self {
        Self { inner: self.inner.clone() }
    }
}

impl<B: Backend> std::fmt::Debug for Broker<B> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Broker")
            .field("backend", &self.inner.system)
            .field("namespace", &self.inner.namespace)
            .field("stats", &self.stats())
            .finish_non_exhaustive()
    }
}
