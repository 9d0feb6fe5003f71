//! The rules of both attributes, one function for each.

use proc_macro2::{Ident, Span};
use syn::ext::IdentExt;
use syn::{Data, Fields, Member};

use crate::capability;
use crate::declaration::address;
use crate::declaration::args::KeyArg;
use crate::declaration::model::{Key, KeyField, Model, is_stable, names, text};
use crate::errors::Errors;
use crate::item;
use crate::name;
use crate::suggest;
use crate::values::value_of;

/// As many as the runtime has tuples of key parts for.
pub(crate) const MAX_KEY_FIELDS: usize = 16;

pub(crate) fn check(model: &Model, errors: &Errors) {
    stands_on_a_struct_or_enum(model, errors);
    stands_once(model, errors);
    has_name_and_version(model, errors);
    name_is_well_formed(model, errors);
    version_is_in_range(model, errors);
    key_type_is_owned(model, errors);
    key_fields(model, errors);
    capabilities(model, errors);
    address_can_be_asked_for(model, errors);
}

fn stands_on_a_struct_or_enum(model: &Model, errors: &Errors) {
    if let Data::Union(data) = &model.input.data {
        let attribute = model.kind.attribute;
        errors.at(
            data.union_token,
            format!("`#[{attribute}]` can't stand on a union; put it on the struct or enum of the payload"),
        );
    }
}

fn stands_once(model: &Model, errors: &Errors) {
    for repeated in model.repeated() {
        errors.at(repeated, format!("`#[{}]` stands twice on one item; keep one", model.kind.attribute));
    }
}

fn has_name_and_version(model: &Model, errors: &Errors) {
    let missing = match (&model.args.name, &model.args.version) {
        (None, None) => "`name` and `version` are",
        (None, Some(_)) => "`name` is",
        (Some(_), None) => "`version` is",
        (Some(_), Some(_)) => return,
    };
    let name = value_of(model.args.name.as_ref())
        .and_then(|name| name::corrected(&name.value()))
        .or_else(|| name::corrected(&model.text()))
        .unwrap_or_else(|| "orders.placed".to_owned());
    let version = value_of(model.args.version.as_ref()).map_or("1", |version| version.base10_digits());
    let attribute = model.kind.attribute;
    errors.at_span(
        Span::call_site(),
        format!("{missing} missing; write `#[{attribute}(name = \"{name}\", version = {version})]`"),
    );
}

fn name_is_well_formed(model: &Model, errors: &Errors) {
    if let Some(name) = value_of(model.args.name.as_ref())
        && let Some(problem) = name::problem(&name.value())
    {
        errors.at(name, problem);
    }
}

fn version_is_in_range(model: &Model, errors: &Errors) {
    let Some(version) = value_of(model.args.version.as_ref()) else {
        return;
    };
    let digits = version.base10_digits();
    let problem = if !version.suffix().is_empty() {
        format!("the version has the suffix `{}`; write `{digits}`", version.suffix())
    } else if digits == "0" || digits.starts_with('-') {
        "the first version is 1; write `version = 1`".to_owned()
    } else if version.base10_parse::<u32>().is_err() {
        format!("the version `{digits}` is over 4294967295; write a lower one")
    } else {
        return;
    };
    errors.at(version, problem);
}

fn key_type_is_owned(model: &Model, errors: &Errors) {
    if let Key::Type(ty) = &model.key
        && item::borrows(ty)
    {
        errors.at(ty, "a key is owned, but this type borrows; use an owned one such as `String`");
    }
}

