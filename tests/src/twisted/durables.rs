//! Durables of a backend, of which some operations are done otherwise.

use std::sync::Arc;
use std::time::Duration;

use tidings::capability::{BackendError, BoundDurable, Cursors, GroupAddress, Pulled, Ticket, Verdict};
use tidings::{DurableInfo, DurableSettings};

use super::{ClientOf, Twist, Twisted};

/// What is done otherwise with durables.
pub trait CursorTwist: Twist<Inner: Cursors> {
    /// See [`Cursors::ensure_durable`].
    fn ensure(
        client: &ClientOf<Self>,
        durable: &GroupAddress,
        settings: &DurableSettings,
    ) -> impl Future<Output = Result<bool, BackendError>> + Send
    where
        Self: Sized,
    {
        Self::Inner::ensure_durable(client, durable, settings)
    }

    /// See [`Cursors::update_durable`].
    fn update(
        client: &ClientOf<Self>,
        durable: &GroupAddress,
        settings: &DurableSettings,
    ) -> impl Future<Output = Result<(), BackendError>> + Send
    where
        Self: Sized,
    {
        Self::Inner::update_durable(client, durable, settings)
    }

    /// See [`Cursors::inspect_durable`].
    fn inspect(
        client: &ClientOf<Self>,
        durable: &GroupAddress,
    ) -> impl Future<Output = Result<DurableInfo, BackendError>> + Send
    where
        Self: Sized,
    {
        Self::Inner::inspect_durable(client, durable)
    }

    /// See [`BoundDurable::pull`].
    #[must_use]
    fn pull(
        durable: &TwistedDurable<Self>,
        max: usize,
        wait: Duration,
    ) -> impl Future<Output = Result<Vec<Pulled>, BackendError>> + Send
    where
        Self: Sized,
    {
        durable.inner.pull(max, wait)
    }

    /// See [`BoundDurable::settle`].
    #[must_use]
    fn settle(
        durable: &TwistedDurable<Self>,
        settlements: Vec<(Ticket, Verdict)>,
    ) -> impl Future<Output = Vec<Result<(), BackendError>>> + Send
    where
        Self: Sized,
    {
        durable.inner.settle(settlements)
    }

    /// See [`BoundDurable::release`].
    #[must_use]
    fn give_back(durable: &TwistedDurable<Self>) -> impl Future<Output = ()> + Send
    where
        Self: Sized,
    {
        durable.inner.release()
    }
}

/// A handle to a durable of a backend with a twist.
pub struct TwistedDurable<W: CursorTwist> {
    /// The handle inside.
    pub inner: Arc<<W::Inner as Cursors>::Durable>,
    /// The durable's name.
    pub name: Arc<str>,
}

impl<W: CursorTwist> Cursors for Twisted<W> {
    type Durable = TwistedDurable<W>;

    fn ensure_durable(
        client: &Self::Client,
        durable: &GroupAddress,
        settings: &DurableSettings,
    ) -> impl Future<Output = Result<bool, BackendError>> + Send {
        W::ensure(client, durable, settings)
    }

    fn update_durable(
        client: &Self::Client,
        durable: &GroupAddress,
        settings: &DurableSettings,
    ) -> impl Future<Output = Result<(), BackendError>> + Send {
        W::update(client, durable, settings)
    }

    fn delete_durable(
        client: &Self::Client,
        durable: &GroupAddress,
    ) -> impl Future<Output = Result<bool, BackendError>> + Send {
        W::Inner::delete_durable(client, durable)
    }

    fn inspect_durable(
        client: &Self::Client,
        durable: &GroupAddress,
    ) -> impl Future<Output = Result<DurableInfo, BackendError>> + Send {
        W::inspect(client, durable)
    }

    async fn bind_durable(client: &Self::Client, durable: &GroupAddress) -> Result<TwistedDurable<W>, BackendError> {
        let inner = Arc::new(W::Inner::bind_durable(client, durable).await?);
        Ok(TwistedDurable { inner, name: durable.name().clone() })
    }
}

impl<W: CursorTwist> BoundDurable for TwistedDurable<W> {
    fn pull(&self, max: usize, wait: Duration) -> impl Future<Output = Result<Vec<Pulled>, BackendError>> + Send {
        W::pull(self, max, wait)
    }

    fn settle(
        &self,
        settlements: Vec<(Ticket, Verdict)>,
    ) -> impl Future<Output = Vec<Result<(), BackendError>>> + Send {
        W::settle(self, settlements)
    }
    fn release(&self) -> impl Future<Output = ()> + Send {
        W::give_back(self)
    }
}
