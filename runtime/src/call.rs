use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use crate::error::Error;

/// One call of an operation; await it.
///
/// It is a named type, and each bound stands on the method that returns it, so that rustc reports a missing capability
/// once, in the capability's words.
#[must_use = "nothing happens until it is awaited"]
pub struct Call<'a, R> {
    operation: Pin<Box<dyn Future<Output = Result<R, Error>> + Send + 'a>>,
}

impl<'a, R> Call<'a, R> {
    pub(crate) fn new(operation: impl Future<Output = Result<R, Error>> + Send + 'a) -> Self {
        Self { operation: Box::pin(operation) }
    }
}

impl<R> Future for Call<'_, R> {
    type Output = Result<R, Error>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.operation.as_mut().poll(cx)
    }
}

impl<R> std::fmt::Debug for Call<'_, R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Call").finish_non_exhaustive()
    }
}
