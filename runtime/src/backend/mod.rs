//! The adapters, one for each messaging system.

mod any;
#[cfg(any(feature = "kafka", feature = "nats", feature = "redis"))]
mod authority;
#[cfg(feature = "kafka")]
mod kafka;
mod memory;
#[cfg(feature = "nats")]
mod nats;
#[cfg(feature = "redis")]
mod redis;
#[cfg(any(feature = "nats", feature = "redis"))]
mod routes;
#[cfg(any(feature = "nats", feature = "redis"))]
mod socket;

#[cfg(feature = "kafka")]
pub use self::kafka::{GroupProtocol, Kafka, Sasl};
#[cfg(feature = "nats")]
pub use self::nats::Nats;
#[cfg(feature = "redis")]
pub use self::redis::{Redis, RedisCluster};
pub use any::AnyBackend;
pub use memory::Memory;
