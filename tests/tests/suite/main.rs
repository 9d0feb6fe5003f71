//! The integration tests, as one binary.

#![allow(clippy::disallowed_methods, reason = "tests run on wall-clock time and spawn what they like")]

mod conformance;
mod faults;
mod harness;
mod kafka;
mod nats;
mod redis;
mod sequences;
mod weakened;
mod workers;
