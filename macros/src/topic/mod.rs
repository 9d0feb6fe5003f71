//! `#[topic(..)]`

mod args;
mod check;
mod emit;
mod fallback;
mod model;

use proc_macro2::TokenStream;

use crate::errors::Errors;
use crate::item;
use crate::words;

use self::args::Args;
use self::model::Model;

pub(crate) fn expand(args: TokenStream, item: TokenStream) -> TokenStream {
    let errors = Errors::new();
    let args = Args::parse(args, &errors);
    let Ok(read) = item::read(&item) else {
        item::report_other(words::TOPIC, &item, &errors);
        return fallback::item_alone(item, errors.finish());
    };
    let model = Model::new(args, read, item);
    check::check(&model, &errors);
    match errors.finish() {
        Ok(()) => emit::emit(&model),
        Err(errors) => fallback::emit(model, errors),
    }
}
