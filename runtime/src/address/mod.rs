//! Names, keys and the addresses made of them: what goes over the wire to select a channel.

pub mod key;

mod name;
mod namespace;
#[cfg(any(feature = "time", feature = "uuid"))]
mod segments;

pub use name::NameError;
pub use namespace::Namespace;

pub(crate) use name::{check_connection_name, check_declaration, is_word};
