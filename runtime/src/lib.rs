//! Typed, versioned topics and streams over memory, Redis, Redis Cluster, Kafka or NATS.
//!
//! > What the broker can't do doesn't compile. What was lost is told. What was settled is recorded.
//!
//! A payload type is declared with [`#[topic(..)]`](macro@topic); a [`Broker`] is built from a
//! [`backend`] and a [`Config`]; binding the one to the other gives a [`Topic`], which publishes, subscribes
//! and supervises.
//!
//! ```
//! use tidings::backend::Memory;
//! use tidings::{Broker, Config, Namespace, topic};
//!
//! #[topic(name = "orders.placed", version = 1, key(region))]
//! #[derive(Debug, PartialEq, serde::Serialize, serde::Deserialize)]
//! struct OrderPlaced {
//!     region: String,
//!     cents: i64,
//! }
//!
//! # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
//! let broker = Broker::new(Memory::new(), Config::new(Namespace::new("shop", "prod")?))?;
//! let placed = OrderPlaced::topic(&broker)?;
//! let mut orders = placed.subscribe_all().await?;
//! placed.publish(&OrderPlaced { region: "eu".to_owned(), cents: 990 }).await?;
//! let (key, order) = orders.receive().await?;
//! assert_eq!((&*key.region, order.cents), ("eu", 990));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A stream is declared with [`#[stream_spec(..)]`](macro@stream_spec): an ordered, replayable log, which a
//! [`Stream`] appends to and reads, an [`AckGroup`] shares among consumers, and a [`Worker`] handles.
//!
//! # Where to look
//!
//! | for | see |
//! |---|---|
//! | the words of the attributes, and what they generate | [`topic`](macro@topic), [`stream_spec`](macro@stream_spec) |
//! | keys: which types, which text | [`TopicKey`](derive@TopicKey), [`key`] |
//! | a consumer that goes on after an interruption and tells the [`Gap`] | [`Topic::supervise`] |
//! | one that ends with it | [`Topic::subscribe`] |
//! | an append that is recorded, and one that can be repeated | [`Stream::append`], [`Append::id`] |
//! | reading and following a stream | [`Stream::read`], [`Stream::tail`] |
//! | consumers that share a stream | [`Stream::ack_group`], [`Consumer`] |
//! | a consumer that goes on, keeps order by key and settles | [`AckGroup::worker`] |
//! | whether a failed operation may have happened | [`Error::outcome`] |
//! | every bound | [`Limits`], [`SubscribeOptions`] |
//! | what the payload's JSON may hold | [`codec::Json`] |
//! | a backend of your own | [`capability`] |
//!
//! # Features
//!
//! None is on by default: macros and memory are always there.
//!
//! | feature | adds |
//! |---|---|
//! | `redis` | the backends for Redis and Valkey |
//! | `kafka` | the backend for Apache Kafka; it compiles librdkafka, which takes a C++ compiler and the headers of OpenSSL and zlib |
//! | `kafka-dynamic` | the same with the system's librdkafka, 2.12 or later |
//! | `nats` | the backend for NATS |
//! | `uuid`, `time` | key segments of those crates' types |
//! | `conformance` | the suite of tests that holds a backend to the capabilities' contracts |

mod address;
mod batch;
mod broker;
mod call;
mod declaration;
mod error;
mod stream;
mod telemetry;
mod topic;
mod worker;

#[doc(hidden)]
pub mod __private;
pub mod backend;
pub mod capability;
pub mod codec;
#[cfg(feature = "conformance")]
pub mod conformance;

pub use address::{NameError, Namespace, key};
pub use broker::{Broker, Brokers, BrokersBuilder, Config, Limits, Stats};
pub use call::Call;
pub use declaration::{Carrier, Declaration, Kind, SelfKeyed, StreamKeyed, StreamSpec, StreamedBy, TopicSpec};
pub use error::{BoxError, Cause, Error, ErrorKind, HandlerError, Operation, Outcome};
pub use key::TopicKey;
pub use stream::{
    AckGroup, Append, AppendEntry, AppendKeyed, Claimed, CommitGroup, Consumer, Cursor, Delivery, Depth, Durability,
    Durable, DurableInfo, DurableOwner, DurableSettings, Headers, InFlight, KeyedStream, Lag, Member, MemberSettings,
    MemberTail, MessageId, PendingEntry, Poison, Position, PositionError, Positions, Reader, Receipt, Start, Storage,
    Stream, StreamSettings, Tail, Unit,
};
pub use tidings_macros::{TopicKey, stream_spec, topic};
pub use topic::{
    Ended, Gap, Heard, KeyedSubscription, KeyedTopic, Notice, OnMalformed, PublishKeyed, PublishTopic, Stop,
    SubscribeOptions, SubscribeTopic, Subscription, Supervise, SupervisePolicy, Topic,
};

pub use worker::{Worker, WorkerNotice};

/// The traits that bring the convenience methods: `event.publish(&broker, &key)`, `OrderPlaced::subscribe(&broker, &key)`.
pub mod prelude {
    pub use crate::{
        AppendEntry as _, AppendKeyed as _, PublishKeyed as _, PublishTopic as _, SelfKeyed as _, StreamKeyed as _,
        SubscribeTopic as _,
    };
}

// The README's example is run with the others.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
struct Readme;
