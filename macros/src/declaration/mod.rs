//! `#[topic(..)]` and `#[stream_spec(..)]`

mod address;
mod args;
mod check;
mod emit;
mod fallback;
mod key;
mod kind;
mod model;

use proc_macro2::TokenStream;

use crate::errors::Errors;
use crate::item;

use self::args::Args;
pub(crate) use self::kind::Kind;
use self::model::Model;

pub(crate) fn expand(kind: &'static Kind, args: TokenStream, item: TokenStream) -> TokenStream {
    let errors = Errors::new();
    let args = Args::parse(kind, args, &errors);
    let Ok(read) = item::read(&item) else {
        item::report_other(kind.attribute, &item, &errors);
        return fallback::item_alone(item, errors.finish());
    };
    let model = Model::new(kind, args, read, item);
    check::check(&model, &errors);
    match errors.finish() {
        Ok(()) => emit::emit(&model),
        Err(errors) => fallback::emit(model, errors),
    }
}
