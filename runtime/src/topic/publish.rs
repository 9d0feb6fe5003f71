use std::fmt;
use std::future::Future;

use tracing::Instrument as _;

use super::Topic;
use crate::batch::{answered, encoded, unencoded};
use crate::capability::{BackendError, Outgoing, PubSub};
use crate::codec::Encode;
use crate::declaration::TopicSpec;
use crate::error::{Error, ErrorKind, Operation};
use crate::key::{KeyWriter, TopicKey};
use crate::telemetry;

/// How many heard a publish, as the authority counted; `None` where it doesn't.
///
/// Memory counts subscriptions. Redis counts the deliveries that it made: a connection with an exact and a matching
/// pattern subscription counts twice, and the subscriptions of one broker share a connection. Redis Cluster counts
/// only one node's clients, so the count is `None`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Heard {
    count: Option<u64>,
}

impl Heard {
    /// Returns the count. Zero is success: nobody was there.
    #[must_use]
    pub fn count(self) -> Option<u64> {
        self.count
    }
}

impl fmt::Display for Heard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.count {
            Some(count) => write!(f, "{count}"),
            None => f.write_str("uncounted"),
        }
    }
}

impl<T: TopicSpec, B: PubSub> Topic<T, B> {
    /// Publishes one event under a key, once, and returns how many heard it.
    ///
    /// Key and event are encoded at once, before the future is polled, so it borrows neither. Publish is never retried.
    ///
    /// # Errors
    ///
    /// `Encode`, `TooLarge` and `Invalid` (a key over its limit) come before anything is sent; so do `Overloaded` and
    /// `Closed` with the outcome `NotApplied`. `Timeout`, `Unavailable`, `Refused` and `Forbidden` say by their
    /// [`outcome`](Error::outcome) whether the message may have gone out.
    ///
    /// # Cancel safety
    ///
    /// Dropped before it is ready, the message may or may not go out.
    pub fn publish<'a>(
        &'a self,
        key: &T::Key,
        event: &T,
    ) -> impl Future<Output = Result<Heard, Error>> + Send + use<'a, T, B>
    where
        T::Codec: Encode<T>,
    {
        self.send(self.encode(|to| key.write(to), event))
    }

    /// Publishes several events in order, as one operation, and returns each one's own outcome in that order.
    ///
    /// An event that can't be encoded fails alone; the others go out. An empty batch does nothing.
    ///
    /// # Errors
    ///
    /// `Overloaded`, `Closed` and `Invalid` (more than `batch_messages`) concern the whole batch, of which nothing was
    /// sent then.
    ///
    /// # Cancel safety
    ///
    /// Dropped before it is ready, any of the messages may or may not go out.
    pub fn publish_all<'a, 'e, I>(
        &'a self,
        events: I,
    ) -> impl Future<Output = Result<Vec<Result<Heard, Error>>, Error>> + Send + use<'a, 'e, T, B, I>
    where
        I: IntoIterator<Item = (&'e T::Key, &'e T)>,
        T: 'e,
        T::Key: 'e,
        T::Codec: Encode<T>,
    {
        self.send_all(events.into_iter().map(|(key, event)| self.encode(|to| key.write(to), event)).collect())
    }

    pub(super) fn encode(&self, write_key: impl FnOnce(&mut KeyWriter<'_>), event: &T) -> Result<Outgoing, Error>
    where
        T::Codec: Encode<T>,
    {
        let limits = self.broker.limits();
        let channel = self.channel(Operation::Publish, write_key)?;
        let payload = encoded(|to| T::Codec::encode(event, to, limits.publish_bytes)).map_err(|wrong| {
            let (kind, detail) = unencoded(&wrong, "publish_bytes");
            self.error(kind, Operation::Publish).detail(detail).source_of(wrong)
        })?;
        Ok(Outgoing { channel, payload })
    }

    pub(super) fn send(
        &self,
        message: Result<Outgoing, Error>,
    ) -> impl Future<Output = Result<Heard, Error>> + Send + use<'_, T, B> {
        let span = telemetry::publish(self.bound.declaration, self.broker.inner.system, 1);
        let traced = !span.is_none();
        let sending = async move {
            let inner = &*self.broker.inner;
            let sent = match message {
                Err(error) => Err(error),
                Ok(message) => match inner.host.shared().admit().await {
                    Err(kind) => Err(self.error(kind, Operation::Publish)),
                    Ok(_place) => {
                        let published = B::publish(&inner.client, message).await;
                        published.map(|count| Heard { count }).map_err(|failed| self.unheard(failed))
                    }
                },
            };
            if traced {
                telemetry::published(&sent);
            }
            sent
        };
        sending.instrument(span)
    }

    pub(super) fn send_all(
        &self,
        messages: Vec<Result<Outgoing, Error>>,
    ) -> impl Future<Output = Result<Vec<Result<Heard, Error>>, Error>> + Send + use<'_, T, B> {
        let span = telemetry::publish(self.bound.declaration, self.broker.inner.system, messages.len());
        let traced = !span.is_none();
        let sending = async move {
            let sent = self.send_admitted(messages).await;
            if traced {
                telemetry::published(&sent);
            }
            sent
        };
        sending.instrument(span)
    }

    async fn send_admitted(&self, messages: Vec<Result<Outgoing, Error>>) -> Result<Vec<Result<Heard, Error>>, Error> {
        let inner = &*self.broker.inner;
        let most = inner.host.limits().batch_messages;
        if messages.len() > most {
            let detail = format!("{} messages; `batch_messages` is {most}, so publish in several", messages.len());
            return Err(self.error(ErrorKind::Invalid, Operation::Publish).detail(detail));
        }
        let _place = inner.host.shared().admit().await.map_err(|kind| self.error(kind, Operation::Publish))?;
        let send = |outgoing| B::publish_all(&inner.client, outgoing);
        let answers = answered(messages, send, |failed| self.unheard(failed)).await;
        Ok(answers.into_iter().map(|answer| answer.map(|count| Heard { count })).collect())
    }

    fn unheard(&self, failed: BackendError) -> Error {
        Error::of_backend(failed, Operation::Publish).about(self.bound.declaration, self.broker.inner.system)
    }
}
