//! Every path that generated code may name, in one table.

use proc_macro2::TokenStream;
use quote::{ToTokens, quote};
use syn::Path;

/// The runtime as the annotated item reaches it: `::tidings`, or what `crate = path` says.
pub(crate) struct Paths {
    root: TokenStream,
}

impl Paths {
    pub(crate) fn new(renamed: Option<&Path>) -> Self {
        Self { root: renamed.map_or_else(|| quote!(::tidings), ToTokens::to_token_stream) }
    }
}

macro_rules! table {
    ($($name:ident = $($segment:ident)::+;)+) => {
        impl Paths {
            $(pub(crate) fn $name(&self) -> TokenStream {
                let root = &self.root;
                quote!(#root::$($segment)::+)
            })+
        }
    };
}

// The standard library is named through the runtime, because a user's own package may be called `core`.
table! {
    ack_groups = capability::AckGroups;
    append_entry = AppendEntry;
    append_keyed = AppendKeyed;
    backend = capability::Backend;
    bind_keyed_stream = __private::keyed_stream;
    bind_keyed_topic = __private::keyed_topic;
    bind_stream = __private::stream;
    bind_topic = __private::topic;
    broker = Broker;
    capability = capability::Capability;
    clone = __private::core::clone::Clone;
    commit_groups = capability::CommitGroups;
    cursors = capability::Cursors;
    debug = __private::core::fmt::Debug;
    declaration = Declaration;
    dedup = capability::Dedup;
    eq = __private::core::cmp::Eq;
    error = Error;
    hash = __private::core::hash::Hash;
    inbox_marks = capability::InboxMarks;
    json = codec::Json;
    key_error = key::KeyError;
    key_reader = key::KeyReader;
    key_writer = key::KeyWriter;
    keyed_stream = KeyedStream;
    keyed_topic = KeyedTopic;
    log = capability::Log;
    option = __private::core::option::Option;
    partial_eq = __private::core::cmp::PartialEq;
    pub_sub = capability::PubSub;
    publish_keyed = PublishKeyed;
    publish_topic = PublishTopic;
    result = __private::core::result::Result;
    self_keyed = SelfKeyed;
    str = __private::core::primitive::str;
    stream = Stream;
    stream_keyed = StreamKeyed;
    stream_spec = StreamSpec;
    streamed_by = StreamedBy;
    tombstones = capability::Tombstones;
    topic = Topic;
    topic_key = TopicKey;
    topic_spec = TopicSpec;
    transactions = capability::Transactions;
    unreachable = __private::core::unreachable;
}
