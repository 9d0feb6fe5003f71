use super::{Heard, KeyedSubscription, Subscription, Topic};
use crate::broker::Broker;
use crate::call::Call;
use crate::capability::{PatternPubSub, PubSub};
use crate::codec::{Decode, Encode};
use crate::declaration::{SelfKeyed, TopicSpec};
use crate::error::Operation;

/// `event.publish(&broker, &key)`, for topics whose key is given. Brought by [`prelude`](crate::prelude).
///
/// It binds the topic and does what the handle does; a service that publishes often keeps the handle.
pub trait PublishTopic: TopicSpec + Sized {
    /// Binds the topic and publishes this event under the key. See [`Topic::publish`].
    fn publish<'a, B: PubSub>(&self, broker: &Broker<B>, key: &Self::Key) -> Call<'a, Heard>
    where
        Self: 'a,
        Self::Codec: Encode<Self>,
    {
        let bound = Topic::bind(broker).map(|topic| (topic.encode(|to| crate::TopicKey::write(key, to), self), topic));
        Call::new(async move {
            let (message, topic) = bound?;
            topic.send(message).await
        })
    }
}

/// `event.publish(&broker)`, for topics whose events hold their key. Brought by [`prelude`](crate::prelude).
pub trait PublishKeyed: SelfKeyed + Sized {
    /// Binds the topic and publishes this event under its own key. See [`Topic::publish`].
    fn publish<'a, B: PubSub>(&self, broker: &Broker<B>) -> Call<'a, Heard>
    where
        Self: 'a,
        Self::Codec: Encode<Self>,
    {
        let bound = Topic::bind(broker).map(|topic| (topic.encode(|to| self.write_key(to), self), topic));
        Call::new(async move {
            let (message, topic) = bound?;
            topic.send(message).await
        })
    }
}

/// `OrderPlaced::subscribe(&broker, &key)` and its like. Brought by [`prelude`](crate::prelude).
pub trait SubscribeTopic: TopicSpec + Sized {
    /// Binds the topic and subscribes to one key. See [`Topic::subscribe`].
    fn subscribe<'a, B: PubSub>(broker: &Broker<B>, key: &Self::Key) -> Call<'a, Subscription<Self, B>>
    where
        Self: 'a,
        Self::Codec: Decode<Self>,
    {
        let bound = Topic::bind(broker)
            .map(|topic| (topic.channel(Operation::Subscribe, |to| crate::TopicKey::write(key, to)), topic));
        Call::new(async move {
            let (channel, topic) = bound?;
            topic.subscribe_channel(channel?).await
        })
    }

    /// Binds the topic and subscribes to every key. See [`Topic::subscribe_all`].
    fn subscribe_all<'a, B: PatternPubSub>(broker: &Broker<B>) -> Call<'a, KeyedSubscription<Self, B>>
    where
        Self: 'a,
        Self::Codec: Decode<Self>,
    {
        let bound = Topic::bind(broker);
        Call::new(async move { bound?.subscribe_all().await })
    }
}

impl<T: TopicSpec> SubscribeTopic for T {}
