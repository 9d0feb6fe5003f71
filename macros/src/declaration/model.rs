//! The attribute joined with the item that it stands on.

use proc_macro2::{Ident, TokenStream};
use quote::format_ident;
use syn::ext::IdentExt;
use syn::{Attribute, Data, DeriveInput, Field, Fields, Index, Member, Type};

use crate::capability::{self, Capability};
use crate::declaration::Kind;
use crate::declaration::args::{Args, KeyArg};
use crate::item;
use crate::paths::Paths;
use crate::suggest;
use crate::values::value_of;

pub(crate) struct Model {
    pub(crate) kind: &'static Kind,
    pub(crate) args: Args,
    /// The item for reading.
    pub(crate) input: DeriveInput,
    /// The item for emitting, as it was given.
    pub(crate) item: TokenStream,
    /// Why the fields are unknown.
    pub(crate) unread: Option<syn::Error>,
    pub(crate) cfgs: Vec<TokenStream>,
    pub(crate) allow_deprecated: Option<TokenStream>,
    pub(crate) paths: Paths,
    pub(crate) key: Key,
    pub(crate) required: Vec<Required>,
}

/// One word in `requires(..)`.
pub(crate) struct Required {
    pub(crate) written: Ident,
    pub(crate) found: Option<&'static Capability>,
}

pub(crate) enum Key {
    /// There is none.
    Unit,
    Type(Box<Type>),
    Fields(Vec<KeyField>),
}

/// One name in `key(..)`.
pub(crate) struct KeyField {
    pub(crate) written: Member,
    /// The field that was meant, and every declaration of it: there are several under opposite `#[cfg]`s.
    pub(crate) found: Option<(Member, Vec<Field>)>,
}

impl Model {
    pub(crate) fn new(kind: &'static Kind, args: Args, read: item::Read, item: TokenStream) -> Self {
        let item::Read { input, unread } = read;
        Self {
            kind,
            unread,
            allow_deprecated: item::allow_deprecated(&input),
            cfgs: item::cfgs(&input.attrs),
            paths: Paths::new(value_of(args.krate.as_ref())),
            key: key(&args, &input.data),
            required: required(&args),
            args,
            input,
            item,
        }
    }

    /// The item's name without `r#`.
    pub(crate) fn text(&self) -> String {
        self.input.ident.unraw().to_string()
    }

    /// The name of the key type that `key(..)` generates.
    pub(crate) fn key_ident(&self) -> Ident {
        format_ident!("{}{}", self.text(), self.kind.key_suffix, span = self.input.ident.span())
    }

    /// The attribute's own repetitions on the item.
    pub(crate) fn repeated(&self) -> impl Iterator<Item = &Attribute> {
        self.input.attrs.iter().filter(|attribute| is_repeated(self.kind, attribute))
    }
}

/// Whether this is the attribute once more, by its last segment: the path before it can't be resolved here.
pub(crate) fn is_repeated(kind: &Kind, attribute: &Attribute) -> bool {
    attribute.path().segments.last().is_some_and(|segment| segment.ident == kind.attribute)
}

fn required(args: &Args) -> Vec<Required> {
    let found = |written: &Ident| capability::named(&written.to_string());
    args.requires.iter().map(|written| Required { found: found(written), written: written.clone() }).collect()
}

fn key(args: &Args, data: &Data) -> Key {
    match &args.key {
        None => Key::Unit,
        Some(KeyArg::Type(given)) => given.value.clone().map_or(Key::Unit, |ty| Key::Type(Box::new(ty))),
        Some(KeyArg::Fields(_, members)) => Key::Fields(members.iter().map(|member| key_field(member, data)).collect()),
    }
}

fn key_field(written: &Member, data: &Data) -> KeyField {
    let fields = match data {
        Data::Struct(data) => &data.fields,
        Data::Enum(_) | Data::Union(_) => &Fields::Unit,
    };
    let found = declarations(fields, written).or_else(|| {
        let names: Vec<String> = names(fields);
        let meant = suggest::nearest(&text(written), names.iter().map(String::as_str))?;
        let field = fields.iter().find(|field| name(field).as_deref() == Some(meant))?;
        declarations(fields, &Member::Named(field.ident.clone()?))
    });
    KeyField { written: written.clone(), found }
}

fn declarations(fields: &Fields, member: &Member) -> Option<(Member, Vec<Field>)> {
    let found: Vec<Field> = match member {
        Member::Named(_) => {
            let text = text(member);
            fields.iter().filter(|field| name(field).as_ref() == Some(&text)).cloned().collect()
        }
        Member::Unnamed(index) => match fields {
            Fields::Unnamed(fields) => fields.unnamed.get(index.index as usize).cloned().into_iter().collect(),
            Fields::Named(_) | Fields::Unit => Vec::new(),
        },
    };
    let first = found.first()?;
    // The field's own identifier, so that access has the hygiene of the declaration.
    let member = first.ident.clone().map_or_else(|| member.clone(), Member::Named);
    Some((member, found))
}

/// Whether no `#[cfg]` can renumber a tuple struct's field.
pub(crate) fn is_stable(index: &Index, fields: &Fields) -> bool {
    fields.iter().take(index.index as usize + 1).all(|field| item::cfgs(&field.attrs).is_empty())
}

/// The names of the fields, without `r#`.
pub(crate) fn names(fields: &Fields) -> Vec<String> {
    let mut names: Vec<String> = fields.iter().filter_map(name).collect();
    names.dedup();
    names
}

fn name(field: &Field) -> Option<String> {
    field.ident.as_ref().map(|ident| ident.unraw().to_string())
}

/// A field's name or index as text.
pub(crate) fn text(member: &Member) -> String {
    match member {
        Member::Named(ident) => ident.unraw().to_string(),
        Member::Unnamed(index) => index.index.to_string(),
    }
}
