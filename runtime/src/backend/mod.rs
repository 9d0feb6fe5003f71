//! The adapters, one for each messaging system.

mod memory;
#[cfg(feature = "redis")]
mod redis;

pub use memory::Memory;
#[cfg(feature = "redis")]
pub use self::redis::{Redis, RedisCluster};
