//! The adapters, one for each messaging system.

mod any;
mod memory;
#[cfg(feature = "redis")]
mod redis;

#[cfg(feature = "redis")]
pub use self::redis::{Redis, RedisCluster};
pub use any::AnyBackend;
pub use memory::Memory;
