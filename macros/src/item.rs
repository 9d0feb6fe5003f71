//! What the macros ask about an annotated item.

use proc_macro2::{Group, Ident, Spacing, Span, TokenStream, TokenTree};
use quote::{ToTokens, quote};
use syn::parse::{ParseStream, Parser};
use syn::punctuated::Punctuated;
use syn::token::{Brace, Paren};
use syn::{Attribute, Data, DataEnum, DataStruct, DeriveInput, Field, Fields, Generics, Item, Meta, Token};

use crate::errors::Errors;

/// Reports that an attribute stands on something other than a struct or enum, or that the item can't be read.
pub(crate) fn report_other(attribute: &str, item: &TokenStream, errors: &Errors) {
    let (kind, at) = match syn::parse2::<Item>(item.clone()) {
        Ok(Item::Const(item)) => ("a constant", item.const_token.to_token_stream()),
        Ok(Item::Fn(item)) => ("a function", item.sig.fn_token.to_token_stream()),
        Ok(Item::Impl(item)) => ("an impl block", item.impl_token.to_token_stream()),
        Ok(Item::Macro(item)) => ("a macro call", item.mac.path.to_token_stream()),
        Ok(Item::Mod(item)) => ("a module", item.mod_token.to_token_stream()),
        Ok(Item::Static(item)) => ("a static", item.static_token.to_token_stream()),
        Ok(Item::Trait(item)) => ("a trait", item.trait_token.to_token_stream()),
        Ok(Item::Type(item)) => ("a type alias", item.type_token.to_token_stream()),
        Ok(Item::Use(item)) => ("an import", item.use_token.to_token_stream()),
        Ok(other) => ("such an item", other.to_token_stream()),
        Err(error) => {
            errors.add(error);
            return;
        }
    };
    errors.at(at, format!("`#[{attribute}]` can't stand on {kind}; put it on the struct or enum of the payload"));
}

/// The item, and the error of the syntax parser where its body can't be read.
pub(crate) struct Read {
    pub(crate) input: DeriveInput,
    pub(crate) unread: Option<syn::Error>,
}

/// Reads a struct, enum or union.
///
/// Of a body that can't be read the head is enough for most: the compiler has reported it already, or its syntax is
/// newer than the parser's.
pub(crate) fn read(item: &TokenStream) -> syn::Result<Read> {
    let error = match syn::parse2(item.clone()) {
        Ok(input) => return Ok(Read { input, unread: None }),
        Err(error) => error,
    };
    match head.parse2(item.clone()) {
        Ok(input) => Ok(Read { input, unread: Some(error) }),
        Err(_) => Err(error),
    }
}

fn head(input: ParseStream<'_>) -> syn::Result<DeriveInput> {
    let attrs = input.call(Attribute::parse_outer)?;
    let vis = input.parse()?;
    let data = if input.peek(Token![enum]) {
        let enum_token = input.parse()?;
        Data::Enum(DataEnum { enum_token, brace_token: Brace::default(), variants: Punctuated::new() })
    } else {
        let struct_token = input.parse()?;
        Data::Struct(DataStruct { struct_token, fields: Fields::Unit, semi_token: None })
    };
    let ident = input.parse()?;
    let mut generics: Generics = input.parse()?;
    if input.peek(Paren) {
        input.parse::<Group>()?;
    }
    generics.where_clause = input.parse()?;
    input.parse::<TokenStream>()?;
    Ok(DeriveInput { attrs, vis, ident, generics, data })
}

