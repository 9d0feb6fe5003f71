//! Backends that lack something, for the cases in `ui/capability/` and `ui/stream/`; and payloads under the strictest lints, so that
//! clippy sees the generated code as well.

mod backends;
mod logs;
#[deny(
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
mod payloads;

pub use backends::{Never, NoPatterns, NoTopics};
pub use logs::{LogOnly, NoUnits};
pub use payloads::{OrderKey, OrderLost, OrderLostKey, OrderPlaced, OrderSent, OrderSentKey, Region};
