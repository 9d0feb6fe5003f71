//! The words that the attributes accept, with the form in which each is written.

/// One word of an attribute.
pub(crate) struct Word {
    pub(crate) text: &'static str,
    /// How to write it, for the remedy in an error.
    pub(crate) form: &'static str,
}

impl Word {
    /// Whether it takes a list in parentheses and nothing else.
    pub(crate) fn only_lists(&self) -> bool {
        self.form.strip_prefix(self.text).is_some_and(|rest| rest.starts_with('('))
    }
}

pub(crate) const ADDRESS: &str = "address";
pub(crate) const BIND: &str = "bind";
pub(crate) const CODEC: &str = "codec";
pub(crate) const CRATE: &str = "crate";
pub(crate) const KEY: &str = "key";
pub(crate) const NAME: &str = "name";
pub(crate) const RENAME: &str = "rename";
pub(crate) const REQUIRES: &str = "requires";
pub(crate) const VERSION: &str = "version";

/// The attribute macro `#[stream_spec(..)]`.
pub(crate) const STREAM_SPEC: &str = "stream_spec";
/// The attribute macro `#[topic(..)]`.
pub(crate) const TOPIC: &str = "topic";
/// The helper attribute of `#[derive(TopicKey)]`.
pub(crate) const TOPIC_KEY: &str = "topic_key";

const BIND_WORD: Word = Word { text: BIND, form: "bind = other_name" };
const CODEC_WORD: Word = Word { text: CODEC, form: "codec = path::to::Codec" };
const CRATE_WORD: Word = Word { text: CRATE, form: "crate = ::path::to::tidings" };
const KEY_WORD: Word = Word { text: KEY, form: "key = OrderKey` or `key(field, ..)" };
const NAME_WORD: Word = Word { text: NAME, form: "name = \"orders.placed\"" };
const VERSION_WORD: Word = Word { text: VERSION, form: "version = 1" };

/// The words of `#[topic(..)]`.
pub(crate) const TOPIC_WORDS: &[Word] = &[NAME_WORD, VERSION_WORD, KEY_WORD, CODEC_WORD, CRATE_WORD, BIND_WORD];

/// The words of `#[stream_spec(..)]`.
pub(crate) const STREAM_SPEC_WORDS: &[Word] = &[
    NAME_WORD,
    VERSION_WORD,
    KEY_WORD,
    Word { text: REQUIRES, form: "requires(ack_groups, ..)" },
    Word { text: ADDRESS, form: "address = \"legacy-orders\"" },
    CODEC_WORD,
    CRATE_WORD,
    BIND_WORD,
];

/// The words of `#[topic_key(..)]` on a struct or enum.
pub(crate) static TOPIC_KEY_CONTAINER_WORDS: &[Word] = &[CRATE_WORD];

/// The words of `#[topic_key(..)]` on a variant.
pub(crate) static TOPIC_KEY_VARIANT_WORDS: &[Word] = &[Word { text: RENAME, form: "rename = \"text\"" }];
