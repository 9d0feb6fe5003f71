//! Reads `word = value`, `word(..)` and their mistakes, one after another, so that one bad word hides no other.

use std::collections::VecDeque;

use proc_macro2::{Delimiter, Group, Ident, Spacing, TokenStream, TokenTree};
use quote::ToTokens;
use syn::ext::IdentExt;
use syn::parse::{ParseStream, Parser};

use crate::errors::Errors;
use crate::suggest;
use crate::words::Word;

/// One word that the attribute knows, with what stands beside it.
pub(crate) struct Entry {
    pub(crate) word: &'static Word,
    /// The word as the user wrote it, for spans.
    pub(crate) written: Ident,
    pub(crate) beside: Beside,
}

pub(crate) enum Beside {
    Nothing,
    Value(TokenStream),
    List(Group),
}

/// Gives the entries of an attribute and reports those that are none.
pub(crate) struct Entries<'a> {
    errors: &'a Errors,
    words: &'static [Word],
    waiting: VecDeque<Vec<TokenTree>>,
    seen: Vec<(&'static str, bool)>,
}

impl<'a> Entries<'a> {
    pub(crate) fn new(tokens: TokenStream, words: &'static [Word], errors: &'a Errors) -> Self {
        Self { errors, words, waiting: split(tokens).into(), seen: Vec::new() }
    }

    /// The next entry whose word is known and new.
    pub(crate) fn next(&mut self) -> Option<Entry> {
        while let Some(tokens) = self.waiting.pop_front() {
            if let Some(entry) = self.entry(tokens) {
                return Some(entry);
            }
        }
        None
    }

    fn entry(&mut self, tokens: Vec<TokenTree>) -> Option<Entry> {
        let mut tokens = VecDeque::from(tokens);
        let written = match tokens.pop_front()? {
            TokenTree::Ident(written) => written,
            other => {
                self.errors.at(other, format!("expected a word; {}", self.list()));
                return None;
            }
        };
        let word = self.word(&written)?;
        let beside = self.beside(word, &written, tokens);
        self.is_new(word, &written, &beside).then_some(Entry { word, written, beside })
    }

    /// The word, or the one that was meant by it.
    fn word(&self, written: &Ident) -> Option<&'static Word> {
        let text = written.to_string();
        if let Some(word) = self.words.iter().find(|word| word.text == text) {
            return Some(word);
        }
        let meant = suggest::nearest(&written.unraw().to_string(), self.words.iter().map(|word| word.text));
        self.errors.at(
            written,
            match meant {
                Some(meant) => format!("unknown word `{written}`; write `{meant}` ({})", self.list()),
                None => format!("unknown word `{written}`; {}", self.list()),
            },
        );
        self.words.iter().find(|word| Some(word.text) == meant)
    }

    fn beside(&mut self, word: &Word, written: &Ident, mut tokens: VecDeque<TokenTree>) -> Beside {
        match tokens.front() {
            Some(TokenTree::Group(group)) if group.delimiter() == Delimiter::Parenthesis => {
                let group = group.clone();
                tokens.pop_front();
                self.resume(tokens.into_iter().collect());
                return Beside::List(group);
            }
            _ if word.only_lists() => {
                self.errors.at(written, format!("`{}` takes a list in parentheses; write `{}`", word.text, word.form));
                return Beside::Nothing;
            }
            None => return Beside::Nothing,
            Some(TokenTree::Punct(equals)) if equals.as_char() == '=' && equals.spacing() == Spacing::Alone => {
                tokens.pop_front();
                return Beside::Value(tokens.into_iter().collect());
            }
            Some(_) => {}
        }
        self.errors.at(written, format!("expected `=` after `{}`; write `{}`", word.text, word.form));
        while matches!(tokens.front(), Some(TokenTree::Punct(punct)) if matches!(punct.as_char(), ':' | '=' | '>')) {
            tokens.pop_front();
        }
        Beside::Value(tokens.into_iter().collect())
    }

    fn is_new(&mut self, word: &Word, written: &Ident, beside: &Beside) -> bool {
        let as_list = matches!(beside, Beside::List(_));
        let Some((_, first_as_list)) = self.seen.iter().find(|(text, _)| *text == word.text) else {
            self.seen.push((word.text, as_list));
            return true;
        };
        let text = word.text;
        self.errors.at(
            written,
            if *first_as_list == as_list {
                format!("`{text}` is given twice; keep one")
            } else {
                format!("`{text} = ..` and `{text}(..)` are both given; keep one")
            },
        );
        false
    }

    /// Goes on with what stands behind a value without a comma between.
    fn resume(&mut self, rest: TokenStream) {
        let Some(first) = rest.clone().into_iter().next() else {
            return;
        };
        if matches!(first, TokenTree::Ident(_)) {
            self.errors.comma_before(&first);
            self.waiting.push_front(rest.into_iter().collect());
        } else {
            self.errors.at(rest, "unexpected tokens behind the value; remove them");
        }
    }

    /// The value of an entry, read by `parser`; `expected` names what the word takes.
    pub(crate) fn value<T>(
        &mut self,
        entry: &Entry,
        expected: &str,
        parser: impl FnOnce(ParseStream<'_>) -> syn::Result<T>,
    ) -> Option<T> {
        let Word { text, form } = entry.word;
        let tokens = match &entry.beside {
            Beside::Value(tokens) if !tokens.is_empty() => tokens.clone(),
            Beside::List(group) => {
                self.errors.at(group, format!("`{text}` takes {expected} behind `=`; write `{form}`"));
                return None;
            }
            Beside::Nothing | Beside::Value(_) => {
                self.errors.at(&entry.written, format!("`{text}` has no value; write `{form}`"));
                return None;
            }
        };
        let with_rest = |input: ParseStream<'_>| Ok((parser(input)?, input.parse::<TokenStream>()?));
        if let Ok((value, rest)) = with_rest.parse2(tokens.clone()) {
            self.resume(rest);
            return Some(value);
        }
        self.errors.at(tokens, format!("`{text}` takes {expected}; write `{form}`"));
        None
    }

    fn list(&self) -> String {
        let words = suggest::list(self.words.iter().map(|word| word.text));
        if self.words.len() == 1 { format!("the only word is {words}") } else { format!("the words are {words}") }
    }
}

