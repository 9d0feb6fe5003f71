use std::future::Future;
use std::ops::Deref;

use super::{Heard, SubscribeOptions, Topic};
use crate::capability::{Backend, PubSub};
use crate::codec::Encode;
use crate::declaration::SelfKeyed;
use crate::error::Error;

/// A topic whose events hold their own key: publishing takes the event alone.
///
/// Everything else is [`Topic`]'s, to which it dereferences. Its two publish methods hide `Topic`'s, so that an event
/// doesn't go out under another key than its own by accident.
pub struct KeyedTopic<T: SelfKeyed, B: Backend> {
    topic: Topic<T, B>,
}

impl<T: SelfKeyed, B: PubSub> KeyedTopic<T, B> {
    pub(crate) fn new(topic: Topic<T, B>) -> Self {
        Self { topic }
    }

    /// Publishes one event under its own key. See [`Topic::publish`] for errors and cancel safety.
    pub fn publish<'a>(&'a self, event: &T) -> impl Future<Output = Result<Heard, Error>> + Send + use<'a, T, B>
    where
        T::Codec: Encode<T>,
    {
        self.topic.send(self.topic.encode(|to| event.write_key(to), event))
    }

    /// Publishes several events in order, each under its own key. See [`Topic::publish_all`].
    pub fn publish_all<'a, 'e, I>(
        &'a self,
        events: I,
    ) -> impl Future<Output = Result<Vec<Result<Heard, Error>>, Error>> + Send + use<'a, 'e, T, B, I>
    where
        I: IntoIterator<Item = &'e T>,
        T: 'e,
        T::Codec: Encode<T>,
    {
        let topic = &self.topic;
        topic.send_all(events.into_iter().map(|event| topic.encode(|to| event.write_key(to), event)).collect())
    }

    /// Returns a handle with other options. See [`Topic::with_options`].
    ///
    /// # Errors
    ///
    /// `Invalid` with every option out of its bounds.
    pub fn with_options(&self, options: SubscribeOptions) -> Result<Self, Error> {
        Ok(Self { topic: self.topic.with_options(options)? })
    }
}

impl<T: SelfKeyed, B: Backend> Deref for KeyedTopic<T, B> {
    type Target = Topic<T, B>;

    fn deref(&self) -> &Self::Target {
        &self.topic
    }
}

impl<T: SelfKeyed, B: Backend> Clone for KeyedTopic<T, B> {
    fn clone(&self) -> Self {
        Self { topic: self.topic.clone() }
    }
}

impl<T: SelfKeyed, B: Backend> std::fmt::Debug for KeyedTopic<T, B> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.topic.fmt(f)
    }
}
