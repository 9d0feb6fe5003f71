//! A connection's bytes, in plain or over TLS.

use std::io;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};

use bytes::BytesMut;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// What a record of TLS holds at most. The server reads all of one or nothing.
const TLS_RECORD: usize = 16 << 10;

pub(super) trait Duplex: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Duplex for T {}

/// A connection that the system or the server may end; each says so with `UnexpectedEof`.
pub(super) struct Socket {
    stream: Box<dyn Duplex>,
    unflushed: bool,
    tls: bool,
}

impl Socket {
    /// Room for reading: as much is asked of the system at once.
    pub(super) const READ: usize = 64 << 10;

    pub(super) fn plain(stream: impl Duplex + 'static) -> Self {
        Self { stream: Box::new(stream), unflushed: false, tls: false }
    }

    pub(super) fn secured(stream: impl Duplex + 'static) -> Self {
        Self { tls: true, ..Self::plain(stream) }
    }

    /// For what is to be laid over it.
    #[cfg(feature = "nats")]
    pub(super) fn into_stream(self) -> Box<dyn Duplex> {
        self.stream
    }

    /// Writes all, where nothing else is under way.
    pub(super) async fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes).await?;
        self.stream.flush().await
    }

    /// Reads more.
    pub(super) fn poll_fill(&mut self, cx: &mut Context<'_>, unread: &mut BytesMut) -> Poll<io::Result<()>> {
        unread.reserve(Self::READ / 4);
        let read = ready!(pin!(self.stream.read_buf(unread)).poll(cx))?;
        Poll::Ready(if read == 0 { Err(io::ErrorKind::UnexpectedEof.into()) } else { Ok(()) })
    }

    /// Writes the bytes from `*from` on, moving it, and is ready when all are with the system. While it stands at 0,
    /// nothing was sent that the server could read.
    pub(super) fn poll_write(&mut self, cx: &mut Context<'_>, bytes: &[u8], from: &mut usize) -> Poll<io::Result<()>> {
        while *from < bytes.len() {
            // Over TLS a write that fails may have sent some of what it was given, so the first is one record.
            let end = if self.tls && *from == 0 { bytes.len().min(TLS_RECORD) } else { bytes.len() };
            match ready!(Pin::new(&mut *self.stream).poll_write(cx, &bytes[*from..end]))? {
                0 => return Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into())),
                written => *from += written,
            }
            self.unflushed = true;
        }
        if self.unflushed {
            ready!(Pin::new(&mut *self.stream).poll_flush(cx))?;
            self.unflushed = false;
        }
        Poll::Ready(Ok(()))
    }

    /// Says that nothing more is sent.
    #[cfg(feature = "redis")]
    pub(super) fn poll_shutdown(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    /// Takes all that it is given, and keeps how much that was each time.
    #[derive(Default)]
    struct Taker(Arc<Mutex<Vec<usize>>>);

    impl AsyncRead for Taker {
        fn poll_read(
            self: Pin<&mut Self>,
            _: &mut Context<'_>,
            _: &mut tokio::io::ReadBuf<'_>,
        ) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }
    }

    impl AsyncWrite for Taker {
        fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
            self.0.lock().unwrap().push(bytes.len());
            Poll::Ready(Ok(bytes.len()))
        }

        fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }

        fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }
    }

    fn written(socket: impl Fn(Taker) -> Socket, bytes: usize, mut from: usize) -> Vec<usize> {
        let sizes = Arc::default();
        let mut socket = socket(Taker(Arc::clone(&sizes)));
        let ready = socket.poll_write(&mut Context::from_waker(std::task::Waker::noop()), &vec![0; bytes], &mut from);
        assert!(matches!(ready, Poll::Ready(Ok(()))) && from == bytes);
        sizes.lock().unwrap().clone()
    }

    #[test]
    fn over_tls_the_first_write_of_a_batch_is_one_record() {
        assert_eq!(written(Socket::secured, 100_000, 0), [16_384, 83_616]);
        assert_eq!(written(Socket::secured, 16_384, 0), [16_384]);
        assert_eq!(written(Socket::secured, 100_000, 7), [99_993]);
        assert_eq!(written(Socket::plain, 100_000, 0), [100_000]);
    }

    #[test]
    fn what_has_ended_is_said_to_have() {
        let filled = Socket::plain(Taker::default())
            .poll_fill(&mut Context::from_waker(std::task::Waker::noop()), &mut BytesMut::new());
        let Poll::Ready(Err(error)) = filled else { panic!("{filled:?}") };
        assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
    }
}
