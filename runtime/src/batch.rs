//! What topics and streams share of sending one message or several.

use std::cell::RefCell;
use std::future::Future;

use bytes::Bytes;

use crate::capability::BackendError;
use crate::codec::{EncodeError, EncodeErrorKind};
use crate::error::{Error, ErrorKind, Outcome};

/// Sends those that could be made, as one batch, and puts each answer in its place.
pub(crate) async fn answered<M, R, F>(
    made: Vec<Result<M, Error>>,
    send: impl FnOnce(Vec<M>) -> F,
    failed: impl Fn(BackendError) -> Error,
) -> Vec<Result<R, Error>>
where
    F: Future<Output = Vec<Result<R, BackendError>>>,
{
    let mut outgoing = Vec::with_capacity(made.len());
    // Where a message could be made its place is taken by the backend's answer.
    let mut outcomes: Vec<_> = made
        .into_iter()
        .map(|message| match message {
            Ok(message) => {
                outgoing.push(message);
                None
            }
            Err(error) => Some(Err(error)),
        })
        .collect();
    if !outgoing.is_empty() {
        let mut answers = send(outgoing).await.into_iter();
        for outcome in outcomes.iter_mut().filter(|outcome| outcome.is_none()) {
            let unanswered = || Err(BackendError::new(ErrorKind::Unavailable, Outcome::Unknown));
            *outcome = Some(answers.next().unwrap_or_else(unanswered).map_err(&failed));
        }
    }
    outcomes.into_iter().flatten().collect()
}

/// Encodes into a buffer that the thread reuses, and copies out what it holds: one allocation of the right size.
pub(crate) fn encoded<E>(encode: impl FnOnce(&mut Vec<u8>) -> Result<(), E>) -> Result<Bytes, E> {
    /// Above this a copy costs more than an allocation, and the thread shouldn't keep so much.
    const KEPT_BYTES: usize = 16 << 10;
    thread_local! {
        static BUFFER: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
    }
    BUFFER.with(|buffer| {
        // A payload's own `Serialize` may publish; the inner publish then takes a buffer of its own.
        let mut own = Vec::new();
        let mut borrowed = buffer.try_borrow_mut();
        let buffer = borrowed.as_deref_mut().unwrap_or(&mut own);
        buffer.clear();
        encode(buffer)?;
        if buffer.capacity() > KEPT_BYTES {
            return Ok(Bytes::from(std::mem::take(buffer)));
        }
        Ok(Bytes::copy_from_slice(buffer))
    })
}

/// Says why a payload couldn't be encoded, where the limit has this name.
pub(crate) fn unencoded(wrong: &EncodeError, limit_name: &str) -> (ErrorKind, String) {
    match wrong.kind() {
        EncodeErrorKind::TooLarge { limit } => {
            let detail = format!("`{limit_name}` is {limit}; raise it, or send a reference to the data");
            (ErrorKind::TooLarge, detail)
        }
        _ => (ErrorKind::Encode, wrong.to_string()),
    }
}
