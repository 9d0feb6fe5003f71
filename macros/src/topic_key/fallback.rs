//! What is emitted beside errors: an impl that keeps uses of the key from turning red as well.

use proc_macro2::TokenStream;
use quote::quote;

use crate::topic_key::emit::{self, Body};
use crate::topic_key::model::Model;

pub(crate) fn emit(model: &Model, errors: TokenStream) -> TokenStream {
    let unreachable = model.paths.unreachable();
    let body = Body { parts: quote!(()), write: TokenStream::new(), read: quote!(#unreachable!()) };
    let mut tokens = emit::implementation(model, &model.input.generics, &body);
    tokens.extend(errors);
    tokens
}
