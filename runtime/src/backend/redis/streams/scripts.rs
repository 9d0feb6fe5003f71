//! What the server does in one go: scripts, each named by its digest and sent whole where the server doesn't know it.

use std::sync::LazyLock;

use super::super::link::pack;
use super::super::pipeline::Packed;

/// A script of the server's language.
pub(super) struct Script {
    text: &'static str,
    digest: LazyLock<String>,
}

macro_rules! scripts {
    ($($name:ident: $($file:literal)+),+ $(,)?) => {$(
        pub(super) static $name: Script = Script {
            text: concat!($(include_str!(concat!("scripts/", $file))),+),
            digest: LazyLock::new(|| redis::Script::new($name.text).get_hash().to_owned()),
        };
    )+};
}

scripts! {
    APPEND_ONCE: "append_once.lua",
    CLAIM: "claim.lua",
    ENSURE: "ensure.lua",
    EXTEND: "extend.lua",
    HISTORY: "history.lua",
    LOOK: "skipped.lua" "look.lua",
    READ: "read.lua",
    READ_NEW: "skipped.lua" "read_new.lua",
    RELEASE: "release.lua",
    REMOVE_CONSUMER: "remove_consumer.lua",
    SETTLED: "settled.lua",
    TRIM: "trim.lua",
}

impl Script {
    /// The command's first words: the name, the script or its digest.
    pub(super) fn words(&self, whole: bool) -> [&[u8]; 2] {
        if whole { [b"EVAL", self.text.as_bytes()] } else { [b"EVALSHA", self.digest.as_bytes()] }
    }

    pub(super) fn word(whole: bool) -> &'static str {
        if whole { "EVAL" } else { "EVALSHA" }
    }

    /// Packs a call with these keys and arguments.
    pub(super) fn call(&self, whole: bool, keys: &[&[u8]], arguments: &[&[u8]]) -> Packed {
        let count = keys.len().to_string();
        let mut words: Vec<&[u8]> = Vec::with_capacity(3 + keys.len() + arguments.len());
        words.extend(self.words(whole));
        words.push(count.as_bytes());
        words.extend(keys);
        words.extend(arguments);
        let mut bytes = Vec::new();
        pack(&mut bytes, words.into_iter());
        Packed { word: Self::word(whole), bytes }
    }
}
