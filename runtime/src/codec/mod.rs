//! Turns payloads into bytes and back.
//!
//! A declaration names its codec; [`Json`] is the default. A codec is a type without values: it implements [`Codec`] for
//! the content type that goes on the wire, [`Encode`] for what it can publish and [`Decode`] for what it can receive.

mod error;
mod json;

pub use error::{DecodeError, DecodeErrorKind, EncodeError, EncodeErrorKind};
pub use json::Json;

/// Names a payload format.
pub trait Codec {
    /// The media type of a payload as it stands on the wire.
    const CONTENT_TYPE: &'static str;
}

/// Encodes a `T` in a payload format.
///
/// Implementations keep three promises, so that a caller can reuse one buffer and trust what it holds:
///
/// - the payload is appended; what `to` held before stands untouched, and after an error nothing is left behind it;
/// - a payload of more than `limit` bytes is refused, before much more than `limit` bytes of memory are taken;
/// - what was encoded decodes to an equal value, or is refused here.
///
/// # Errors
///
/// See [`EncodeErrorKind`]. An error never quotes the payload.
#[diagnostic::on_unimplemented(
    message = "`{T}` can't be encoded as a payload by `{Self}`",
    label = "this payload can't be sent",
    note = "with the default codec, add `#[derive(serde::Serialize)]` to the payload type"
)]
pub trait Encode<T: ?Sized>: Codec {
    /// Appends `value`'s payload of at most `limit` bytes to `to`.
    fn encode(value: &T, to: &mut Vec<u8>, limit: usize) -> Result<(), EncodeError>;
}

/// Decodes a `T` from a payload format.
///
/// The whole of `bytes` is the payload. Hostile input is refused with an error; it never panics, overflows the stack or
/// takes memory out of proportion to its length.
///
/// # Errors
///
/// See [`DecodeErrorKind`]. An error never quotes the payload.
#[diagnostic::on_unimplemented(
    message = "`{T}` can't be decoded from a payload by `{Self}`",
    label = "this payload can't be received",
    note = "with the default codec, add `#[derive(serde::Deserialize)]` to the payload type",
    note = "a type that borrows (`&str`, or a lifetime of its own) can be sent, but not received; receive an owned type"
)]
pub trait Decode<T>: Codec {
    /// Reads one value that takes up all of `bytes`.
    fn decode(bytes: &[u8]) -> Result<T, DecodeError>;
}
