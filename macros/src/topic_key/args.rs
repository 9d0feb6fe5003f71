//! What `#[topic_key(..)]` says on the container and on a variant.

use proc_macro2::TokenStream;
use quote::quote;
use syn::{Attribute, LitStr, Meta, Path};

use crate::entries::Entries;
use crate::errors::Errors;
use crate::values::{self, Given};
use crate::words;

#[derive(Default)]
pub(crate) struct ContainerArgs {
    pub(crate) krate: Option<Given<Path>>,
}

#[derive(Default)]
pub(crate) struct VariantArgs {
    pub(crate) rename: Option<Given<LitStr>>,
}

impl ContainerArgs {
    pub(crate) fn parse(attributes: &[Attribute], errors: &Errors) -> Self {
        let mut args = Self::default();
        let tokens = tokens(attributes, "crate = ::path::to::tidings", errors);
        let mut entries = Entries::new(tokens, words::TOPIC_KEY_CONTAINER_WORDS, errors);
        while let Some(entry) = entries.next() {
            args.krate = Some(values::crate_path(&mut entries, &entry));
        }
        args
    }
}

impl VariantArgs {
    pub(crate) fn parse(attributes: &[Attribute], errors: &Errors) -> Self {
        let mut args = Self::default();
        let tokens = tokens(attributes, "rename = \"text\"", errors);
        let mut entries = Entries::new(tokens, words::TOPIC_KEY_VARIANT_WORDS, errors);
        while let Some(entry) = entries.next() {
            args.rename = Some(values::string(&mut entries, &entry));
        }
        args
    }
}

/// Every `#[topic_key]`, wherever it has no words.
pub(crate) fn own(attributes: &[Attribute]) -> impl Iterator<Item = &Attribute> {
    attributes.iter().filter(|attribute| attribute.path().is_ident(words::TOPIC_KEY))
}

/// The words of all `#[topic_key(..)]`s as if they stood in one.
fn tokens(attributes: &[Attribute], form: &'static str, errors: &Errors) -> TokenStream {
    let mut tokens = TokenStream::new();
    for attribute in own(attributes) {
        let Meta::List(list) = &attribute.meta else {
            errors.at(attribute, format!("`#[topic_key]` has no words; write `#[topic_key({form})]`"));
            continue;
        };
        tokens.extend(list.tokens.clone());
        tokens.extend(quote!(,));
    }
    tokens
}
