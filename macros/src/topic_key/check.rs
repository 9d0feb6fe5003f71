//! The rules of `#[derive(TopicKey)]`, one function for each.

use quote::ToTokens;
use syn::{Data, Fields};

use crate::errors::Errors;
use crate::item::borrows;
use crate::topic_key::args::own;
use crate::topic_key::model::Model;
use crate::values::value_of;

/// As many as the runtime has tuples of key parts for.
const MAX_FIELDS: usize = 16;

pub(crate) fn check(model: &Model, errors: &Errors) {
    match &model.input.data {
        Data::Struct(data) => {
            fields_have_no_words(&data.fields, errors);
            fields_are_few(&data.fields, errors);
            fields_are_owned(model, &data.fields, errors);
        }
        Data::Enum(_) => {
            has_variants(model, errors);
            variants_hold_nothing(model, errors);
            variants_are_distinct(model, errors);
        }
        Data::Union(data) => {
            errors.at(data.union_token, "a union can't be a key; use a struct, or an enum of unit variants");
        }
    }
}

fn fields_have_no_words(fields: &Fields, errors: &Errors) {
    for attribute in fields.iter().flat_map(|field| own(&field.attrs)) {
        errors.at(attribute, "`#[topic_key(..)]` has no words for a field; put it on the struct, or remove it");
    }
}

fn fields_are_few(fields: &Fields, errors: &Errors) {
    if let Some(first_too_many) = fields.iter().nth(MAX_FIELDS) {
        let message = format!("a key has at most {MAX_FIELDS} fields; group some in a struct that derives `TopicKey`");
        match &first_too_many.ident {
            Some(ident) => errors.at(ident, message),
            None => errors.at(&first_too_many.ty, message),
        }
    }
}

/// A key is read back from the address, so it has nothing to borrow from.
fn fields_are_owned(model: &Model, fields: &Fields, errors: &Errors) {
    let borrowed: Vec<_> = fields.iter().filter(|field| borrows(&field.ty)).collect();
    for field in &borrowed {
        errors.at(&field.ty, "a key is owned, but this field borrows; use an owned type such as `String`");
    }
    if let (Some(parameter), true) = (model.input.generics.lifetimes().next(), borrowed.is_empty()) {
        errors.at(
            parameter,
            "a key is owned, but this type has a lifetime; remove it and use owned types such as `String`",
        );
    }
}

fn has_variants(model: &Model, errors: &Errors) {
    if model.variants.is_empty() {
        errors.at(
            &model.input.ident,
            format!("`{}` has no variants, so there is no key; add one, or use a unit struct", model.input.ident),
        );
    }
}

fn variants_hold_nothing(model: &Model, errors: &Errors) {
    for variant in &model.variants {
        if !matches!(variant.fields, Fields::Unit) {
            errors.at(
                variant.fields.to_token_stream(),
                format!(
                    "the variant `{}` holds data; make the key a struct with an enum of unit variants beside it",
                    variant.ident
                ),
            );
        }
    }
}

fn variants_are_distinct(model: &Model, errors: &Errors) {
    for (index, variant) in model.variants.iter().enumerate() {
        let Some(first) = model.variants[..index].iter().find(|first| first.text == variant.text) else {
            continue;
        };
        let at = value_of(variant.args.rename.as_ref())
            .or_else(|| value_of(first.args.rename.as_ref()))
            .map_or_else(|| variant.ident.to_token_stream(), ToTokens::to_token_stream);
        errors.at(
            at,
            format!(
                "the variants `{}` and `{}` have the same text `{}`; give one another with `#[topic_key(rename = \"..\")]`",
                first.ident,
                variant.ident,
                variant.text.escape_debug(),
            ),
        );
    }
}
