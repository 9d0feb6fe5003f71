//! What the integration tests of tidings stand on: real servers, broken networks, certificates.

#![allow(
    clippy::disallowed_methods,
    reason = "tests run on wall-clock time and spawn what they like; the rules are for the library"
)]
#![allow(
    clippy::missing_panics_doc,
    reason = "everything here panics with an explanation when the world is not as a test needs it"
)]

pub mod deliveries;
pub mod harness;
pub mod load;
pub mod members;
pub mod twisted;
