//! One connection: connected, logged in, and read as values.

use std::net::SocketAddr;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use redis::{Value, ValueCodec};
use rustls::pki_types::ServerName;
use tokio::net::{TcpStream, UnixStream, lookup_host};
use tokio::time::timeout;
use tokio_util::codec::Decoder;

use super::super::authority::HostPort;
use super::super::socket::Socket;
use super::fault::Fault;
use super::pipeline::Answer;
use super::resp::Scan;
use super::settings::Settings;
use super::url::Endpoint;

/// A connection on which the server speaks RESP3.
///
/// It starts no task, no timer once it is connected, and is closed when it is dropped.
pub(super) struct Link {
    socket: Socket,
    unread: BytesMut,
    /// For what is read as the client crate's values. A connection is read either so or as replies.
    codec: ValueCodec,
    scan: Scan,
    /// What the server said when it was greeted.
    hello: Option<Value>,
}

impl Link {
    /// Connects and logs in. The caller gives up after the limit; a TLS handshake is given up before, to be named.
    pub(super) async fn connect(settings: &Settings, endpoint: &Endpoint, limit: Duration) -> Result<Self, Fault> {
        let handshake_limit = limit / 4 * 3;
        let unconnected = |error| Fault::connect(&error, endpoint);
        let socket = match endpoint {
            Endpoint::Unix(path) => Socket::plain(UnixStream::connect(path).await.map_err(unconnected)?),
            Endpoint::Tcp(HostPort { host, port }) => {
                let addresses: Vec<SocketAddr> =
                    lookup_host((host.as_str(), *port)).await.map_err(|_| Fault::unresolved())?.collect();
                if addresses.is_empty() {
                    return Err(Fault::unresolved());
                }
                let stream = TcpStream::connect(&*addresses).await.map_err(unconnected)?;
                // Every write here is a whole batch, which has nothing to wait for.
                stream.set_nodelay(true).map_err(|error| Fault::io(&error))?;
                if settings.address.tls {
                    let connector = settings.connector().map_err(Fault::unreachable)?;
                    let name = ServerName::try_from(host.clone())
                        .map_err(|_| Fault::unreachable("the host isn't a name that a certificate can have"))?;
                    let shaken = timeout(handshake_limit, connector.connect(name, stream)).await;
                    let shaken = shaken.map_err(|_| Fault::handshake_timeout())?;
                    Socket::secured(shaken.map_err(|error| Fault::handshake(&error))?)
                } else {
                    Socket::plain(stream)
                }
            }
        };
        let mut link = Self::over(socket);
        link.log_in(settings).await?;
        Ok(link)
    }

    fn over(socket: Socket) -> Self {
        let unread = BytesMut::with_capacity(Socket::READ);
        Self { socket, unread, codec: ValueCodec::default(), scan: Scan::default(), hello: None }
    }

    /// One whose other end takes so many bytes before it has to be read.
    #[cfg(test)]
    pub(super) fn taking(bytes: usize) -> (Self, tokio::io::DuplexStream) {
        let (near, far) = tokio::io::duplex(bytes);
        (Self::over(Socket::plain(near)), far)
    }

    async fn log_in(&mut self, settings: &Settings) -> Result<(), Fault> {
        let address = &settings.address;
        let user = address.user.as_deref().unwrap_or("default");
        self.hello = Some(match &address.password {
            Some(password) => self.ask(&["HELLO", "3", "AUTH", user, password]).await?,
            None => self.ask(&["HELLO", "3"]).await?,
        });
        if address.database > 0 {
            self.ask(&["SELECT", &address.database.to_string()]).await?;
        }
        Ok(())
    }

    /// Sends one command and returns its reply, where nothing else is under way.
    pub(super) async fn ask(&mut self, words: &[&str]) -> Result<Value, Fault> {
        let mut command = Vec::new();
        pack(&mut command, words.iter().map(|word| word.as_bytes()));
        let subcommand = matches!(words, ["ACL" | "CLUSTER" | "CONFIG", _, ..]);
        self.send(&command, &words[..if subcommand { 2 } else { 1 }].join(" ")).await
    }

