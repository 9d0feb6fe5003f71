//! The attribute and derive macros of [Tidings](https://docs.rs/tidings).
//!
//! Depend on `tidings`, which re-exports them: the generated code names items of that crate and of exactly the same
//! version. Every macro reads its attribute (`args`), joins it with the annotated item (`model`), looks for mistakes
//! (`check`, which makes no tokens) and writes the code (`emit`, which makes no errors).

mod capability;
mod declaration;
mod entries;
mod errors;
mod generics;
mod item;
mod name;
mod paths;
mod suggest;
#[cfg(test)]
mod tests;
mod topic_key;
mod values;
mod words;

use proc_macro::TokenStream;

use self::declaration::Kind;

/// Declares the payload of a topic: a versioned name, the key that selects a channel, and the codec.
///
/// Put it on a struct or an enum, above or below `#[derive(..)]`.
///
/// ```text
/// #[topic(name = "orders.placed", version = 1, key = OrderKey)]
/// #[derive(Serialize, Deserialize)]
/// struct OrderPlaced { order: u64, total_cents: i64 }
/// ```
///
/// # Words
///
/// | word | takes | without it |
/// |---|---|---|
/// | `name = ".."` | the topic's name, see below | it is required |
/// | `version = N` | an integer from 1 to 4294967295; raise it when payload or key change in a way that others can't read | it is required |
/// | `key = Type` | an owned type that implements `TopicKey`, or `()` | `()`: the topic is one channel |
/// | `key(field, ..)` | one to 16 of the struct's own fields (a tuple struct's by index), each once | |
/// | `codec = path` | the type of the payload's codec | JSON |
/// | `crate = path` | where the crate `tidings` is found when the package is renamed or stands behind a facade: `::a::b` or `"a::b"` | `::tidings` |
/// | `bind = name` | another name for the generated function `topic` | `topic` |
///
/// A name has 1 to 8 parts joined by `.`, at most 128 bytes together. A part is made of `a-z`, `0-9` and `-`, doesn't
/// start with `-`, is not shaped like a version (`v3`) and is not the reserved word `dead`.
///
/// # What it generates
///
/// The item itself stays as it is. Beside it stand the constant declaration (`TopicSpec`) and a function that binds it
/// to a broker, as visible as the item:
///
/// ```text
/// OrderPlaced::topic(&broker)?    // Topic<OrderPlaced, Backend>
/// ```
///
/// The call doesn't compile with a backend that has no `PubSub`. A type that has a function `topic` of its own renames
/// the generated one with `bind`. Payloads may have type parameters and lifetimes; one with a lifetime can be published
/// but not received.
///
/// # A key of the payload's own fields
///
/// `key(region, order)` generates the type `OrderPlacedKey { region, order }`, as visible as the item, and
/// `topic(&broker)` gives a `KeyedTopic`, whose publish takes the payload alone. The fields are owned (no references
/// or lifetimes other than `'static`) and their types implement `TopicKey`, `Clone`, `Debug`, `Eq` and `Hash`.
///
/// The names are those of the Rust fields, whatever serde's attributes say: a renamed field is named as in the source,
/// and a skipped one takes part in the key with the value that the publisher holds. A field under `#[cfg]` takes part
/// wherever it exists; a tuple struct with such a field can't be indexed and is refused.
///
/// # Errors
///
/// All mistakes in the attribute are reported in one compile, each at its own token and with its remedy. The item
/// stays defined, so that they cause no others.
#[proc_macro_attribute]
pub fn topic(args: TokenStream, item: TokenStream) -> TokenStream {
    declaration::expand(&Kind::TOPIC, args.into(), item.into()).into()
}

