//! Whole sequences, as other libraries' suites have them, in memory and on real servers.

mod payloads;
mod place;
mod watermill;

/// Makes a module of tests for each place.
macro_rules! everywhere {
    ($($case:ident)+) => {
        everywhere!(@memory InProcess::start(); $($case)+);
        everywhere!(@redis_7_0 OnServer::start(Kind::Redis7).await; $($case)+);
        everywhere!(@redis_8_0 OnServer::start(Kind::Redis8).await; $($case)+);
    };
    (@$place:ident $start:expr; $($case:ident)+) => {
        mod $place {
            use super::*;

            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $case() {
                    // In a box: in a debug build it can be larger than a test's stack.
                    Box::pin(super::$case($start)).await;
                }
            )+
        }
    };
}
use everywhere;
