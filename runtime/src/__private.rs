//! For code that the macros generate, and for nobody else: it changes without notice.

pub use core;

use crate::broker::Broker;
use crate::capability::PubSub;
use crate::declaration::{SelfKeyed, TopicSpec};
use crate::error::Error;
use crate::topic::{KeyedTopic, Topic};

/// Binds a topic.
pub fn topic<T: TopicSpec, B: PubSub>(broker: &Broker<B>) -> Result<Topic<T, B>, Error> {
    Topic::bind(broker)
}

/// Binds a topic whose events hold their key.
pub fn keyed_topic<T: SelfKeyed, B: PubSub>(broker: &Broker<B>) -> Result<KeyedTopic<T, B>, Error> {
    Topic::bind(broker).map(KeyedTopic::new)
}