    /// Sends one command that was packed already, and returns its reply.
    pub(super) async fn send(&mut self, command: &[u8], word: &str) -> Result<Value, Fault> {
        self.socket.write(command).await.map_err(|error| Fault::io(&error))?;
        loop {
            match std::future::poll_fn(|cx| self.poll_value(cx)).await? {
                Value::ServerError(error) => return Err(Fault::refusal(&error, word)),
                // A server may push what nobody asked for.
                Value::Push { .. } => {}
                value => return Ok(value),
            }
        }
    }

    /// The number by which the server knows this connection.
    pub(super) fn client_id(&self) -> Option<i64> {
        let Some(Value::Map(pairs)) = &self.hello else { return None };
        pairs.iter().find_map(|(name, value)| match (name, value) {
            (Value::BulkString(name), Value::Int(id)) if name == b"id" => Some(*id),
            _ => None,
        })
    }

    /// Reads more, and fails at the end of the stream.
    pub(super) fn poll_fill(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Fault>> {
        self.socket.poll_fill(cx, &mut self.unread).map_err(|error| Fault::io(&error))
    }

    /// Takes the next value from what was read.
    pub(super) fn value(&mut self) -> Result<Option<Value>, Fault> {
        if self.unread.is_empty() {
            return Ok(None);
        }
        self.codec.decode(&mut self.unread).map_err(|_| Fault::malformed())
    }

    /// Takes the next reply, to the command of this word.
    pub(super) fn reply<R: Answer>(
        &mut self,
        word: impl Fn() -> &'static str,
    ) -> Result<Option<Result<R, Fault>>, Fault> {
        loop {
            let Some(length) = self.next_frame()? else { return Ok(None) };
            match self.unread[0] {
                b'-' | b'!' => {
                    let frame = self.unread.split_to(length);
                    return Ok(Some(Err(Fault::refused(&frame, word()))));
                }
                // A server may push what nobody asked for.
                b'>' => drop(self.unread.split_to(length)),
                _ => return R::take(&mut self.unread, length).map(Ok).map(Some),
            }
        }
    }

    /// Whether there is a reply, where none is expected.
    pub(super) fn has_reply(&mut self) -> Result<bool, Fault> {
        while let Some(length) = self.next_frame()? {
            if self.unread[0] != b'>' {
                return Ok(true);
            }
            drop(self.unread.split_to(length));
        }
        Ok(false)
    }

    fn next_frame(&mut self) -> Result<Option<usize>, Fault> {
        if self.unread.is_empty() { Ok(None) } else { self.scan.frame(&self.unread) }
    }

    fn poll_value(&mut self, cx: &mut Context<'_>) -> Poll<Result<Value, Fault>> {
        loop {
            if let Some(value) = self.value()? {
                return Poll::Ready(Ok(value));
            }
            ready!(self.poll_fill(cx))?;
        }
    }

    /// Says that nothing more is sent.
    pub(super) fn poll_shutdown(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Fault>> {
        self.socket.poll_shutdown(cx).map_err(|error| Fault::io(&error))
    }

    /// Writes what it can, from `*from` on, and hands all to the system.
    pub(super) fn poll_write(
        &mut self,
        cx: &mut Context<'_>,
        bytes: &[u8],
        from: &mut usize,
    ) -> Poll<Result<(), Fault>> {
        self.socket.poll_write(cx, bytes, from).map_err(|error| Fault::io(&error))
    }
}

/// A reply as it came, to be read by whoever waits for it.
impl Answer for Bytes {
    fn take(unread: &mut BytesMut, length: usize) -> Result<Self, Fault> {
        Ok(unread.split_to(length).freeze())
    }
}

/// Appends a command.
pub(super) fn pack<'a>(out: &mut Vec<u8>, words: impl ExactSizeIterator<Item = &'a [u8]>) {
    header(out, b'*', words.len());
    for word in words {
        header(out, b'$', word.len());
        out.extend_from_slice(word);
        out.extend_from_slice(b"\r\n");
    }
}

pub(super) fn header(out: &mut Vec<u8>, kind: u8, mut number: usize) {
    let mut digits = [0; 20];
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + u8::try_from(number % 10).unwrap_or_default();
        number /= 10;
        if number == 0 {
            break;
        }
    }
    out.push(kind);
    out.extend_from_slice(&digits[at..]);
    out.extend_from_slice(b"\r\n");
}
