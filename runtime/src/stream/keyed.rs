use std::future::Future;
use std::ops::Deref;

use super::{Append, Durability, Receipt, Stream};
use crate::call::Call;
use crate::capability::{Backend, Log};
use crate::codec::Encode;
use crate::declaration::StreamKeyed;
use crate::error::Error;

/// A stream whose entries hold their own key: appending takes the entry alone.
///
/// Everything else is [`Stream`]'s, to which it dereferences. Its append methods hide `Stream`'s, so that an entry isn't
/// appended under another key than its own by accident.
pub struct KeyedStream<T: StreamKeyed, B: Backend> {
    stream: Stream<T, B>,
}

impl<T: StreamKeyed, B: Backend> KeyedStream<T, B> {
    pub(crate) fn new(stream: Stream<T, B>) -> Self {
        Self { stream }
    }
}

impl<T: StreamKeyed, B: Log> KeyedStream<T, B> {
    /// Returns a handle to the same stream whose appends are recorded so durably. See [`Stream::with_durability`].
    pub fn with_durability(&self, durability: Durability) -> Result<Self, Error> {
        self.stream.with_durability(durability).map(Self::new)
    }

    /// Appends one entry under its own key. See [`Stream::append`] for errors and cancel safety.
    pub fn append<'a>(&'a self, entry: &T) -> impl Future<Output = Result<Receipt, Error>> + Send + use<'a, T, B>
    where
        T::Codec: Encode<T>,
    {
        self.stream.send(self.stream.encode(|to| entry.write_stream_key(to), entry))
    }

    /// Appends one entry with an id or headers of the caller's own. See [`Stream::append_with`].
    pub fn append_with(&self, append: Append<(), &T>) -> Call<'_, Receipt>
    where
        T::Codec: Encode<T>,
    {
        let entry = append.entry();
        Call::new(self.stream.send(self.stream.encode_with(append, |(), to| entry.write_stream_key(to))))
    }

    /// Appends several entries in order, each under its own key. See [`Stream::append_all`].
    pub fn append_all<'a, 'e, I>(&'a self, entries: I) -> Call<'a, Vec<Result<Receipt, Error>>>
    where
        I: IntoIterator<Item: Into<Append<(), &'e T>>>,
        T: 'e,
        T::Codec: Encode<T>,
    {
        let encode = |append: Append<(), &'e T>| {
            let entry = append.entry();
            self.stream.encode_with(append, |(), to| entry.write_stream_key(to))
        };
        Call::new(self.stream.send_all(entries.into_iter().map(|append| encode(append.into())).collect()))
    }
}

impl<T: StreamKeyed, B: Backend> Deref for KeyedStream<T, B> {
    type Target = Stream<T, B>;

    fn deref(&self) -> &Stream<T, B> {
        &self.stream
    }
}

impl<T: StreamKeyed, B: Backend> Clone for KeyedStream<T, B> {
    fn clone(&self) -> Self {
        Self { stream: self.stream.clone() }
    }
}

impl<T: StreamKeyed, B: Backend> std::fmt::Debug for KeyedStream<T, B> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.stream.fmt(f)
    }
}
