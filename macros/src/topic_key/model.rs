//! The key type with what its attributes say.

use proc_macro2::{Ident, TokenStream};
use syn::ext::IdentExt;
use syn::{Data, DeriveInput, Fields};

use crate::errors::Errors;
use crate::item;
use crate::paths::Paths;
use crate::topic_key::args::{ContainerArgs, VariantArgs};
use crate::values::value_of;

pub(crate) struct Model {
    pub(crate) input: DeriveInput,
    pub(crate) cfgs: Vec<TokenStream>,
    pub(crate) allow_deprecated: Option<TokenStream>,
    pub(crate) paths: Paths,
    /// The variants of an enum.
    pub(crate) variants: Vec<Variant>,
}

pub(crate) struct Variant {
    pub(crate) ident: Ident,
    pub(crate) fields: Fields,
    /// The text of its segment, and whether `rename` gave it.
    pub(crate) text: String,
    pub(crate) args: VariantArgs,
}

impl Model {
    pub(crate) fn new(input: DeriveInput, errors: &Errors) -> Self {
        let args = ContainerArgs::parse(&input.attrs, errors);
        Self {
            allow_deprecated: item::allow_deprecated(&input),
            cfgs: item::cfgs(&input.attrs),
            paths: Paths::new(value_of(args.krate.as_ref())),
            variants: variants(&input.data, errors),
            input,
        }
    }
}

fn variants(data: &Data, errors: &Errors) -> Vec<Variant> {
    let Data::Enum(data) = data else {
        return Vec::new();
    };
    let variants = data.variants.iter().map(|variant| {
        let args = VariantArgs::parse(&variant.attrs, errors);
        let renamed = value_of(args.rename.as_ref()).map(syn::LitStr::value);
        Variant {
            ident: variant.ident.clone(),
            fields: variant.fields.clone(),
            text: renamed.unwrap_or_else(|| variant.ident.unraw().to_string()),
            args,
        }
    });
    variants.collect()
}
