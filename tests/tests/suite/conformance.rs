//! The conformance suite on every backend.

use tidings::conformance::{InMemory, topics};

topics!(memory, InMemory, patterns);
