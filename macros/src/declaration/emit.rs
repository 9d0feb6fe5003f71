//! The code that `#[topic(..)]` and `#[stream_spec(..)]` generate beside the item.

use proc_macro2::{Span, TokenStream};
use quote::{ToTokens, format_ident, quote};
use syn::{Generics, LitInt, LitStr, parse_quote};

use crate::declaration::key;
use crate::declaration::kind::Names;
use crate::declaration::model::{Key, Model};
use crate::item::located_at;
use crate::values::value_of;

pub(crate) fn emit(model: &Model) -> TokenStream {
    let item = &model.item;
    let names = model.kind.names(&model.paths, matches!(model.key, Key::Fields(_)));
    let generics = key::generics(model);
    let spec = spec(model, &names, &generics);
    let marker = marker(model, &names, &generics);
    let carried = if model.kind.is_stream() { carried(model, &generics) } else { TokenStream::new() };
    let binding = binding(model, &names, &generics);
    let own_key = match &model.key {
        Key::Fields(fields) => key::own(model, &names, &generics, fields),
        Key::Unit | Key::Type(_) => TokenStream::new(),
    };
    quote!(#item #spec #marker #carried #binding #own_key)
}

fn spec(model: &Model, names: &Names, generics: &Generics) -> TokenStream {
    let (ident, cfgs, paths) = (&model.input.ident, &model.cfgs, &model.paths);
    let allow = &model.allow_deprecated;
    let (parameters, arguments, clause) = generics.split_for_impl();
    let (spec, declaration) = (&names.spec, paths.declaration());
    let key = key::ty(model);
    let codec = value_of(model.args.codec.as_ref()).map_or_else(|| paths.json(), ToTokens::to_token_stream);
    let name = value_of(model.args.name.as_ref());
    let version = value_of(model.args.version.as_ref()).map(LitInt::base10_digits);
    let version = version.map(|digits| LitInt::new(digits, Span::call_site()));
    let kind = format_ident!("{}", model.kind.noun);
    let needs = if model.kind.is_stream() { needs(model) } else { TokenStream::new() };
    quote! {
        #(#cfgs)*
        #[automatically_derived]
        #allow
        impl #parameters #spec for #ident #arguments #clause {
            type Key = #key;
            type Codec = #codec;
            const DECLARATION: #declaration = #declaration::#kind(#name, #version);
            #needs
        }
    }
}

/// What a stream's declaration requires, and where it is found, if it says so.
fn needs(model: &Model) -> TokenStream {
    let paths = &model.paths;
    let (capability, option, str) = (paths.capability(), paths.option(), paths.str());
    let found = model.required.iter().filter_map(|required| required.found);
    let found: Vec<_> = found.map(|found| format_ident!("{}", found.name)).collect();
    let requires =
        (!found.is_empty()).then(|| quote!(const REQUIRES: &'static [#capability] = &[#(#capability::#found),*];));
    let address = value_of(model.args.address.as_ref())
        .map(|address| quote!(const ADDRESS: #option<&'static #str> = #option::Some(#address);));
    quote!(#requires #address)
}

/// The marker that gives the methods of the prelude.
fn marker(model: &Model, names: &Names, generics: &Generics) -> TokenStream {
    let (ident, cfgs, allow) = (&model.input.ident, &model.cfgs, &model.allow_deprecated);
    let (parameters, arguments, clause) = generics.split_for_impl();
    let marker = &names.marker;
    quote! {
        #(#cfgs)*
        #[automatically_derived]
        #allow
        impl #parameters #marker for #ident #arguments #clause {}
    }
}

/// The impl for every backend that has what the stream requires.
///
/// Each bound stands at the word that asks for it, so that the compiler underlines the word of what is missing.
fn carried(model: &Model, generics: &Generics) -> TokenStream {
    let (ident, cfgs, paths) = (&model.input.ident, &model.cfgs, &model.paths);
    let allow = &model.allow_deprecated;
    let (_, arguments, clause) = generics.split_for_impl();
    let (log, broker, streamed_by) = (paths.log(), paths.broker(), paths.streamed_by());
    let (result, stream, error, bind) = (paths.result(), paths.stream(), paths.error(), paths.bind_stream());
    let required = model.required.iter().filter_map(|required| Some((&required.written, required.found?)));
    let bounds = required.map(|(written, found)| located_at(written, (found.path)(paths)));
    let mut carried = generics.clone();
    carried.params.push(parse_quote!(__B: #log #(+ #bounds)*));
    let (parameters, _, _) = carried.split_for_impl();
    quote! {
        #(#cfgs)*
        #[automatically_derived]
        #allow
        impl #parameters #streamed_by<#broker<__B>> for #ident #arguments #clause {
            fn bind(__broker: &#broker<__B>) -> #result<#stream<Self, __B>, #error> {
                #bind::<Self, __B>(__broker)
            }
        }
    }
}

/// The inherent function that binds the declaration to a broker.
fn binding(model: &Model, names: &Names, generics: &Generics) -> TokenStream {
    let (ident, vis, cfgs, paths) = (&model.input.ident, &model.input.vis, &model.cfgs, &model.paths);
    let allow = &model.allow_deprecated;
    let (parameters, arguments, clause) = generics.split_for_impl();
    let noun = model.kind.noun;
    let function = value_of(model.args.bind.as_ref()).cloned().unwrap_or_else(|| format_ident!("{noun}"));
    let (broker, result, error) = (paths.broker(), paths.result(), paths.error());
    let (handle, bind) = (&names.handle, &names.bind);
    let what = format!(
        " Binds the {noun} `{}` version {} to a broker.",
        value_of(model.args.name.as_ref()).map(LitStr::value).unwrap_or_default(),
        value_of(model.args.version.as_ref()).map(LitInt::base10_digits).unwrap_or_default(),
    );
    let (fails, bounds, bind) = if model.kind.is_stream() {
        let (backend, streamed_by) = (paths.backend(), paths.streamed_by());
        let bind = match model.key {
            Key::Fields(_) => quote!(#bind::<Self, __B>),
            Key::Unit | Key::Type(_) => quote!(<Self as #streamed_by<#broker<__B>>>::bind),
        };
        let fails = " When the broker is closed, refuses another declaration, has this one for another type or its \
                     address for another stream, or its backend was chosen at run time and lacks what is required.";
        (fails, quote!(__B: #backend, Self: #streamed_by<#broker<__B>>), bind)
    } else {
        let fails = " When the broker is closed, refuses another declaration, or has this one for another type.";
        let pub_sub = paths.pub_sub();
        (fails, quote!(__B: #pub_sub), quote!(#bind::<Self, __B>))
    };
    quote! {
        #(#cfgs)*
        #[allow(dead_code, single_use_lifetimes, unreachable_pub)]
        #allow
        impl #parameters #ident #arguments #clause {
            #[doc = #what]
            ///
            /// # Errors
            ///
            #[doc = #fails]
            #vis fn #function<__B>(__broker: &#broker<__B>) -> #result<#handle<Self, __B>, #error>
            where
                #bounds,
            {
                #bind(__broker)
            }
        }
    }
}
