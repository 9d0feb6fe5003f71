//! For code that the macros generate, and for nobody else: it changes without notice.

pub use core;

use crate::broker::Broker;
use crate::capability::{Log, PubSub};
use crate::declaration::{SelfKeyed, StreamKeyed, StreamSpec, StreamedBy, TopicSpec};
use crate::error::Error;
use crate::stream::{KeyedStream, Stream};
use crate::topic::{KeyedTopic, Topic};

/// Binds a topic.
pub fn topic<T: TopicSpec, B: PubSub>(broker: &Broker<B>) -> Result<Topic<T, B>, Error> {
    Topic::bind(broker)
}

/// Binds a topic whose events hold their key.
pub fn keyed_topic<T: SelfKeyed, B: PubSub>(broker: &Broker<B>) -> Result<KeyedTopic<T, B>, Error> {
    Topic::bind(broker).map(KeyedTopic::new)
}

/// Binds a stream whose backend has what its declaration requires.
pub fn stream<T: StreamSpec, B: Log>(broker: &Broker<B>) -> Result<Stream<T, B>, Error> {
    Stream::bind(broker)
}

/// Binds a stream whose entries hold their key.
pub fn keyed_stream<T, B>(broker: &Broker<B>) -> Result<KeyedStream<T, B>, Error>
where
    T: StreamKeyed + StreamedBy<Broker<B>>,
    B: crate::capability::Backend,
{
    T::bind(broker).map(KeyedStream::new)
}