/// Declares the payload of a stream: a versioned name, the key that orders its records, and what it requires of a backend.
///
/// Put it on a struct or an enum, above or below `#[derive(..)]`. A type may carry [`topic`](macro@topic) as well.
///
/// ```text
/// #[stream_spec(name = "ledger.entries", version = 1, key = AccountId, requires(ack_groups))]
/// #[derive(Serialize, Deserialize)]
/// struct LedgerEntry { account: AccountId, cents: i64 }
/// ```
///
/// # Words
///
/// `name`, `version`, `codec` and `crate` are those of [`topic`](macro@topic).
///
/// | word | takes | without it |
/// |---|---|---|
/// | `name = ".."` | the stream's name | it is required |
/// | `version = N` | an integer from 1 to 4294967295 | it is required |
/// | `key = Type` | an owned type that implements `TopicKey`, or `()` | `()`: records have no key |
/// | `key(field, ..)` | one to 16 of the struct's own fields (a tuple struct's by index), each once | |
/// | `requires(word, ..)` | the capabilities that the stream's consumers and producers count on, each once, see below | `Log` alone |
/// | `address = ".."` | an existing stream's own address, taken as it is: 1 to 249 bytes without white space, control characters, `{` and `}` | the address is made of namespace, name and version |
/// | `codec = path` | the type of the payload's codec | JSON |
/// | `crate = path` | where the crate `tidings` is found | `::tidings` |
/// | `bind = name` | another name for the generated function `stream` | `stream` |
///
/// # What can be required
///
/// Every stream requires `Log`. On a backend without what is required more, binding doesn't compile, and the error
/// stands at the word.
///
/// | word | capability |
/// |---|---|
/// | `ack_groups` | `AckGroups`: consumer groups that settle entry by entry |
/// | `commit_groups` | `CommitGroups`: consumer groups that commit a position for each partition |
/// | `cursors` | `Cursors`: durable cursors with one delivery in flight |
/// | `transactions` | `Transactions`: appends and settlements as one unit |
/// | `tombstones` | `Tombstones`: records without a payload |
/// | `inbox_marks` | `InboxMarks`: marks of handled messages in the same unit; it brings `transactions` along |
/// | `dedup` | `Dedup`: an append with a caller's id is stored once within a window |
///
/// What isn't required can be used all the same where the backend has it; requiring it says so in one place, and lets a
/// backend that is chosen at run time refuse the declaration when it is bound instead of the first use.
///
/// # What it generates
///
/// The item itself stays as it is. Beside it stand the constant declaration (`StreamSpec`), an impl for the brokers of
/// all backends with the required capabilities (`StreamedBy`), and a function that binds the one to the other, as visible
/// as the item:
///
/// ```text
/// LedgerEntry::stream(&broker)?    // Stream<LedgerEntry, Backend>
/// ```
///
/// A type that has a function `stream` of its own renames the generated one with `bind`. Payloads may have type
/// parameters and lifetimes; one with a lifetime can be appended but not read.
///
/// # A key of the payload's own fields
///
/// `key(region, order)` generates the type `LedgerEntryStreamKey { region, order }`, and `stream(&broker)` gives a
/// `KeyedStream`, whose append takes the payload alone. What [`topic`](macro@topic) says of its key holds for this one.
///
/// # Errors
///
/// All mistakes in the attribute are reported in one compile, each at its own token and with its remedy. The item
/// stays defined, so that they cause no others.
#[proc_macro_attribute]
pub fn stream_spec(args: TokenStream, item: TokenStream) -> TokenStream {
    declaration::expand(&Kind::STREAM, args.into(), item.into()).into()
}

/// Derives `TopicKey`: how a key is written as the segments of a channel's address, and read back.
///
/// | on | the key is |
/// |---|---|
/// | a struct with named fields or a tuple struct | its fields' segments in the order of the source |
/// | a tuple struct with one field | that field's segments, as if it stood alone |
/// | a unit struct | no segment |
/// | an enum of unit variants | one segment: the variant's name, or the text that `rename` gives |
///
/// Up to 16 fields; more are nested in a field that derives `TopicKey` itself. Fields are owned: references and
/// lifetimes other than `'static` are refused. For a field type that depends on a type parameter, the impl requires
/// that field type (not the parameter) to implement `TopicKey`. Every field's type must be at least as visible as the
/// key. Unions, enums without variants and variants that hold data are refused.
///
/// The order of the fields, the variants' names and their texts go over the wire: changing one needs a new version of
/// every declaration that uses the key.
///
/// ```text
/// #[derive(TopicKey, Clone, Debug, PartialEq, Eq, Hash)]
/// struct OrderKey { region: Region, order: u64 }
///
/// #[derive(TopicKey, Clone, Debug, PartialEq, Eq, Hash)]
/// enum Region { #[topic_key(rename = "eu")] Europe, #[topic_key(rename = "us")] America }
/// ```
///
/// # Words of `#[topic_key(..)]`
///
/// | word | on | takes |
/// |---|---|---|
/// | `crate = path` | the struct or enum | where the crate `tidings` is found: `::a::b` or `"a::b"` |
/// | `rename = ".."` | a variant | the text of its segment, different from all others |
#[proc_macro_derive(TopicKey, attributes(topic_key))]
pub fn derive_topic_key(item: TokenStream) -> TokenStream {
    topic_key::expand(item.into()).into()
}