/// What keeps generated code from being reported for naming a deprecated item.
pub(crate) fn allow_deprecated(input: &DeriveInput) -> Option<TokenStream> {
    let fields: Vec<&Field> = match &input.data {
        Data::Struct(data) => data.fields.iter().collect(),
        Data::Enum(_) | Data::Union(_) => Vec::new(),
    };
    let variants = match &input.data {
        Data::Enum(data) => data.variants.iter().map(|variant| &variant.attrs).collect(),
        Data::Struct(_) | Data::Union(_) => Vec::new(),
    };
    let attributes = fields.iter().map(|field| &field.attrs).chain(variants).chain([&input.attrs]);
    let is_deprecated = attributes.flatten().any(|attribute| attribute.path().is_ident("deprecated"));
    is_deprecated.then(|| quote!(#[allow(deprecated)]))
}

/// The attributes that decide whether the thing exists, to be copied to what is generated beside it.
pub(crate) fn cfgs(attributes: &[Attribute]) -> Vec<TokenStream> {
    attributes.iter().filter_map(cfg).collect()
}

fn cfg(attribute: &Attribute) -> Option<TokenStream> {
    if attribute.path().is_ident("cfg") {
        return Some(attribute.to_token_stream());
    }
    if !attribute.path().is_ident("cfg_attr") {
        return None;
    }
    let nested = attribute.parse_args_with(Punctuated::<Meta, Token![,]>::parse_terminated).ok()?;
    let mut nested = nested.iter();
    let condition = nested.next()?;
    let cfgs: Vec<_> = nested.filter(|meta| meta.path().is_ident("cfg")).collect();
    (!cfgs.is_empty()).then(|| quote!(#[cfg_attr(#condition, #(#cfgs),*)]))
}

/// The span of generated code that resolves names as the macro does and shows errors at the user's tokens.
pub(crate) fn span_at(tokens: impl ToTokens) -> Span {
    let first = tokens.to_token_stream().into_iter().next();
    let at = first.map_or_else(Span::call_site, |token| token.span());
    Span::call_site().located_at(at)
}

/// A path that stands at a word that the user wrote, and resolves as it did.
///
/// The names between its ends stay where they are, so that a crate that isn't found is reported at its own name.
pub(crate) fn located_at(word: &Ident, path: TokenStream) -> TokenStream {
    let mut tokens: Vec<TokenTree> = path.into_iter().collect();
    let last = tokens.len().saturating_sub(1);
    for (index, token) in tokens.iter_mut().enumerate() {
        if index == 0 || index == last || matches!(token, TokenTree::Punct(_)) {
            token.set_span(token.span().located_at(word.span()));
        }
    }
    tokens.into_iter().collect()
}

/// Whether the tokens name `Self`, which is another type in what is generated beside the item.
pub(crate) fn mentions_self(tokens: impl ToTokens) -> bool {
    mentions(tokens, &[&Ident::new("Self", Span::call_site())])
}

/// Whether the tokens name one of the identifiers, other than as a later part of a path.
pub(crate) fn mentions(tokens: impl ToTokens, names: &[&Ident]) -> bool {
    any_token(
        tokens.to_token_stream(),
        &mut |token, after_path| matches!(token, TokenTree::Ident(ident) if !after_path && names.contains(&ident)),
    )
}

/// What makes a type a borrowed one: a reference, or a lifetime other than `'static`.
pub(crate) fn borrows(tokens: impl ToTokens) -> bool {
    let mut after_quote = false;
    any_token(tokens.to_token_stream(), &mut |token, _| match token {
        TokenTree::Punct(punct) => {
            after_quote = punct.as_char() == '\'';
            punct.as_char() == '&'
        }
        TokenTree::Ident(ident) => std::mem::take(&mut after_quote) && ident != "static",
        _ => false,
    })
}

/// Whether the tokens name one of the lifetimes (given without their quote).
pub(crate) fn mentions_lifetime(tokens: impl ToTokens, names: &[&Ident]) -> bool {
    let mut after_quote = false;
    any_token(tokens.to_token_stream(), &mut |token, _| match token {
        TokenTree::Punct(punct) => {
            after_quote = punct.as_char() == '\'';
            false
        }
        TokenTree::Ident(ident) => std::mem::take(&mut after_quote) && names.contains(&ident),
        _ => false,
    })
}

/// Looks at every token at any depth; the flag says that `::` and a name stand before it.
fn any_token(tokens: TokenStream, found: &mut dyn FnMut(&TokenTree, bool) -> bool) -> bool {
    let mut colons = 0_u8;
    for token in tokens {
        if found(&token, colons == 2) {
            return true;
        }
        colons = match &token {
            TokenTree::Punct(punct) if punct.as_char() == ':' && (colons == 1 || punct.spacing() == Spacing::Joint) => {
                (colons + 1).min(2)
            }
            _ => 0,
        };
        if let TokenTree::Group(group) = token
            && any_token(Group::stream(&group), found)
        {
            return true;
        }
    }
    false
}
