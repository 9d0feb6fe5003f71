//! The adapters, one for each messaging system.

mod memory;
#[cfg(feature = "redis")]
mod redis;

#[cfg(feature = "redis")]
pub use self::redis::{Redis, RedisCluster};
pub use memory::Memory;
