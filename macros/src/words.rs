//! The words that the attributes accept, with the form in which each is written.

/// One word of an attribute.
pub(crate) struct Word {
    pub(crate) text: &'static str,
    /// How to write it, for the remedy in an error.
    pub(crate) form: &'static str,
}

pub(crate) const BIND: &str = "bind";
pub(crate) const CODEC: &str = "codec";
pub(crate) const CRATE: &str = "crate";
pub(crate) const KEY: &str = "key";
pub(crate) const NAME: &str = "name";
pub(crate) const RENAME: &str = "rename";
pub(crate) const VERSION: &str = "version";

/// The attribute macro `#[topic(..)]`.
pub(crate) const TOPIC: &str = "topic";
/// The helper attribute of `#[derive(TopicKey)]`.
pub(crate) const TOPIC_KEY: &str = "topic_key";

const CRATE_WORD: Word = Word { text: CRATE, form: "crate = ::path::to::tidings" };

/// The words of `#[topic(..)]`.
pub(crate) static TOPIC_WORDS: &[Word] = &[
    Word { text: NAME, form: "name = \"orders.placed\"" },
    Word { text: VERSION, form: "version = 1" },
    Word { text: KEY, form: "key = OrderKey` or `key(field, ..)" },
    Word { text: CODEC, form: "codec = path::to::Codec" },
    CRATE_WORD,
    Word { text: BIND, form: "bind = other_name" },
];

/// The words of `#[topic_key(..)]` on a struct or enum.
pub(crate) static TOPIC_KEY_CONTAINER_WORDS: &[Word] = &[CRATE_WORD];

/// The words of `#[topic_key(..)]` on a variant.
pub(crate) static TOPIC_KEY_VARIANT_WORDS: &[Word] = &[Word { text: RENAME, form: "rename = \"text\"" }];
