use std::future::Future;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use super::bound::{BoundGroup, Discipline};
use super::{AckGroup, BoundStream, CommitGroup, Durability, StreamSettings};
use crate::address::check_connection_name;
use crate::broker::{Broker, Host, Place};
use crate::call::Call;
use crate::capability::{AckGroups, Backend, BackendError, Capability, CommitGroups, Dedup, Log};
use crate::declaration::{Declaration, StreamSpec};
use crate::error::{Error, ErrorKind, Operation};
use crate::telemetry;

/// A stream bound to a broker: what [`#[stream_spec]`](macro@crate::stream_spec) generates as `T::stream(&broker)`.
///
/// Clones are the same stream. The bounds stand on the methods, so that rustc reports a missing capability once.
pub struct Stream<T: StreamSpec, B: Backend> {
    pub(crate) broker: Broker<B>,
    pub(crate) bound: Arc<BoundStream>,
    pub(super) durability: Durability,
    payload: PhantomData<fn(T) -> T>,
}

impl<T: StreamSpec, B: Log> Stream<T, B> {
    pub(crate) fn bind(broker: &Broker<B>) -> Result<Self, Error> {
        let bound = broker.bind_stream::<T>(typeid::of::<T>())?;
        Ok(Self { broker: broker.clone(), bound, durability: Durability::Primary, payload: PhantomData })
    }

    /// Returns a handle to the same stream whose appends are recorded so durably.
    ///
    /// # Errors
    ///
    /// `Unsupported` where the backend has no such thing, or `Invalid`.
    pub fn with_durability(&self, durability: Durability) -> Result<Self, Error> {
        if let Durability::Replicas(replicas) = durability
            && !(1..=64).contains(&replicas)
        {
            let detail = format!("`Replicas({replicas})`; give 1 to 64");
            return Err(self.error(ErrorKind::Invalid, Operation::Bind).detail(detail));
        }
        B::admits(&self.broker.inner.client, &self.bound.address, durability)
            .map_err(|problem| self.error(ErrorKind::Unsupported, Operation::Bind).detail(problem))?;
        let mut stream = self.clone();
        stream.durability = durability;
        Ok(stream)
    }

    /// Creates the stream. Nothing else ever does.
    ///
    /// Where it exists with the same settings, it does nothing.
    ///
    /// # Errors
    ///
    /// `Conflict` where it exists with other settings, `Unsupported` for settings that the backend can't honour, `Invalid`
    /// with every setting out of its bounds; `Timeout`, `Unavailable`, `Refused`, `Forbidden`, `Overloaded`, `Closed`.
    /// With an unknown outcome call it again: it is idempotent.
    ///
    /// # Cancel safety
    ///
    /// Dropped before it is ready, the stream may or may not be there. Call it again.
    pub fn ensure(&self, settings: StreamSettings) -> Call<'_, ()> {
        Call::new(async move {
            self.within_bounds(&settings, Operation::Ensure)?;
            self.operate(Operation::Ensure, B::ensure(self.client(), &self.bound.address, &settings)).await?;
            self.bound.remember(Some(settings));
            Ok(())
        })
    }

    /// Changes the settings of a stream that is there. Records that no longer fit go, at once or when others come.
    ///
    /// Memory and NATS can; elsewhere it is `Unsupported`.
    ///
    /// # Errors
    ///
    /// `Absent` where the stream isn't there, `Conflict` for a change that the system can't make, such as of `partitions` or
    /// `storage`; otherwise as [`ensure`](Self::ensure). With an unknown outcome call it again: it is idempotent.
    ///
    /// # Cancel safety
    ///
    /// Dropped before it is ready, the settings may or may not be changed. Call it again.
    pub fn update(&self, settings: StreamSettings) -> Call<'_, ()> {
        Call::new(async move {
            self.within_bounds(&settings, Operation::Update)?;
            self.operate(Operation::Update, B::update(self.client(), &self.bound.address, &settings)).await?;
            self.bound.remember(Some(settings));
            Ok(())
        })
    }

    fn within_bounds(&self, settings: &StreamSettings, operation: Operation) -> Result<(), Error> {
        let problems = settings.problems();
        if problems.is_empty() {
            return Ok(());
        }
        Err(self.error(ErrorKind::Invalid, operation).detail(problems.join("; ")))
    }

    /// Removes the stream with all its records and groups, and says whether it was there.
    ///
    /// Stop its workers first: one whose broker has ensured the stream takes this for a loss and makes it anew.
    ///
    /// # Errors
    ///
    /// `Timeout`, `Unavailable`, `Refused`, `Forbidden`, `Overloaded`, `Closed`.
    ///
    /// # Cancel safety
    ///
    /// Dropped before it is ready, the stream may or may not be there.
    pub fn delete(&self) -> Call<'_, bool> {
        Call::new(async move {
            self.bound.remember(None);
            self.operate(Operation::Delete, B::delete(self.client(), &self.bound.address)).await
        })
    }

    /// Returns how long an append with a caller's id is remembered.
    ///
    /// # Errors
    ///
    /// `Absent` where the stream isn't there; otherwise as [`delete`](Self::delete).
    pub fn dedup_window(&self) -> Call<'_, Duration>
    where
        B: Dedup,
    {
        Call::new(async move {
            self.needs(Capability::Dedup, Operation::Inspect)?;
            self.operate(Operation::Inspect, B::window(self.client(), &self.bound.address)).await
        })
    }

    /// Looks up an ack group: consumers that share the stream and settle entry by entry. It does no I/O; call
    /// [`AckGroup::ensure`] to create it.
    ///
    /// # Errors
    ///
    /// `Invalid` for a name outside `[a-z0-9][a-z0-9_-]{0,126}`, `Overloaded` when `groups` are looked up already, and
    /// `Unsupported` on a backend chosen at run time that has none.
    pub fn ack_group(&self, name: &str) -> Result<AckGroup<T, B>, Error>
    where
        B: AckGroups,
    {
        self.needs(Capability::AckGroups, Operation::Bind)?;
        AckGroup::new(self, name)
    }

    /// Looks up a commit group: members that share the stream's partitions and commit a position in each. It does no I/O;
    /// call [`CommitGroup::ensure`] to record where it begins.
    ///
    /// # Errors
    ///
    /// As [`ack_group`](Self::ack_group).
    pub fn commit_group(&self, name: &str) -> Result<CommitGroup<T, B>, Error>
    where
        B: CommitGroups,
    {
        self.needs(Capability::CommitGroups, Operation::Bind)?;
        CommitGroup::new(self, name)
    }
}

