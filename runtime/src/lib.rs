//! Typed, versioned topics over Redis or memory.
//!
//! > What the broker can't do doesn't compile. What was lost is told. What was settled is recorded.

mod address;
mod broker;
mod declaration;
mod error;
mod telemetry;
mod topic;

pub mod backend;
pub mod capability;
pub mod codec;
#[cfg(feature = "conformance")]
pub mod conformance;
#[doc(hidden)]
pub mod __private;

pub use address::{key, NameError, Namespace};
pub use broker::{Broker, Brokers, BrokersBuilder, Config, Limits, Stats};
pub use declaration::{Declaration, Kind, SelfKeyed, TopicSpec};
pub use error::{BoxError, Cause, Error, ErrorKind, HandlerError, Operation, Outcome};
pub use key::TopicKey;
pub use tidings_macros::{topic, TopicKey};
pub use topic::{
    Call, Ended, Gap, Heard, KeyedSubscription, KeyedTopic, OnMalformed, PublishKeyed, PublishTopic, Stop, SubscribeOptions,
    SubscribeTopic, Subscription, Supervise, SupervisePolicy, Topic,
};

/// The traits that bring the convenience methods: `event.publish(&broker, &key)`, `OrderPlaced::subscribe(&broker, &key)`.
pub mod prelude {
    pub use crate::{PublishKeyed as _, PublishTopic as _, SelfKeyed as _, SubscribeTopic as _};
}
