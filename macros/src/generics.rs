//! Generics of what is generated beside an item.

use std::collections::HashSet;

use proc_macro2::{Ident, TokenStream};
use quote::ToTokens;
use syn::punctuated::Punctuated;
use syn::{GenericParam, Generics, Token, Type, TypeParamBound, WherePredicate};

use crate::item::{mentions, mentions_lifetime, mentions_self};

/// The names of the type and const parameters.
pub(crate) fn parameters(generics: &Generics) -> Vec<&Ident> {
    generics.params.iter().filter_map(name).collect()
}

fn name(parameter: &GenericParam) -> Option<&Ident> {
    match parameter {
        GenericParam::Type(parameter) => Some(&parameter.ident),
        GenericParam::Const(parameter) => Some(&parameter.ident),
        GenericParam::Lifetime(_) => None,
    }
}

/// The parameters that the types mention, with the bounds and predicates that mention no other.
pub(crate) fn narrowed(generics: &Generics, types: &[&Type]) -> Generics {
    let stays =
        |parameter: &GenericParam| name(parameter).is_some_and(|name| types.iter().any(|ty| mentions(ty, &[name])));
    let kept: Vec<&Ident> = generics.params.iter().filter(|p| stays(p)).filter_map(name).collect();
    let gone: Vec<&Ident> = generics.params.iter().filter(|p| !stays(p)).filter_map(name).collect();
    let lifetimes: Vec<&Ident> = generics.lifetimes().map(|parameter| &parameter.lifetime.ident).collect();
    let foreign = |tokens: TokenStream| mentions(tokens.clone(), &gone) || mentions_lifetime(tokens, &lifetimes);

    let mut narrowed = generics.clone();
    narrowed.params = generics.params.iter().filter(|p| stays(p)).cloned().collect();
    for parameter in narrowed.type_params_mut() {
        parameter.bounds = std::mem::take(&mut parameter.bounds)
            .into_iter()
            .filter(|bound| !foreign(bound.to_token_stream()))
            .collect::<Punctuated<TypeParamBound, Token![+]>>();
        parameter.default.take_if(|(_, default)| foreign(default.to_token_stream()));
    }
    if let Some(clause) = &mut narrowed.where_clause {
        clause.predicates = std::mem::take(&mut clause.predicates)
            .into_iter()
            .filter(|predicate| {
                let tokens = predicate.to_token_stream();
                mentions(&tokens, &kept) && !mentions_self(&tokens) && !foreign(tokens)
            })
            .collect();
    }
    narrowed
}

/// The generics with a predicate more for each field type that depends on a parameter.
pub(crate) fn bounded<'a>(
    generics: &Generics,
    types: impl IntoIterator<Item = &'a Type>,
    predicate: impl Fn(&Type) -> WherePredicate,
) -> Generics {
    let names = parameters(generics);
    let mut bounded = generics.clone();
    let mut seen = HashSet::new();
    for ty in types {
        if mentions(ty, &names) && seen.insert(ty.to_token_stream().to_string()) {
            bounded.make_where_clause().predicates.push(predicate(ty));
        }
    }
    bounded
}
