use std::marker::PhantomData;
use std::sync::Arc;

use super::{Bound, SubscribeOptions};
use crate::broker::Broker;
use crate::capability::Backend;
use crate::declaration::{Declaration, TopicSpec};
use crate::error::{Error, ErrorKind, Operation};
use crate::key::{KeyWriter, TopicKey};

/// A topic bound to a broker: what [`#[topic]`](macro@crate::topic) generates as `T::topic(&broker)`.
///
/// Clones are the same topic. The bounds stand on the methods, so that rustc reports a missing capability once.
pub struct Topic<T: TopicSpec, B: Backend> {
    pub(crate) broker: Broker<B>,
    pub(crate) bound: Arc<Bound>,
    pub(crate) options: SubscribeOptions,
    payload: PhantomData<fn(T) -> T>,
}

impl<T: TopicSpec, B: Backend> Topic<T, B> {
    pub(crate) fn bind(broker: &Broker<B>) -> Result<Self, Error> {
        let bound = broker.bind_topic(T::DECLARATION, typeid::of::<T>())?;
        Ok(Self { broker: broker.clone(), bound, options: SubscribeOptions::default(), payload: PhantomData })
    }

    /// Returns name and version.
    #[must_use]
    pub fn declaration(&self) -> Declaration {
        self.bound.declaration
    }

    /// Returns the address below which the topic's channels lie; with key `()` the one channel itself.
    #[must_use]
    pub fn address(&self) -> &str {
        &self.bound.address
    }

    /// Returns the channel of a key: what `redis-cli SUBSCRIBE` takes.
    ///
    /// # Errors
    ///
    /// `Invalid` for a key over its limit.
    pub fn channel_of(&self, key: &T::Key) -> Result<String, Error> {
        self.channel(Operation::Subscribe, |to| key.write(to))
    }

    /// Returns the broker.
    #[must_use]
    pub fn broker(&self) -> &Broker<B> {
        &self.broker
    }

    /// Returns a handle to the same topic whose subscriptions and supervisions have these options.
    ///
    /// # Errors
    ///
    /// `Invalid` with every option out of its bounds.
    pub fn with_options(&self, options: SubscribeOptions) -> Result<Self, Error> {
        let problems = self.limits_with(&options).problems();
        if problems.is_empty() {
            let mut topic = self.clone();
            topic.options = options;
            Ok(topic)
        } else {
            Err(self.error(ErrorKind::Invalid, Operation::Subscribe).detail(problems.join("; ")))
        }
    }

    /// The broker's limits with the options' own in their place.
    pub(super) fn limits_with(&self, options: &SubscribeOptions) -> crate::broker::Limits {
        let mut limits = self.broker.limits().clone();
        limits.buffer_messages = options.buffer_messages.unwrap_or(limits.buffer_messages);
        limits.buffer_bytes = options.buffer_bytes.unwrap_or(limits.buffer_bytes);
        limits.receive_bytes = options.receive_bytes.unwrap_or(limits.receive_bytes);
        limits
    }

    /// The channel of a key, which an operation needs.
    pub(super) fn channel(
        &self,
        operation: Operation,
        write_key: impl FnOnce(&mut KeyWriter<'_>),
    ) -> Result<String, Error> {
        let most = self.broker.limits().key_bytes;
        self.bound.channel(most, write_key).map_err(|bytes| {
            let detail =
                format!("the key has {bytes} bytes; `key_bytes` is {most}, so shorten the one or raise the other");
            self.error(ErrorKind::Invalid, operation).detail(detail)
        })
    }

    pub(crate) fn error(&self, kind: ErrorKind, operation: Operation) -> Error {
        Error::new(kind, operation).about(self.bound.declaration, self.broker.inner.system)
    }
}

impl<T: TopicSpec, B: Backend> Clone for Topic<T, B> {
    fn clone(&self) -> Self {
        Self { broker: self.broker.clone(), bound: self.bound.clone(), options: self.options, payload: PhantomData }
    }
}

impl<T: TopicSpec, B: Backend> std::fmt::Debug for Topic<T, B> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Topic")
            .field("declaration", &self.bound.declaration)
            .field("backend", &self.broker.inner.system)
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}
