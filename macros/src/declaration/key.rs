//! The key of a declaration as a type, and the one that `key(..)` generates of the payload's own fields.

use proc_macro2::TokenStream;
use quote::{ToTokens, quote, quote_spanned};
use syn::{Data, Field, Fields, Generics, Member, Type, parse_quote};

use crate::declaration::kind::Names;
use crate::declaration::model::{Key, KeyField, Model, text};
use crate::generics::{bounded, narrowed};
use crate::item::{cfgs, span_at};
use crate::values::value_of;

/// The item's generics; with `key(..)`, its fields can be part of a key.
pub(crate) fn generics(model: &Model) -> Generics {
    let Key::Fields(fields) = &model.key else {
        return model.input.generics.clone();
    };
    let (topic_key, clone) = (model.paths.topic_key(), model.paths.clone());
    bounded(&model.input.generics, types(fields), |ty| parse_quote!(#ty: #topic_key + #clone))
}

fn declarations(fields: &[KeyField]) -> impl Iterator<Item = (&Member, &Field)> {
    fields
        .iter()
        .filter_map(|field| field.found.as_ref())
        .flat_map(|(member, declarations)| declarations.iter().map(move |field| (member, field)))
}

fn types(fields: &[KeyField]) -> impl Iterator<Item = &Type> {
    declarations(fields).map(|(_, field)| &field.ty)
}

/// The key as a type.
pub(crate) fn ty(model: &Model) -> TokenStream {
    match &model.key {
        Key::Unit => quote!(()),
        Key::Type(ty) => ty.to_token_stream(),
        Key::Fields(fields) => {
            let ident = model.key_ident();
            let types: Vec<&Type> = types(fields).collect();
            let narrowed = narrowed(&model.input.generics, &types);
            let (_, arguments, _) = narrowed.split_for_impl();
            quote!(#ident #arguments)
        }
    }
}

/// The key type that `key(..)` generates, and how the payload makes it.
pub(crate) fn own(model: &Model, names: &Names, generics: &Generics, fields: &[KeyField]) -> TokenStream {
    let key_type = key_type(model, fields);
    let (ident, item_cfgs, paths) = (&model.input.ident, &model.cfgs, &model.paths);
    let allow = &model.allow_deprecated;
    let key_ident = model.key_ident();
    let (parameters, arguments, clause) = generics.split_for_impl();
    let Names { spec, keyed, make_key, write_key, .. } = names;
    let (clone, topic_key, key_writer) = (paths.clone(), paths.topic_key(), paths.key_writer());

    let cloned = declarations(fields).map(|(member, field)| {
        let cfgs = cfgs(&field.attrs);
        let value = quote_spanned!(span_at(&field.ty)=> #clone::clone(&self.#member));
        match member {
            Member::Named(ident) => quote!(#(#cfgs)* #ident: #value),
            Member::Unnamed(_) => value,
        }
    });
    let made = delimited(model, &quote!(#(#cloned),*));
    let written = declarations(fields).map(|(member, field)| {
        let cfgs = cfgs(&field.attrs);
        let ty = &field.ty;
        quote_spanned!(span_at(ty)=> #(#cfgs)* <#ty as #topic_key>::write(&self.#member, __to);)
    });
    quote! {
        #key_type
        #(#item_cfgs)*
        #[automatically_derived]
        #allow
        impl #parameters #keyed for #ident #arguments #clause {
            fn #make_key(&self) -> <Self as #spec>::Key {
                #key_ident #made
            }
            fn #write_key(&self, __to: &mut #key_writer<'_>) {
                #(#written)*
            }
        }
    }
}

fn key_type(model: &Model, fields: &[KeyField]) -> TokenStream {
    let (vis, item_cfgs, paths) = (&model.input.vis, &model.cfgs, &model.paths);
    let key_ident = model.key_ident();
    let types: Vec<&Type> = types(fields).collect();
    let generics = narrowed(&model.input.generics, &types);
    let clause = &generics.where_clause;
    let renamed = value_of(model.args.krate.as_ref()).map(|path| quote!(#[topic_key(crate = #path)]));
    let (topic_key, clone, debug) = (paths.topic_key(), paths.clone(), paths.debug());
    let (partial_eq, eq, hash) = (paths.partial_eq(), paths.eq(), paths.hash());
    let payload = model.text();
    // rustdoc finds no item behind a raw identifier.
    let link = if model.input.ident == payload { format!("[`{payload}`]") } else { format!("`{payload}`") };
    let what = format!(" The key of {link}, made of the payload's own fields.");

    let inside = declarations(fields).map(|(member, Field { attrs, ty, .. })| {
        let cfgs = cfgs(attrs);
        let what = format!(" The payload's field `{}`.", text(member));
        let name = match member {
            Member::Named(ident) => quote!(#ident:),
            Member::Unnamed(_) => TokenStream::new(),
        };
        quote!(#(#cfgs)* #[doc = #what] #vis #name #ty)
    });
    let inside = delimited(model, &quote!(#(#inside),*));
    let body = if is_tuple(model) { quote!(#inside #clause;) } else { quote!(#clause #inside) };
    quote! {
        #(#item_cfgs)*
        #[doc = #what]
        #[derive(#topic_key, #clone, #debug, #partial_eq, #eq, #hash)]
        #renamed
        #[allow(dead_code, unreachable_pub)]
        #vis struct #key_ident #generics #body
    }
}

fn is_tuple(model: &Model) -> bool {
    matches!(&model.input.data, Data::Struct(data) if matches!(data.fields, Fields::Unnamed(_)))
}

/// The key has the shape of the payload.
fn delimited(model: &Model, inside: &TokenStream) -> TokenStream {
    if is_tuple(model) { quote!((#inside)) } else { quote!({ #inside }) }
}
