use std::future::Future;
use std::sync::Arc;

use super::super::{KeyedSubscription, Subscription, Topic};
use crate::call::Call;
use crate::capability::{PatternPubSub, PubSub};
use crate::codec::Decode;
use crate::declaration::TopicSpec;
use crate::error::Error;

/// What a supervision subscribes to, again and again.
pub trait Source: Send + Sync {
    /// What its handler is given.
    type Event: Send;
    /// One subscription to it.
    type Subscription: Send;
    /// The topic's payload.
    type Spec: TopicSpec;
    /// The topic's backend.
    type Backend: PubSub;

    fn topic(&self) -> &Topic<Self::Spec, Self::Backend>;

    fn open(&self) -> impl Future<Output = Result<Self::Subscription, Error>> + Send;

    fn receive(from: &mut Self::Subscription) -> impl Future<Output = Result<Self::Event, Error>> + Send;
}

macro_rules! source {
    ($(#[$doc:meta])* $name:ident { $field:ident: $type:ty }, $bound:path, $subscription:ident, $event:ty, $open:ident) => {
        $(#[$doc])*
        #[derive(Debug)]
        pub struct $name<T: TopicSpec, B: PubSub> {
            topic: Topic<T, B>,
            $field: Result<$type, Error>,
            /// Holds what the capability's bound allows, so that only the making asks for it: one refusal, one error.
            open: for<'a> fn(&'a Topic<T, B>, $type) -> Call<'a, $subscription<T, B>>,
        }

        impl<T: TopicSpec, B: $bound> $name<T, B>
        where
            T::Codec: Decode<T>,
        {
            pub(super) fn new(topic: &Topic<T, B>, $field: Result<$type, Error>) -> Self {
                // In a box: a set-up is large and rare, and would make every supervision as large.
                Self { topic: topic.clone(), $field, open: |topic, $field| Call::new(topic.$open($field)) }
            }
        }

        impl<T: TopicSpec + Send, B: PubSub> Source for $name<T, B>
        where
            T::Key: Send,
            T::Codec: Decode<T>,
        {
            type Event = $event;
            type Subscription = $subscription<T, B>;
            type Spec = T;
            type Backend = B;

            fn topic(&self) -> &Topic<T, B> {
                &self.topic
            }

            async fn open(&self) -> Result<Self::Subscription, Error> {
                (self.open)(&self.topic, self.$field.clone()?).await
            }

            async fn receive(from: &mut Self::Subscription) -> Result<Self::Event, Error> {
                from.receive().await
            }
        }
    };
}

source! {
    /// One key.
    OneKey { channel: String }, PubSub, Subscription, T, subscribe_channel
}

source! {
    /// Several keys.
    SomeKeys { channels: Vec<Arc<str>> }, PubSub, KeyedSubscription, (T::Key, T), subscribe_channels
}

source! {
    /// Every key, or every key below a prefix.
    KeysUnder { prefix: Arc<str> }, PatternPubSub, KeyedSubscription, (T::Key, T), subscribe_below
}
