//! The macros from outside: the code that they generate, the errors that they report, and that nothing breaks them.

mod messages;
mod mutations;
mod snapshots;

use proc_macro2::TokenStream;

use crate::declaration::Kind;

/// Parses source text into the tokens that the compiler would give.
fn tokens(source: &str) -> TokenStream {
    source.parse().unwrap_or_else(|error| panic!("{error} in {source}"))
}

/// Expands `#[topic(..)]` on an item.
fn topic(args: &str, item: &str) -> String {
    crate::declaration::expand(&Kind::TOPIC, tokens(args), tokens(item)).to_string()
}

/// Expands `#[stream_spec(..)]` on an item.
fn stream_spec(args: &str, item: &str) -> String {
    crate::declaration::expand(&Kind::STREAM, tokens(args), tokens(item)).to_string()
}

/// Expands `#[derive(TopicKey)]` on an item.
fn topic_key(item: &str) -> String {
    crate::topic_key::expand(tokens(item)).to_string()
}
