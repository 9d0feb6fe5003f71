//! What differs between a topic's declaration and a stream's.

use proc_macro2::TokenStream;
use quote::quote;

use crate::paths::Paths;
use crate::words::{self, Word};

/// What the attribute declares.
pub(crate) struct Kind {
    pub(crate) attribute: &'static str,
    pub(crate) words: &'static [Word],
    /// What is declared, as messages call it. So is the function that binds it.
    pub(crate) noun: &'static str,
    /// What a key of the payload's own fields is called behind the payload's name. The two differ, because a payload
    /// may have both.
    pub(crate) key_suffix: &'static str,
    is_stream: bool,
}

/// The names that the generated code of a kind differs in.
pub(crate) struct Names {
    pub(crate) spec: TokenStream,
    /// The marker that gives the methods of the prelude.
    pub(crate) marker: TokenStream,
    pub(crate) handle: TokenStream,
    pub(crate) bind: TokenStream,
    /// The trait of payloads that hold their key, and its methods.
    pub(crate) keyed: TokenStream,
    pub(crate) make_key: TokenStream,
    pub(crate) write_key: TokenStream,
}

impl Kind {
    pub(crate) const TOPIC: Self =
        Self { attribute: words::TOPIC, words: words::TOPIC_WORDS, noun: "topic", key_suffix: "Key", is_stream: false };

    pub(crate) const STREAM: Self = Self {
        attribute: words::STREAM_SPEC,
        words: words::STREAM_SPEC_WORDS,
        noun: "stream",
        key_suffix: "StreamKey",
        is_stream: true,
    };

    pub(crate) const fn is_stream(&self) -> bool {
        self.is_stream
    }

    /// The names for a payload that is given its key, or that holds it.
    pub(crate) fn names(&self, paths: &Paths, holds_key: bool) -> Names {
        let (marker, handle, bind) = match (self.is_stream, holds_key) {
            (false, false) => (paths.publish_topic(), paths.topic(), paths.bind_topic()),
            (false, true) => (paths.publish_keyed(), paths.keyed_topic(), paths.bind_keyed_topic()),
            (true, false) => (paths.append_entry(), paths.stream(), paths.bind_stream()),
            (true, true) => (paths.append_keyed(), paths.keyed_stream(), paths.bind_keyed_stream()),
        };
        let (spec, keyed, make_key, write_key) = if self.is_stream {
            (paths.stream_spec(), paths.stream_keyed(), quote!(stream_key), quote!(write_stream_key))
        } else {
            (paths.topic_spec(), paths.self_keyed(), quote!(topic_key), quote!(write_key))
        };
        Names { spec, marker, handle, bind, keyed, make_key, write_key }
    }
}
