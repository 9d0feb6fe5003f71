//! The code that `#[derive(TopicKey)]` generates.

use proc_macro2::{Span, TokenStream};
use quote::{ToTokens, quote, quote_spanned};
use syn::ext::IdentExt;
use syn::{Data, Fields, Generics, Type, parse_quote};

use crate::generics::bounded;
use crate::item::span_at;
use crate::topic_key::model::Model;

/// What differs between the forms of a key.
pub(crate) struct Body {
    pub(crate) parts: TokenStream,
    pub(crate) write: TokenStream,
    pub(crate) read: TokenStream,
}

pub(crate) fn emit(model: &Model) -> TokenStream {
    match &model.input.data {
        Data::Struct(data) => {
            let topic_key = model.paths.topic_key();
            let types = data.fields.iter().map(|field| &field.ty);
            let generics = bounded(&model.input.generics, types, |ty| parse_quote!(#ty: #topic_key));
            implementation(model, &generics, &of_struct(model, &data.fields))
        }
        Data::Enum(_) | Data::Union(_) => implementation(model, &model.input.generics, &of_enum(model)),
    }
}

pub(crate) fn implementation(model: &Model, generics: &Generics, body: &Body) -> TokenStream {
    let (ident, cfgs, paths) = (&model.input.ident, &model.cfgs, &model.paths);
    let allow = &model.allow_deprecated;
    let (parameters, arguments, clause) = generics.split_for_impl();
    let (topic_key, key_writer, key_reader) = (paths.topic_key(), paths.key_writer(), paths.key_reader());
    let (result, key_error) = (paths.result(), paths.key_error());
    let Body { parts, write, read } = body;
    quote! {
        #(#cfgs)*
        #[automatically_derived]
        #allow
        impl #parameters #topic_key for #ident #arguments #clause {
            type Parts = #parts;
            fn write(&self, __to: &mut #key_writer<'_>) {
                #write
            }
            fn read(__from: &mut #key_reader<'_>) -> #result<Self, #key_error> {
                #read
            }
        }
    }
}

fn of_struct(model: &Model, fields: &Fields) -> Body {
    let (topic_key, result) = (model.paths.topic_key(), model.paths.result());
    let written = fields.members().zip(fields).map(|(member, field)| {
        let ty = &field.ty;
        quote_spanned!(span_at(ty)=> <#ty as #topic_key>::write(&self.#member, __to);)
    });
    let read = fields.iter().map(|field| {
        let ty = &field.ty;
        let value = quote_spanned!(span_at(ty)=> <#ty as #topic_key>::read(__from)?);
        match &field.ident {
            Some(ident) => quote!(#ident: #value),
            None => value,
        }
    });
    let made = match fields {
        Fields::Named(_) => quote!(Self { #(#read),* }),
        Fields::Unnamed(_) => quote!(Self(#(#read),*)),
        Fields::Unit => quote!(Self),
    };
    let types: Vec<&Type> = fields.iter().map(|field| &field.ty).collect();
    let parts = if let (Fields::Unnamed(_), [inner]) = (fields, types.as_slice()) {
        parts_of(inner, &topic_key)
    } else {
        quote!((#(#types,)*))
    };
    Body { parts, write: quote!(#(#written)*), read: quote!(#result::Ok(#made)) }
}

/// The parts of a newtype's field, in the very place of its type, so that one that is no key is reported once.
fn parts_of(inner: &Type, topic_key: &TokenStream) -> TokenStream {
    let mut spans = inner.to_token_stream().into_iter().map(|token| token.span());
    let first = spans.next().unwrap_or_else(Span::call_site);
    let last = spans.last().unwrap_or(first);
    let open = quote_spanned!(first=> <);
    let close = quote_spanned!(last=> >::Parts);
    quote!(#open #inner as #topic_key #close)
}

fn of_enum(model: &Model) -> Body {
    let paths = &model.paths;
    let (key_writer, key_reader, key_error, result) =
        (paths.key_writer(), paths.key_reader(), paths.key_error(), paths.result());
    let name = model.input.ident.unraw().to_string();
    let variants: Vec<_> = model.variants.iter().map(|variant| &variant.ident).collect();
    let texts: Vec<_> = model.variants.iter().map(|variant| &variant.text).collect();
    Body {
        parts: quote!((Self,)),
        write: quote! {
            #key_writer::segment(__to, match self {
                #(Self::#variants => #texts,)*
            });
        },
        read: quote! {
            match &*#key_reader::segment(__from)? {
                #(#texts => #result::Ok(Self::#variants),)*
                _ => #result::Err(#key_error::unknown_variant(#name)),
            }
        },
    }
}
