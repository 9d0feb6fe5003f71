//! Topics: typed, ephemeral fan-out over a backend with `PubSub`.

mod bound;
mod convenience;
mod feed;
mod handle;
mod keyed;
mod options;
mod publish;
mod subscribe;
mod subscription;
pub(crate) mod supervise;

pub use convenience::{PublishKeyed, PublishTopic, SubscribeTopic};
pub use feed::{Feed, FeedEnded};
pub use handle::Topic;
pub use keyed::KeyedTopic;
pub use options::{OnMalformed, SubscribeOptions};
pub use publish::Heard;
pub use subscription::{KeyedSubscription, Subscription};
pub use supervise::{Ended, Gap, Notice, Stop, Supervise, SupervisePolicy};

pub(crate) use bound::Bound;
#[cfg(any(feature = "conformance", feature = "nats"))]
pub(crate) use feed::{FeedLimits, Inbox, feed};
pub(crate) use supervise::{Backoff, Ends, Interruption, Rounded, words};
