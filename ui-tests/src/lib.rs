//! A library under the strictest lints, so that clippy sees the generated code as well; and backends that lack
//! something, for the cases in `ui/capability/`.
#![deny(
    warnings,
    missing_docs,
    missing_debug_implementations,
    unreachable_pub,
    unused_qualifications,
    single_use_lifetimes,
    unused_lifetimes,
    clippy::all,
    clippy::pedantic,
    clippy::nursery
)]

mod backends;
mod payloads;

pub use backends::{NoPatterns, NoTopics};
pub use payloads::{OrderKey, OrderLost, OrderLostKey, OrderPlaced, OrderSent, OrderSentKey, Region};
