//! The words of `requires(..)`.

use proc_macro2::TokenStream;

use crate::paths::Paths;
use crate::suggest;

/// A capability that a stream can require of its backend.
pub(crate) struct Capability {
    pub(crate) word: &'static str,
    /// The trait's name, which is its variant's in the runtime as well.
    pub(crate) name: &'static str,
    pub(crate) path: fn(&Paths) -> TokenStream,
}

static CAPABILITIES: &[Capability] = &[
    Capability { word: "ack_groups", name: "AckGroups", path: Paths::ack_groups },
    Capability { word: "commit_groups", name: "CommitGroups", path: Paths::commit_groups },
    Capability { word: "cursors", name: "Cursors", path: Paths::cursors },
    Capability { word: "transactions", name: "Transactions", path: Paths::transactions },
    Capability { word: "tombstones", name: "Tombstones", path: Paths::tombstones },
    Capability { word: "inbox_marks", name: "InboxMarks", path: Paths::inbox_marks },
    Capability { word: "dedup", name: "Dedup", path: Paths::dedup },
];

/// The capability of a word, spelt as it should be.
pub(crate) fn named(word: &str) -> Option<&'static Capability> {
    CAPABILITIES.iter().find(|capability| capability.word == word)
}

/// The word that was meant by a misspelt one.
pub(crate) fn nearest(written: &str) -> Option<&'static str> {
    suggest::nearest(written, words())
}

pub(crate) fn words() -> impl Iterator<Item = &'static str> {
    CAPABILITIES.iter().map(|capability| capability.word)
}