/// Splits at the commas outside of `<..>`, or at every comma when the angle brackets don't match.
pub(crate) fn split(tokens: TokenStream) -> Vec<Vec<TokenTree>> {
    let tokens: Vec<TokenTree> = tokens.into_iter().map(unwrap_word).collect();
    split_at(&tokens, true).unwrap_or_else(|| split_at(&tokens, false).unwrap_or_default())
}

fn split_at(tokens: &[TokenTree], with_angles: bool) -> Option<Vec<Vec<TokenTree>>> {
    let mut parts = vec![Vec::new()];
    let mut depth = 0_usize;
    let mut after_dash = false;
    for token in tokens {
        if let TokenTree::Punct(punct) = token {
            match punct.as_char() {
                ',' if depth == 0 => {
                    parts.push(Vec::new());
                    continue;
                }
                '<' if with_angles => depth += 1,
                // The arrows `->` and `=>` close nothing.
                '>' if with_angles && !after_dash => depth = depth.checked_sub(1)?,
                _ => {}
            }
            after_dash = matches!(punct.as_char(), '-' | '=') && punct.spacing() == Spacing::Joint;
        } else {
            after_dash = false;
        }
        if let Some(part) = parts.last_mut() {
            part.push(token.clone());
        }
    }
    if parts.last().is_some_and(Vec::is_empty) {
        parts.pop();
    }
    (depth == 0).then_some(parts)
}

/// Takes a single identifier out of the invisible group that a `macro_rules!` fragment may stand in.
fn unwrap_word(token: TokenTree) -> TokenTree {
    if let TokenTree::Group(group) = &token
        && group.delimiter() == Delimiter::None
    {
        let mut inside = group.stream().into_iter();
        if let (Some(only @ TokenTree::Ident(_)), None) = (inside.next(), inside.next()) {
            return only;
        }
    }
    token
}

/// The tokens without the invisible groups of `macro_rules!` fragments, for values that are no types.
pub(crate) fn flatten(tokens: TokenStream) -> TokenStream {
    tokens
        .into_iter()
        .flat_map(|token| match token {
            TokenTree::Group(group) if group.delimiter() == Delimiter::None => flatten(group.stream()),
            other => other.to_token_stream(),
        })
        .collect()
}
