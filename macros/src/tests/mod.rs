//! The macros from outside: the code that they generate, the errors that they report, and that nothing breaks them.

mod messages;
mod mutations;
mod snapshots;

use proc_macro2::TokenStream;

/// Parses source text into the tokens that the compiler would give.
fn tokens(source: &str) -> TokenStream {
    source.parse().unwrap_or_else(|error| panic!("{error} in {source}"))
}

/// Expands `#[topic(..)]` on an item.
fn topic(args: &str, item: &str) -> String {
    crate::topic::expand(tokens(args), tokens(item)).to_string()
}

/// Expands `#[derive(TopicKey)]` on an item.
fn topic_key(item: &str) -> String {
    crate::topic_key::expand(tokens(item)).to_string()
}
