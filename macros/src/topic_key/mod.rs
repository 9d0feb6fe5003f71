//! `#[derive(TopicKey)]`

mod args;
mod check;
mod emit;
mod fallback;
mod model;

use proc_macro2::TokenStream;

use crate::errors::Errors;

use self::model::Model;

pub(crate) fn expand(item: TokenStream) -> TokenStream {
    let errors = Errors::new();
    let input = match syn::parse2(item) {
        Ok(input) => input,
        Err(error) => {
            errors.add(error);
            return errors.finish().err().unwrap_or_default();
        }
    };
    let model = Model::new(input, &errors);
    check::check(&model, &errors);
    match errors.finish() {
        Ok(()) => emit::emit(&model),
        Err(errors) => fallback::emit(&model, errors),
    }
}
