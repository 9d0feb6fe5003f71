//! Parsers of values that several words share.

use proc_macro2::TokenStream;
use syn::ext::IdentExt;
use syn::parse::{Parse, ParseStream, Parser};
use syn::{Lit, LitInt, LitStr, Path};

use crate::entries::{Entries, Entry, flatten};

/// What `word = ..` gave: the word was there, and its value if it could be read.
pub(crate) struct Given<T> {
    pub(crate) value: Option<T>,
}

/// The value of a word that may be missing or unreadable.
pub(crate) fn value_of<T>(given: Option<&Given<T>>) -> Option<&T> {
    given.and_then(|given| given.value.as_ref())
}

pub(crate) fn string(entries: &mut Entries<'_>, entry: &Entry) -> Given<LitStr> {
    Given { value: entries.value(entry, "a string literal", <LitStr as Parse>::parse) }
}

/// A number; its range is checked where the model is.
pub(crate) fn integer(entries: &mut Entries<'_>, entry: &Entry) -> Given<LitInt> {
    Given {
        value: entries.value(entry, "an integer", |input| match input.parse()? {
            Lit::Int(number) => Ok(number),
            other => Err(syn::Error::new_spanned(other, "no integer")),
        }),
    }
}

/// The path to the runtime, bare or as a string.
pub(crate) fn crate_path(entries: &mut Entries<'_>, entry: &Entry) -> Given<Path> {
    Given {
        value: entries.value(entry, "the path of the crate `tidings`", |input| {
            if input.peek(LitStr) {
                return input.parse::<LitStr>()?.parse_with(Path::parse_mod_style);
            }
            Path::parse_mod_style.parse2(flatten(path_tokens(input)?))
        }),
    }
}

/// As many tokens as a path can have: what follows is another word's.
fn path_tokens(input: ParseStream<'_>) -> syn::Result<TokenStream> {
    let mut tokens = TokenStream::new();
    let mut after_name = false;
    while !input.is_empty() {
        let is_name = input.peek(syn::Ident::peek_any) || input.peek(syn::token::Group);
        if is_name && after_name {
            break;
        }
        after_name = is_name;
        tokens.extend([input.parse::<proc_macro2::TokenTree>()?]);
    }
    Ok(tokens)
}
