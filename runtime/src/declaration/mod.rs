//! What the macros generate: constant declarations and the traits that carry them.

use std::fmt;

use crate::broker::Broker;
use crate::capability::{Backend, Capability};
use crate::codec::Codec;
use crate::error::Error;
use crate::key::{KeyWriter, TopicKey};
use crate::stream::Stream;

/// Whether a declaration is a topic or a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Kind {
    /// Ephemeral fan-out, at most once past the broker.
    Topic,
    /// An ordered, replayable log, at least once.
    Stream,
}

impl Kind {
    /// Returns the word that stands for the kind in an address.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Topic => "topic",
            Self::Stream => "stream",
        }
    }
}

/// Kind, name and version: the identity of what a payload type declares. Constant, made by the macros.
///
/// It displays as `{name}.v{version}`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Declaration {
    kind: Kind,
    name: &'static str,
    version: u32,
}

impl Declaration {
    /// Declares a topic. The grammar is checked by the macro, and again when the declaration is bound.
    #[must_use]
    pub const fn topic(name: &'static str, version: u32) -> Self {
        Self { kind: Kind::Topic, name, version }
    }

    /// Declares a stream. The grammar is checked by the macro, and again when the declaration is bound.
    #[must_use]
    pub const fn stream(name: &'static str, version: u32) -> Self {
        Self { kind: Kind::Stream, name, version }
    }

    /// Returns whether it is a topic or a stream.
    #[must_use]
    pub const fn kind(&self) -> Kind {
        self.kind
    }

    /// Returns the name: tokens joined by dots.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        self.name
    }

    /// Returns the version, at least 1.
    #[must_use]
    pub const fn version(&self) -> u32 {
        self.version
    }
}

impl fmt::Display for Declaration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.v{}", self.name, self.version)
    }
}

/// A payload type with a topic's declaration. [`#[topic]`](macro@crate::topic) implements it.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not declared as a topic",
    label = "no `#[topic(..)]` on this type",
    note = "annotate the type: `#[tidings::topic(name = \"orders.placed\", version = 1)]`"
)]
pub trait TopicSpec {
    /// The typed key that selects a channel; `()` where the topic is one channel.
    type Key: TopicKey;
    /// The payload's format.
    type Codec: Codec;
    /// Kind, name and version.
    const DECLARATION: Declaration;
}

/// A topic whose key is made of the payload's own fields: `#[topic(.., key(region, order))]`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` doesn't hold its own key",
    note = "write `key(field, ..)` instead of `key = Type` in `#[topic(..)]`, or give the key to `publish`"
)]
pub trait SelfKeyed: TopicSpec {
    /// Returns the value's key.
    fn topic_key(&self) -> Self::Key;

    /// Writes the key's segments without building the key.
    fn write_key(&self, to: &mut KeyWriter<'_>);
}

/// A payload type with a stream's declaration. [`#[stream_spec]`](macro@crate::stream_spec) implements it.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not declared as a stream",
    label = "no `#[stream_spec(..)]` on this type",
    note = "annotate the type: `#[tidings::stream_spec(name = \"ledger.entries\", version = 1)]`"
)]
pub trait StreamSpec {
    /// The typed key that orders and partitions the stream; `()` where records have no key.
    type Key: TopicKey;
    /// The payload's format.
    type Codec: Codec;
    /// Kind, name and version.
    const DECLARATION: Declaration;
    /// What the declaration requires beside [`Log`](crate::capability::Log).
    const REQUIRES: &'static [Capability] = &[];
    /// An address to be taken as it is, instead of the one made of namespace, name and version.
    const ADDRESS: Option<&'static str> = None;
}

/// A stream whose key is made of the payload's own fields: `#[stream_spec(.., key(region, order))]`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` doesn't hold its own key",
    note = "write `key(field, ..)` instead of `key = Type` in `#[stream_spec(..)]`, or give the key to `append`"
)]
pub trait StreamKeyed: StreamSpec {
    /// Returns the value's key.
    fn stream_key(&self) -> Self::Key;

    /// Writes the key's segments without building the key.
    fn write_stream_key(&self, to: &mut KeyWriter<'_>);
}

/// What a stream can be bound to: a [`Broker`] over some backend.
pub trait Carrier {
    /// The backend.
    type Backend: Backend;
}

impl<B: Backend> Carrier for Broker<B> {
    type Backend = B;
}

/// A stream that the carrier's backend can have. [`#[stream_spec]`](macro@crate::stream_spec) implements it, for every
/// backend with the capabilities that `requires(..)` names.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not declared as a stream",
    label = "no `#[stream_spec(..)]` on this type",
    note = "annotate the type: `#[tidings::stream_spec(name = \"ledger.entries\", version = 1)]`",
    note = "in generic code add the bound `T: tidings::StreamedBy<tidings::Broker<B>>`"
)]
pub trait StreamedBy<C: Carrier>: StreamSpec + Sized {
    /// Binds the stream.
    ///
    /// # Errors
    ///
    /// When the broker is closed, refuses another declaration, has this one for another type or its address for another
    /// stream, or its backend was chosen at run time and lacks what is required.
    fn bind(carrier: &C) -> Result<Stream<Self, C::Backend>, Error>;
}