impl<T: StreamSpec, B: Backend> Stream<T, B> {
    /// Returns name and version.
    #[must_use]
    pub fn declaration(&self) -> Declaration {
        self.bound.declaration
    }

    /// Returns the address under which the backend knows the stream.
    #[must_use]
    pub fn address(&self) -> &str {
        self.bound.address.text()
    }

    /// Returns the broker.
    #[must_use]
    pub fn broker(&self) -> &Broker<B> {
        &self.broker
    }

    pub(crate) fn error(&self, kind: ErrorKind, operation: Operation) -> Error {
        Error::new(kind, operation).about(self.bound.declaration, self.broker.inner.system)
    }

    pub(crate) fn failed(&self, failed: BackendError, operation: Operation) -> Error {
        Error::of_backend(failed, operation).about(self.bound.declaration, self.broker.inner.system)
    }

    pub(crate) fn client(&self) -> &B::Client {
        &self.broker.inner.client
    }

    pub(crate) fn host(&self) -> &Host {
        &self.broker.inner.host
    }

    /// Finds or makes what every handle to a group of this name shares.
    pub(super) fn group(&self, discipline: Discipline, name: &str) -> Result<Arc<BoundGroup>, Error> {
        let error = |kind| self.error(kind, Operation::Bind);
        check_connection_name("group", name).map_err(|wrong| error(ErrorKind::Invalid).detail(wrong.to_string()))?;
        let most = self.broker.limits().groups;
        self.bound
            .group(discipline, name, most)
            .ok_or_else(|| error(ErrorKind::Overloaded).detail(format!("{most} groups are looked up; raise `groups`")))
    }

    /// Refuses what a backend chosen at run time lacks.
    pub(super) fn needs(&self, capability: Capability, operation: Operation) -> Result<(), Error> {
        let has = self.broker.inner.has(&[capability]);
        has.map_err(|lacking| self.error(ErrorKind::Unsupported, operation).detail(lacking))
    }

    /// Takes a place among the broker's operations.
    pub(super) async fn place(&self, operation: Operation) -> Result<Place<'_>, Error> {
        self.host().shared().admit().await.map_err(|kind| self.error(kind, operation))
    }

    /// Runs one operation of the backend in its span, without a place among the broker's.
    pub(crate) async fn observe<R>(
        &self,
        operation: Operation,
        run: impl Future<Output = Result<R, BackendError>> + Send,
    ) -> Result<R, Error> {
        let observing = async {
            if self.host().is_closing() {
                return Err(self.error(ErrorKind::Closed, operation));
            }
            run.await.map_err(|failed| self.failed(failed, operation))
        };
        telemetry::operation(operation, self.bound.declaration, self.broker.inner.system, observing).await
    }

    /// Runs one operation of the backend in its place among the broker's, and in its span.
    pub(crate) async fn operate<R>(
        &self,
        operation: Operation,
        run: impl Future<Output = Result<R, BackendError>> + Send,
    ) -> Result<R, Error> {
        let inner = &*self.broker.inner;
        let operating = async {
            let _place = inner.host.shared().admit().await.map_err(|kind| self.error(kind, operation))?;
            run.await.map_err(|failed| self.failed(failed, operation))
        };
        telemetry::operation(operation, self.bound.declaration, inner.system, operating).await
    }

    /// Checks how many records one call may ask for.
    pub(super) fn within_page(&self, max: usize, operation: Operation) -> Result<usize, Error> {
        let most = self.broker.limits().read_records;
        if (1..=most).contains(&max) {
            return Ok(max);
        }
        let detail = format!("{max} records; `read_records` is {most}, so ask for 1 to {most}");
        Err(self.error(ErrorKind::Invalid, operation).detail(detail))
    }
}

impl<T: StreamSpec, B: Backend> Clone for Stream<T, B> {
    fn clone(&self) -> Self {
        Self {
            broker: self.broker.clone(),
            bound: self.bound.clone(),
            durability: self.durability,
            payload: PhantomData,
        }
    }
}

impl<T: StreamSpec, B: Backend> std::fmt::Debug for Stream<T, B> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Stream")
            .field("declaration", &self.bound.declaration)
            .field("backend", &self.broker.inner.system)
            .field("durability", &self.durability)
            .finish_non_exhaustive()
    }
}