fn key_fields(model: &Model, errors: &Errors) {
    let (Some(KeyArg::Fields(list, _)), Key::Fields(key)) = (&model.args.key, &model.key) else {
        return;
    };
    if let Some(unread) = &model.unread {
        errors.add(unread.clone());
        return;
    }
    let Data::Struct(data) = &model.input.data else {
        if matches!(model.input.data, Data::Enum(_)) {
            errors.at(
                list,
                "an enum has no fields to make a key of; write `key = Type` with a type that derives `TopicKey`",
            );
        }
        return;
    };
    for (index, field) in key.iter().enumerate() {
        match &field.found {
            Some((member, _)) if text(member) == text(&field.written) => {
                key_field_is_new(&key[..index], field, errors);
                key_field_keeps_its_index(field, &data.fields, errors);
            }
            _ => key_field_is_unknown(field, &data.fields, errors),
        }
        key_field_is_owned(field, errors);
        key_field_names_no_self(field, errors);
    }
    if let Some(first_too_many) = key.get(MAX_KEY_FIELDS) {
        errors.at(
            &first_too_many.written,
            format!("a key has at most {MAX_KEY_FIELDS} fields; group some in a struct that derives `TopicKey`"),
        );
    }
}

fn key_field_is_unknown(field: &KeyField, fields: &Fields, errors: &Errors) {
    let written = text(&field.written);
    let names = names(fields);
    let remedy = match (&field.found, fields) {
        (Some((meant, _)), _) => format!("write `{}`", text(meant)),
        (None, Fields::Named(_)) if !names.is_empty() => {
            format!("the fields are {}", suggest::list(names.iter().map(String::as_str)))
        }
        (None, Fields::Unnamed(fields)) if !fields.unnamed.is_empty() => {
            format!("the fields are numbered from 0 to {}", fields.unnamed.len() - 1)
        }
        (None, _) => "the payload has none, so write `key = Type` or no key".to_owned(),
    };
    errors.at(&field.written, format!("the payload has no field `{written}`; {remedy}"));
}

fn key_field_is_new(before: &[KeyField], field: &KeyField, errors: &Errors) {
    if before.iter().any(|other| text(&other.written) == text(&field.written)) {
        errors.at(&field.written, format!("the field `{}` is twice in the key; keep one", text(&field.written)));
    }
}

/// A field that `#[cfg]` removes renumbers those behind it, which isn't known yet when this attribute is expanded.
fn key_field_keeps_its_index(field: &KeyField, fields: &Fields, errors: &Errors) {
    if let Member::Unnamed(index) = &field.written
        && !is_stable(index, fields)
    {
        errors.at(index, format!("the index `{}` depends on a `#[cfg]`; name the fields of the struct", index.index));
    }
}

fn key_field_is_owned(field: &KeyField, errors: &Errors) {
    for declaration in field.found.iter().flat_map(|(_, declarations)| declarations) {
        if item::borrows(&declaration.ty) {
            errors.at(
                &field.written,
                format!(
                    "a key is owned, but the field `{}` borrows; write `key = Type` with an owned type",
                    text(&field.written),
                ),
            );
        }
    }
}

/// The key type would copy the words, but they mean the payload.
fn key_field_names_no_self(field: &KeyField, errors: &Errors) {
    for declaration in field.found.iter().flat_map(|(_, declarations)| declarations) {
        if item::mentions_self(&declaration.ty) {
            errors.at(
                &field.written,
                format!(
                    "the type of the field `{}` names `Self`; write the payload's name there",
                    text(&field.written)
                ),
            );
        }
    }
}

fn capabilities(model: &Model, errors: &Errors) {
    for (index, required) in model.required.iter().enumerate() {
        let Some(found) = required.found else {
            capability_is_unknown(&required.written, errors);
            continue;
        };
        if model.required[..index].iter().any(|other| other.written == required.written) {
            errors.at(&required.written, format!("`{}` is required twice; keep one", found.word));
        }
    }
}

fn capability_is_unknown(written: &Ident, errors: &Errors) {
    let text = written.unraw().to_string();
    let message = match capability::nearest(&text) {
        _ if text.eq_ignore_ascii_case("log") => "every stream requires `Log`; remove the word".to_owned(),
        Some(meant) => format!("unknown capability `{written}`; write `{meant}`"),
        None => format!("unknown capability `{written}`; the capabilities are {}", suggest::list(capability::words())),
    };
    errors.at(written, message);
}

fn address_can_be_asked_for(model: &Model, errors: &Errors) {
    if let Some(address) = value_of(model.args.address.as_ref())
        && let Some(problem) = address::problem(&address.value())
    {
        errors.at(address, problem);
    }
}
