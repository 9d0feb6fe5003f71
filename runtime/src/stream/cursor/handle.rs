use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use crate::capability::{BackendError, BoundDurable, Pulled, Ticket, Verdict};

type Answer<'a, T> = Pin<Box<dyn Future<Output = Result<T, BackendError>> + Send + 'a>>;

/// A durable's handle, whatever its backend. Without it a cursor's type would need the capability as a bound, and rustc
/// reports a type's bound wherever the type stands.
pub(super) trait Handle: Send + Sync {
    /// Takes at most one delivery.
    fn pull(&self, wait: Duration) -> Answer<'_, Vec<Pulled>>;

    /// Settles one.
    fn settle(&self, ticket: Ticket, verdict: Verdict) -> Answer<'_, ()>;
}

impl<D: BoundDurable> Handle for D {
    fn pull(&self, wait: Duration) -> Answer<'_, Vec<Pulled>> {
        Box::pin(BoundDurable::pull(self, 1, wait))
    }

    fn settle(&self, ticket: Ticket, verdict: Verdict) -> Answer<'_, ()> {
        Box::pin(async move {
            let settled = BoundDurable::settle(self, vec![(ticket, verdict)]).await;
            settled.into_iter().next().unwrap_or(Ok(()))
        })
    }
}
