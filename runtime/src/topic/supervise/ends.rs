//! What interrupts and what ends a supervision or a worker.

use std::any::Any;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;

use tokio::time::Instant;

use super::{Ended, Gap, Stop};
use crate::broker::Host;
use crate::error::{Cause, Error};

/// What a panic said: the user's own words, like a callback's error.
pub(crate) fn words(panic: &(dyn Any + Send)) -> &str {
    let said = panic.downcast_ref::<&str>().copied().or(panic.downcast_ref::<String>().map(String::as_str));
    said.unwrap_or("with a value that is no text")
}

/// An interruption that isn't over yet.
pub(crate) struct Interruption {
    pub(crate) cause: Cause,
    detail: Option<Arc<str>>,
    pub(crate) attempts: u32,
    began: Instant,
}

impl Interruption {
    pub(crate) fn new(cause: Cause, error: &Error) -> Self {
        Self { cause, detail: error.reason().map(Into::into), attempts: 0, began: Instant::now() }
    }

    pub(crate) fn over(self) -> Gap {
        let Self { cause, detail, attempts, began } = self;
        Gap { cause, detail, attempts, lasted: began.elapsed() }
    }
}

type Told<'a> = Pin<Box<dyn Future<Output = ()> + Send + 'a>>;

/// What ends a supervision from outside. Once either has been reported it isn't asked again.
pub(crate) struct Ends<'a> {
    host: &'a Host,
    closing: Told<'a>,
    stop: Option<(&'a Stop, Told<'a>)>,
}

impl<'a> Ends<'a> {
    pub(crate) fn new(host: &'a Host, stop: Option<&'a Stop>) -> Self {
        let stop = stop.map(|stop| (stop, Box::pin(stop.stopped()) as _));
        Self { host, closing: Box::pin(host.closing()), stop }
    }

    /// Awaits a step, unless the broker closes or the token is pulled before it is ready.
    pub(crate) async fn first<T>(&mut self, step: impl Future<Output = T>) -> Result<T, Ended> {
        tokio::pin!(step);
        poll_fn(|cx| {
            // A step that is always ready must not hide the ends, which cost a look each.
            if self.host.is_closing() {
                return Poll::Ready(Err(Ended::Closed));
            }
            if self.stop.as_ref().is_some_and(|(stop, _)| stop.is_stopped()) {
                return Poll::Ready(Err(Ended::Stopped));
            }
            if let Poll::Ready(done) = step.as_mut().poll(cx) {
                return Poll::Ready(Ok(done));
            }
            if self.closing.as_mut().poll(cx).is_ready() {
                return Poll::Ready(Err(Ended::Closed));
            }
            match &mut self.stop {
                Some((_, stopped)) => stopped.as_mut().poll(cx).map(|()| Err(Ended::Stopped)),
                None => Poll::Pending,
            }
        })
        .await
    }

    /// Awaits a callback, unless the broker closes before it is ready.
    pub(crate) async fn unless_closed<T>(&mut self, callback: impl Future<Output = T>) -> Option<T> {
        tokio::pin!(callback);
        poll_fn(|cx| {
            if let Poll::Ready(done) = callback.as_mut().poll(cx) {
                return Poll::Ready(Some(done));
            }
            self.closing.as_mut().poll(cx).map(|()| None)
        })
        .await
    }
}
