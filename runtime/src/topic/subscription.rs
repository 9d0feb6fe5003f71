use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use futures_core::Stream;

use super::feed::{Ending, Incoming};
use super::subscribe::Active;
use super::{OnMalformed, Topic};
use crate::capability::PubSub;
use crate::codec::Decode;
use crate::declaration::TopicSpec;
use crate::error::{BoxError, Cause, Error, ErrorKind, Operation};
use crate::key::KeyError;
use crate::telemetry;

/// The common part: takes messages, decodes them, and keeps the error that ended it.
struct Receiver<T: TopicSpec, B: PubSub> {
    topic: Topic<T, B>,
    active: Active<B>,
    /// Set once the ending has been received; it sticks.
    ended: Option<Error>,
    /// Whether the stream has given its last error.
    exhausted: bool,
}

impl<T: TopicSpec, B: PubSub> Receiver<T, B> {
    fn poll<R>(
        &mut self,
        cx: &mut Context<'_>,
        decode: impl Fn(&Topic<T, B>, &Incoming) -> Result<R, BoxError>,
    ) -> Poll<Result<R, Error>> {
        if let Some(ended) = &self.ended {
            return Poll::Ready(Err(ended.clone()));
        }
        loop {
            let coop = ready!(tokio::task::coop::poll_proceed(cx));
            let received = ready!(self.active.inbox.poll(cx));
            coop.made_progress();
            let incoming = match received {
                Ok(incoming) => incoming,
                Err(ending) => return Poll::Ready(Err(self.end(&ending))),
            };
            match decode(&self.topic, &incoming) {
                Ok(event) => {
                    telemetry::received(self.topic.bound.declaration, self.system(), incoming.payload.len());
                    return Poll::Ready(Ok(event));
                }
                // What lies below a prefix with another number of segments is no channel of this topic.
                Err(wrong) if wrong.downcast_ref().is_some_and(KeyError::is_foreign) => {
                    telemetry::foreign(self.topic.bound.declaration, self.system());
                }
                Err(wrong) => return Poll::Ready(Err(self.malformed(wrong))),
            }
        }
    }

    fn poll_next<R>(
        &mut self,
        cx: &mut Context<'_>,
        decode: impl Fn(&Topic<T, B>, &Incoming) -> Result<R, BoxError>,
    ) -> Poll<Option<Result<R, Error>>> {
        if self.exhausted {
            return Poll::Ready(None);
        }
        let received = ready!(self.poll(cx, decode));
        self.exhausted = self.ended.is_some();
        Poll::Ready(Some(received))
    }

    fn system(&self) -> &'static str {
        self.topic.broker.inner.system
    }

    #[cold]
    fn malformed(&mut self, wrong: BoxError) -> Error {
        let kind = match self.topic.options.on_malformed {
            OnMalformed::Report => ErrorKind::Malformed,
            OnMalformed::End => ErrorKind::Ended(Cause::Malformed),
        };
        let error = self.topic.error(kind, Operation::Receive).detail(wrong.to_string()).source_of(wrong);
        telemetry::malformed(self.topic.bound.declaration, self.system(), &error);
        if error.cause().is_some() {
            self.ended = Some(error.clone());
        }
        error
    }

    #[cold]
    fn end(&mut self, ending: &Ending) -> Error {
        let mut error = self.topic.error(ErrorKind::Ended(ending.cause), Operation::Receive);
        if let Some(detail) = &ending.detail {
            error = error.detail(&**detail);
        }
        telemetry::ended(self.topic.bound.declaration, self.system(), ending.cause, ending.detail.as_deref());
        self.ended = Some(error.clone());
        error
    }
}

fn value<T: TopicSpec, B: PubSub>(_: &Topic<T, B>, incoming: &Incoming) -> Result<T, BoxError>
where
    T::Codec: Decode<T>,
{
    T::Codec::decode(&incoming.payload).map_err(Into::into)
}

fn key_and_value<T: TopicSpec, B: PubSub>(topic: &Topic<T, B>, incoming: &Incoming) -> Result<(T::Key, T), BoxError>
where
    T::Codec: Decode<T>,
{
    let channel = incoming.channel.as_deref().unwrap_or_default();
    Ok((topic.bound.key_of(channel)?, value(topic, incoming)?))
}

macro_rules! subscription {
    ($(#[$doc:meta])* $name:ident, $item:ty, $decode:ident) => {
        $(#[$doc])*
        ///
        /// It delivers everything that its channels carried since it was ready, or ends with a cause that sticks. What
        /// was received before the cause comes first. Nothing is dropped and nothing reconnects in silence;
        /// [`Topic::supervise`] is the form that subscribes again and tells the gap.
        ///
        /// It is also a `futures` `Stream`, which gives the ending as its last item. Dropping it unsubscribes behind.
        pub struct $name<T: TopicSpec, B: PubSub> {
            receiver: Receiver<T, B>,
        }

        impl<T: TopicSpec, B: PubSub> $name<T, B> {
            pub(super) fn new(topic: Topic<T, B>, active: Active<B>) -> Self {
                Self { receiver: Receiver { topic, active, ended: None, exhausted: false } }
            }

            /// Unsubscribes, and returns when the server has confirmed it or the connection is gone.
            ///
            /// # Cancel safety
            ///
            /// Dropped midway, it still unsubscribes behind.
            pub async fn close(self) {
                self.receiver.active.close().await;
            }
        }

        impl<T: TopicSpec, B: PubSub> $name<T, B>
        where
            T::Codec: Decode<T>,
        {
            /// Receives the next event; one at a time, by the borrow.
            ///
            /// # Errors
            ///
            /// `Ended` with the cause, again and again; `Malformed` for one message where
            /// [`OnMalformed::Report`] was chosen, after which it goes on.
            ///
            /// # Cancel safety
            ///
            /// Dropping the future loses nothing.
            pub async fn receive(&mut self) -> Result<$item, Error> {
                poll_fn(|cx| self.receiver.poll(cx, $decode)).await
            }
        }

        impl<T: TopicSpec, B: PubSub> Stream for $name<T, B>
        where
            T::Codec: Decode<T>,
        {
            type Item = Result<$item, Error>;

            fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
                self.receiver.poll_next(cx, $decode)
            }
        }

        // Nothing in it is pinned: messages are taken by value.
        impl<T: TopicSpec, B: PubSub> Unpin for $name<T, B> {}

        impl<T: TopicSpec, B: PubSub> std::fmt::Debug for $name<T, B> {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.debug_struct(stringify!($name))
                    .field("topic", &self.receiver.topic)
                    .field("ended", &self.receiver.ended)
                    .finish_non_exhaustive()
            }
        }
    };
}

subscription! {
    /// Events of one key.
    Subscription, T, value
}

subscription! {
    /// Events of several keys, each with its key, in order of arrival.
    KeyedSubscription, (T::Key, T), key_and_value
}
