//! The grammar of names. `tidings-macros` holds the same rules for literals; a hand-written spec meets them here.

use crate::declaration::Declaration;

/// Words that name something of the library's own inside an address.
const RESERVED: [&str; 1] = ["dead"];
const MAX_NAME_BYTES: usize = 128;
const MAX_NAME_TOKENS: usize = 8;
const MAX_CONNECTION_NAME_BYTES: usize = 127;

/// A name that breaks the grammar, with the rule that it breaks.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what} `{name}` {problem}")]
pub struct NameError {
    what: &'static str,
    name: String,
    problem: &'static str,
}

impl NameError {
    pub(crate) fn new(what: &'static str, name: &str, problem: &'static str) -> Self {
        // A name comes from outside: an endless one must not become an endless message.
        let name = name.chars().take(MAX_NAME_BYTES).collect();
        Self { what, name, problem }
    }
}

pub(crate) fn check_declaration(declaration: &Declaration) -> Result<(), NameError> {
    let name = declaration.name();
    let wrong = |problem| Err(NameError::new("name", name, problem));
    if declaration.version() == 0 {
        return wrong("has version 0; versions start at 1");
    }
    if name.len() > MAX_NAME_BYTES {
        return wrong("is longer than 128 bytes; shorten it");
    }
    let mut tokens = 0;
    for token in name.split('.') {
        tokens += 1;
        if token.is_empty() {
            return wrong("has an empty token; join 1 to 8 tokens of `[a-z0-9][a-z0-9-]*` with single dots");
        }
        if !is_word(token, MAX_NAME_BYTES, b"-") {
            return wrong(
                "holds something outside `[a-z0-9][a-z0-9-]*` in a token; use lower case, digits and hyphens",
            );
        }
        if token.len() > 1 && token.starts_with('v') && token[1..].bytes().all(|byte| byte.is_ascii_digit()) {
            return wrong("has a token shaped like a version; the version is a word of its own");
        }
        if RESERVED.contains(&token) {
            return wrong("has the reserved token `dead`; choose another word");
        }
    }
    if tokens > MAX_NAME_TOKENS {
        return wrong("has more than 8 tokens; shorten it");
    }
    Ok(())
}

/// Checks the name of a connection, group, consumer or module: `[a-z0-9][a-z0-9_-]{0,126}`.
pub(crate) fn check_connection_name(what: &'static str, name: &str) -> Result<(), NameError> {
    if is_word(name, MAX_CONNECTION_NAME_BYTES, b"-_") {
        Ok(())
    } else {
        Err(NameError::new(what, name, "must match `[a-z0-9][a-z0-9_-]{0,126}`"))
    }
}

/// Says whether a text has 1 to `most` bytes, the first in `[a-z0-9]` and the others there or in `more`.
pub(crate) fn is_word(text: &str, most: usize, more: &[u8]) -> bool {
    let stands = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let mut bytes = text.bytes();
    text.len() <= most && bytes.next().is_some_and(stands) && bytes.all(|byte| stands(byte) || more.contains(&byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_break_the_grammar_are_refused_and_the_rest_are_not() {
        let at = |name: &'static str| check_declaration(&Declaration::topic(name, 1)).is_ok();
        for good in ["a", "orders.placed", "a-b.c9", "0", "v", "version", "vx1", "a.b.c.d.e.f.g.h", "a-"] {
            assert!(at(good), "{good}");
        }
        for bad in [
            "",
            ".",
            "a.",
            ".a",
            "a..b",
            "A",
            "a_b",
            "-a",
            "a.-b",
            "v3",
            "a.v12",
            "dead",
            "a.dead",
            "é",
            "a b",
            "a.b.c.d.e.f.g.h.i",
        ] {
            assert!(!at(bad), "{bad}");
        }
        assert!(at(Box::leak("a".repeat(128).into_boxed_str())));
        assert!(!at(Box::leak("a".repeat(129).into_boxed_str())));
        assert!(check_declaration(&Declaration::topic("a", 0)).is_err());
    }
}
