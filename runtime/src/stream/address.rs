use std::any::Any;
use std::fmt;
use std::sync::{Arc, OnceLock};

use super::Origin;

/// A stream as its backend knows it, within one broker.
pub struct StreamAddress {
    text: Arc<str>,
    verbatim: bool,
    origin: Arc<Origin>,
    state: OnceLock<Box<dyn Any + Send + Sync>>,
}

impl StreamAddress {
    pub(crate) fn new(text: Arc<str>, verbatim: bool, origin: Arc<Origin>) -> Self {
        Self { text, verbatim, origin, state: OnceLock::new() }
    }

    /// Returns the address: `{application}.{environment}.stream.{name}.v{version}`, or what `address = ".."` says.
    #[must_use]
    pub fn text(&self) -> &Arc<str> {
        &self.text
    }

    /// Says whether the address was given by the declaration, to be taken as it is.
    #[must_use]
    pub fn is_verbatim(&self) -> bool {
        self.verbatim
    }

    /// Returns what the stream's own records have as source, type and content type.
    #[must_use]
    pub fn origin(&self) -> &Arc<Origin> {
        &self.origin
    }

    /// Returns what the backend's client keeps of this stream, made by its first call.
    ///
    /// # Panics
    ///
    /// If the same client asks with two types.
    pub fn state<S: Any + Send + Sync>(&self, make: impl FnOnce() -> S) -> &S {
        state(&self.state, make)
    }
}

/// A consumer group of a stream, as its backend knows it, within one broker.
pub struct GroupAddress {
    stream: Arc<StreamAddress>,
    name: Arc<str>,
    state: OnceLock<Box<dyn Any + Send + Sync>>,
}

impl GroupAddress {
    pub(crate) fn new(stream: Arc<StreamAddress>, name: Arc<str>) -> Self {
        Self { stream, name, state: OnceLock::new() }
    }

    /// Returns the stream.
    #[must_use]
    pub fn stream(&self) -> &Arc<StreamAddress> {
        &self.stream
    }

    /// Returns the group's name.
    #[must_use]
    pub fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// Returns what the backend's client keeps of this group, made by its first call.
    ///
    /// # Panics
    ///
    /// If the same client asks with two types.
    pub fn state<S: Any + Send + Sync>(&self, make: impl FnOnce() -> S) -> &S {
        state(&self.state, make)
    }
}

fn state<S: Any + Send + Sync>(held: &OnceLock<Box<dyn Any + Send + Sync>>, make: impl FnOnce() -> S) -> &S {
    let state: &(dyn Any + Send + Sync) = &**held.get_or_init(|| Box::new(make()));
    state.downcast_ref().expect("a backend keeps one type of state")
}

impl fmt::Debug for StreamAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("StreamAddress").field(&self.text).finish()
    }
}

impl fmt::Debug for GroupAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GroupAddress")
            .field("stream", &self.stream.text)
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}
