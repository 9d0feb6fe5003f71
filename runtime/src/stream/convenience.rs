use super::{Receipt, Stream};
use crate::broker::Broker;
use crate::call::Call;
use crate::capability::Log;
use crate::codec::Encode;
use crate::declaration::{StreamKeyed, StreamSpec, StreamedBy};

/// `entry.append(&broker, &key)`, for streams whose key is given. Brought by [`prelude`](crate::prelude).
///
/// It binds the stream and does what the handle does; a service that appends often keeps the handle.
pub trait AppendEntry: StreamSpec + Sized {
    /// Binds the stream and appends this entry under the key. See [`Stream::append`].
    fn append<'a, B: Log>(&self, broker: &Broker<B>, key: &Self::Key) -> Call<'a, Receipt>
    where
        Self: StreamedBy<Broker<B>> + 'a,
        Self::Codec: Encode<Self>,
    {
        let bound = Self::bind(broker);
        let bound =
            bound.map(|stream: Stream<Self, B>| (stream.encode(|to| crate::TopicKey::write(key, to), self), stream));
        Call::new(async move {
            let (record, stream) = bound?;
            stream.send(record).await
        })
    }
}

/// `entry.append(&broker)`, for streams whose entries hold their key. Brought by [`prelude`](crate::prelude).
pub trait AppendKeyed: StreamKeyed + Sized {
    /// Binds the stream and appends this entry under its own key. See [`Stream::append`].
    fn append<'a, B: Log>(&self, broker: &Broker<B>) -> Call<'a, Receipt>
    where
        Self: StreamedBy<Broker<B>> + 'a,
        Self::Codec: Encode<Self>,
    {
        let bound = Self::bind(broker);
        let bound = bound.map(|stream: Stream<Self, B>| (stream.encode(|to| self.write_stream_key(to), self), stream));
        Call::new(async move {
            let (record, stream) = bound?;
            stream.send(record).await
        })
    }
}
