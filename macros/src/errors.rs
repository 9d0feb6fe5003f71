//! Collects every mistake of one expansion, so that they are all reported in one compile.

use std::cell::RefCell;
use std::fmt::Display;

use proc_macro2::{Span, TokenStream};
use quote::ToTokens;

/// The mistakes found so far. Dropping it unread is a bug of the macro and panics.
pub(crate) struct Errors {
    found: RefCell<Option<Vec<syn::Error>>>,
}

impl Errors {
    pub(crate) fn new() -> Self {
        Self { found: RefCell::new(Some(Vec::new())) }
    }

    /// Reports a mistake under the given tokens; they should be tokens that the user wrote.
    pub(crate) fn at(&self, tokens: impl ToTokens, message: impl Display) {
        self.add(syn::Error::new_spanned(tokens, message));
    }

    /// Reports that a comma is missing.
    pub(crate) fn comma_before(&self, token: impl ToTokens + Display) {
        let message = format!("expected `,` before `{token}`; put a comma between the words");
        self.at(token, message);
    }

    /// Reports a mistake that has no token of its own, such as a missing word.
    pub(crate) fn at_span(&self, span: Span, message: impl Display) {
        self.add(syn::Error::new(span, message));
    }

    pub(crate) fn add(&self, error: syn::Error) {
        if let Some(found) = self.found.borrow_mut().as_mut() {
            found.push(error);
        }
    }

    /// Reads the mistakes: nothing, or the tokens that report all of them.
    pub(crate) fn finish(self) -> Result<(), TokenStream> {
        let found = self.found.borrow_mut().take().unwrap_or_default();
        if found.is_empty() {
            return Ok(());
        }
        Err(found.iter().map(syn::Error::to_compile_error).collect())
    }
}

impl Drop for Errors {
    fn drop(&mut self) {
        let read = self.found.borrow().is_none();
        assert!(read || std::thread::panicking(), "the macro dropped its errors unread");
    }
}
