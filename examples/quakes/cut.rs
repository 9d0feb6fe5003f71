//! How the connection is cut. A real service has no such thing; its network sees to it.

use tidings::backend::Memory;
use tidings_examples::{Failure, Url};

/// What cuts the followers off, once.
pub(crate) enum Cut {
    Memory(Memory),
    Redis(redis::aio::MultiplexedConnection),
}

impl Cut {
    /// Connects to the server beforehand, so that what is wrong with it is told before the run.
    pub(crate) async fn redis(url: &Url) -> Result<Self, Failure> {
        let client = redis::Client::open(&*url.0)?;
        Ok(Self::Redis(client.get_multiplexed_async_connection().await?))
    }

    pub(crate) async fn cut(self) -> Result<(), Failure> {
        match self {
            Self::Memory(memory) => memory.disconnect(),
            Self::Redis(mut connection) => {
                let mut kill = redis::cmd("CLIENT");
                let killed: u64 = kill.arg(&["KILL", "TYPE", "pubsub"]).query_async(&mut connection).await?;
                if killed == 0 {
                    return Err("the server had no pub/sub connection to cut".into());
                }
            }
        }
        Ok(())
    }
}
