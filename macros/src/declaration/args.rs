//! What the attribute says, as far as it can be read.

use proc_macro2::{Ident, TokenStream, TokenTree};
use quote::ToTokens;
use syn::parse::Parse;
use syn::{LitInt, LitStr, Member, Path, Type};

use crate::capability;
use crate::declaration::Kind;
use crate::entries::{Beside, Entries, Entry, split};
use crate::errors::Errors;
use crate::values::{self, Given};
use crate::words;

#[derive(Default)]
pub(crate) struct Args {
    pub(crate) name: Option<Given<LitStr>>,
    pub(crate) version: Option<Given<LitInt>>,
    pub(crate) key: Option<KeyArg>,
    /// What stands in `requires(..)`.
    pub(crate) requires: Vec<Ident>,
    pub(crate) address: Option<Given<LitStr>>,
    pub(crate) codec: Option<Given<Type>>,
    pub(crate) krate: Option<Given<Path>>,
    pub(crate) bind: Option<Given<Ident>>,
}

pub(crate) enum KeyArg {
    Type(Given<Type>),
    /// The list as written, for spans, and the fields that it names.
    Fields(TokenStream, Vec<Member>),
}

impl Args {
    pub(crate) fn parse(kind: &Kind, tokens: TokenStream, errors: &Errors) -> Self {
        let mut args = Self::default();
        let mut entries = Entries::new(tokens, kind.words, errors);
        while let Some(entry) = entries.next() {
            match entry.word.text {
                words::NAME => args.name = Some(values::string(&mut entries, &entry)),
                words::VERSION => args.version = Some(values::integer(&mut entries, &entry)),
                words::KEY => args.key = Some(key(kind, &mut entries, &entry, errors)),
                words::REQUIRES => args.requires = requires(&entry, errors),
                words::ADDRESS => args.address = Some(values::string(&mut entries, &entry)),
                words::CODEC => args.codec = Some(ty(&mut entries, &entry)),
                words::CRATE => args.krate = Some(values::crate_path(&mut entries, &entry)),
                words::BIND => args.bind = Some(ident(&mut entries, &entry)),
                _ => {}
            }
        }
        args
    }
}

fn ty(entries: &mut Entries<'_>, entry: &Entry) -> Given<Type> {
    Given { value: entries.value(entry, "a type", Type::parse) }
}

fn ident(entries: &mut Entries<'_>, entry: &Entry) -> Given<Ident> {
    Given { value: entries.value(entry, "an identifier", Ident::parse) }
}

fn key(kind: &Kind, entries: &mut Entries<'_>, entry: &Entry, errors: &Errors) -> KeyArg {
    let Beside::List(list) = &entry.beside else {
        return KeyArg::Type(ty(entries, entry));
    };
    let members = split(list.stream()).into_iter().filter_map(|tokens| member(tokens, errors)).collect();
    if list.stream().is_empty() {
        let noun = kind.noun;
        errors.at(list, format!("`key()` names no field; name one, or leave the word out for a {noun} without a key"));
    }
    KeyArg::Fields(list.to_token_stream(), members)
}

fn member(tokens: Vec<TokenTree>, errors: &Errors) -> Option<Member> {
    let tokens: TokenStream = tokens.into_iter().collect();
    if let Ok(member) = syn::parse2(tokens.clone()) {
        return Some(member);
    }
    errors.at(tokens, "expected a field of the payload; write its name, as in `key(region, order)`");
    None
}

fn requires(entry: &Entry, errors: &Errors) -> Vec<Ident> {
    let Beside::List(list) = &entry.beside else {
        return Vec::new();
    };
    if list.stream().is_empty() {
        errors.at(list, "`requires()` names no capability; name one, or leave the word out");
    }
    split(list.stream()).into_iter().flat_map(|tokens| required(tokens, errors)).collect()
}

/// The words between two commas, which should be one.
fn required(tokens: Vec<TokenTree>, errors: &Errors) -> Vec<Ident> {
    let word = |token: &TokenTree| if let TokenTree::Ident(word) = token { Some(word.clone()) } else { None };
    if let Some(words) = tokens.iter().map(word).collect::<Option<Vec<Ident>>>() {
        words.iter().skip(1).for_each(|word| errors.comma_before(word));
        return words;
    }
    let meant = tokens.iter().rev().find_map(|token| capability::nearest(token.to_string().trim_matches('"')));
    let meant = meant.unwrap_or("ack_groups");
    let tokens: TokenStream = tokens.into_iter().collect();
    errors.at(tokens, format!("expected the word of a capability; write `requires({meant})`"));
    Vec::new()
}
