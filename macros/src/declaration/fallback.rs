//! What is emitted beside errors: the item, and impls that keep its uses from turning red as well.

use proc_macro2::TokenStream;
use quote::ToTokens;
use syn::{Data, LitInt, LitStr, Member};

use crate::declaration::address;
use crate::declaration::check::MAX_KEY_FIELDS;
use crate::declaration::emit;
use crate::declaration::model::{Key, KeyField, Model, Required, is_repeated, is_stable};
use crate::item;
use crate::name;
use crate::values::{Given, value_of};

/// An item that can't carry the attribute, with the errors.
pub(crate) fn item_alone(item: TokenStream, errors: Result<(), TokenStream>) -> TokenStream {
    let mut tokens = item;
    tokens.extend(errors.err());
    tokens
}

/// The item with the errors, and impls in which what can't be used is replaced.
pub(crate) fn emit(mut model: Model, errors: TokenStream) -> TokenStream {
    if model.repeated().next().is_some() {
        let kind = model.kind;
        model.input.attrs.retain(|attribute| !is_repeated(kind, attribute));
        model.item = model.input.to_token_stream();
    }
    complete(&mut model);
    let mut tokens = emit::emit(&model);
    tokens.extend(errors);
    tokens
}

fn complete(model: &mut Model) {
    let args = &mut model.args;
    let good_name = value_of(args.name.as_ref()).is_some_and(|name| name::problem(&name.value()).is_none());
    if !good_name {
        args.name = Some(Given { value: Some(LitStr::new("invalid", model.input.ident.span())) });
    }
    let good_version = value_of(args.version.as_ref())
        .is_some_and(|version| version.base10_parse::<u32>().is_ok_and(|version| version > 0));
    if !good_version {
        args.version = Some(Given { value: Some(LitInt::new("1", model.input.ident.span())) });
    }
    args.address.take_if(|address| address.value.as_ref().is_none_or(|text| address::problem(&text.value()).is_some()));
    keep_known(&mut model.required);
    match &mut model.key {
        Key::Unit => {}
        Key::Type(ty) => {
            if item::borrows(&*ty) {
                model.key = Key::Unit;
            }
        }
        Key::Fields(key) => keep_usable(key, &model.input.data),
    }
}

/// Leaves each capability that can be required once.
fn keep_known(required: &mut Vec<Required>) {
    let mut kept = Vec::new();
    required.retain(|required| {
        let is_new = required.found.is_some() && !kept.contains(&required.written);
        kept.push(required.written.clone());
        is_new
    });
}

/// Leaves the fields that a key can be generated of.
fn keep_usable(key: &mut Vec<KeyField>, data: &Data) {
    let mut kept = Vec::new();
    key.retain(|field| {
        let Some((member, declarations)) = &field.found else {
            return false;
        };
        let moves = match (member, data) {
            (Member::Unnamed(index), Data::Struct(data)) => !is_stable(index, &data.fields),
            _ => false,
        };
        let unfit = declarations.iter().any(|field| item::borrows(&field.ty) || item::mentions_self(&field.ty));
        if moves || unfit || kept.contains(member) || kept.len() == MAX_KEY_FIELDS {
            return false;
        }
        kept.push(member.clone());
        true
    });
}
