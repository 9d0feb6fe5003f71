//! The code that `#[topic(..)]` generates beside the item.

use proc_macro2::TokenStream;
use quote::{ToTokens, quote, quote_spanned};
use syn::{Data, Field, Fields, Generics, LitStr, Member, Type, parse_quote};

use crate::generics::{bounded, narrowed};
use crate::item::{cfgs, span_at};
use crate::topic::model::{Key, KeyField, Model, text};
use crate::values::value_of;

pub(crate) fn emit(model: &Model) -> TokenStream {
    let item = &model.item;
    let generics = generics(model);
    let key = key(model);
    let spec = spec(model, &generics, &key);
    let publish = publish(model, &generics);
    let binding = binding(model, &generics);
    let own_key = match &model.key {
        Key::Fields(fields) => own_key(model, &generics, fields),
        Key::Unit | Key::Type(_) => TokenStream::new(),
    };
    quote!(#item #spec #publish #binding #own_key)
}

/// The item's generics; with `key(..)`, its fields can be part of a key.
fn generics(model: &Model) -> Generics {
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
fn key(model: &Model) -> TokenStream {
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

fn spec(model: &Model, generics: &Generics, key: &TokenStream) -> TokenStream {
    let (ident, cfgs, paths) = (&model.input.ident, &model.cfgs, &model.paths);
    let allow = &model.allow_deprecated;
    let (parameters, arguments, clause) = generics.split_for_impl();
    let (topic_spec, declaration) = (paths.topic_spec(), paths.declaration());
    let codec = value_of(model.args.codec.as_ref()).map_or_else(|| paths.json(), ToTokens::to_token_stream);
    let name = value_of(model.args.name.as_ref());
    let version = value_of(model.args.version.as_ref()).map(syn::LitInt::base10_digits);
    let version = version.map(|digits| syn::LitInt::new(digits, proc_macro2::Span::call_site()));
    quote! {
        #(#cfgs)*
        #[automatically_derived]
        #allow
        impl #parameters #topic_spec for #ident #arguments #clause {
            type Key = #key;
            type Codec = #codec;
            const DECLARATION: #declaration = #declaration::topic(#name, #version);
        }
    }
}

/// The marker that gives the publishing methods of the prelude.
fn publish(model: &Model, generics: &Generics) -> TokenStream {
    let (ident, cfgs, allow) = (&model.input.ident, &model.cfgs, &model.allow_deprecated);
    let (parameters, arguments, clause) = generics.split_for_impl();
    let marker = match &model.key {
        Key::Fields(_) => model.paths.publish_keyed(),
        Key::Unit | Key::Type(_) => model.paths.publish_topic(),
    };
    quote! {
        #(#cfgs)*
        #[automatically_derived]
        #allow
        impl #parameters #marker for #ident #arguments #clause {}
    }
}

/// The inherent function that binds the declaration to a broker.
fn binding(model: &Model, generics: &Generics) -> TokenStream {
    let (ident, vis, cfgs, paths) = (&model.input.ident, &model.input.vis, &model.cfgs, &model.paths);
    let allow = &model.allow_deprecated;
    let (parameters, arguments, clause) = generics.split_for_impl();
    let bind = value_of(model.args.bind.as_ref()).map_or_else(|| quote!(topic), ToTokens::to_token_stream);
    let (handle, function) = match &model.key {
        Key::Fields(_) => (paths.keyed_topic(), paths.bind_keyed_topic()),
        Key::Unit | Key::Type(_) => (paths.topic(), paths.bind_topic()),
    };
    let (broker, result, error, pub_sub) = (paths.broker(), paths.result(), paths.error(), paths.pub_sub());
    let what = format!(
        " Binds the topic `{}` version {} to a broker.",
        value_of(model.args.name.as_ref()).map(LitStr::value).unwrap_or_default(),
        value_of(model.args.version.as_ref()).map(syn::LitInt::base10_digits).unwrap_or_default(),
    );
    quote! {
        #(#cfgs)*
        #[allow(dead_code, single_use_lifetimes, unreachable_pub)]
        #allow
        impl #parameters #ident #arguments #clause {
            #[doc = #what]
            ///
            /// # Errors
            ///
            /// When the broker is closed, refuses another declaration, or has this one for another type.
            #vis fn #bind<__B>(__broker: &#broker<__B>) -> #result<#handle<Self, __B>, #error>
            where
                __B: #pub_sub,
            {
                #function::<Self, __B>(__broker)
            }
        }
    }
}

/// The key type that `key(..)` generates, and how the payload makes it.
fn own_key(model: &Model, generics: &Generics, fields: &[KeyField]) -> TokenStream {
    let key_type = key_type(model, fields);
    let (ident, item_cfgs, paths) = (&model.input.ident, &model.cfgs, &model.paths);
    let allow = &model.allow_deprecated;
    let key_ident = model.key_ident();
    let (parameters, arguments, clause) = generics.split_for_impl();
    let (self_keyed, topic_spec, key_writer) = (paths.self_keyed(), paths.topic_spec(), paths.key_writer());
    let (clone, topic_key) = (paths.clone(), paths.topic_key());

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
        impl #parameters #self_keyed for #ident #arguments #clause {
            fn topic_key(&self) -> <Self as #topic_spec>::Key {
                #key_ident #made
            }
            fn write_key(&self, __to: &mut #key_writer<'_>) {
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
