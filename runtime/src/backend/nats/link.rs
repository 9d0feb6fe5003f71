//! One connection: connected, greeted, and read as operations.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use async_nats::ServerInfo;
use bytes::BytesMut;
use rustls::pki_types::ServerName;
use tokio::net::{TcpStream, lookup_host};
use tokio::time::timeout;

use super::super::authority::HostPort;
use super::super::socket::Socket;
use super::fault::{Complaint, Fault};
use super::settings::Settings;
use super::wire::{self, Op, PING, Reader};
use crate::error::{ErrorKind, Outcome};

/// The servers of a URL, of which one is connected to.
#[derive(Debug, Default)]
pub(super) struct Servers {
    /// Which is tried first: the last one that worked.
    first: AtomicUsize,
}

/// A connection that the server has taken.
///
/// It starts no task, no timer once it is connected, and is closed when it is dropped.
pub(super) struct Link {
    socket: Socket,
    unread: BytesMut,
    reader: Reader,
    /// What the server said when it was greeted.
    pub(super) info: ServerInfo,
}

impl Servers {
    /// Begins anywhere, so that not all clients are on the first server.
    pub(super) fn new(random: u64) -> Self {
        Self { first: AtomicUsize::new(usize::try_from(random >> 33).unwrap_or_default()) }
    }

    /// Connects to the first server that can be reached. One that doesn't answer leaves time for the others.
    pub(super) async fn connect(&self, settings: &Settings, name: &str, limit: Duration) -> Result<Link, Fault> {
        let endpoints = &settings.address.endpoints;
        let first = self.first.load(Ordering::Relaxed);
        let share = limit / u32::try_from(endpoints.len()).unwrap_or(1).max(1);
        let mut failed = Fault::unresolved();
        for step in 0..endpoints.len() {
            let place = first.wrapping_add(step) % endpoints.len();
            let connecting = Link::connect(settings, &endpoints[place], name, share);
            let connected =
                timeout(share, connecting).await.unwrap_or_else(|_| Err(Fault::timeout(Outcome::NotApplied)));
            match connected {
                Ok(link) => {
                    self.first.store(place, Ordering::Relaxed);
                    return Ok(link);
                }
                // The others would refuse it as well, and some servers count such attempts.
                Err(fault) if fault.kind == ErrorKind::Forbidden => return Err(fault),
                Err(fault) => failed = fault,
            }
        }
        Err(failed)
    }
}

impl Link {
    /// Connects and greets the server. A TLS handshake is given up before the limit, to be named.
    async fn connect(settings: &Settings, endpoint: &HostPort, name: &str, limit: Duration) -> Result<Self, Fault> {
        let addresses: Vec<SocketAddr> =
            lookup_host((endpoint.host.as_str(), endpoint.port)).await.map_err(|_| Fault::unresolved())?.collect();
        if addresses.is_empty() {
            return Err(Fault::unresolved());
        }
        let stream = TcpStream::connect(&*addresses).await.map_err(|error| Fault::connect(&error, endpoint))?;
        // Every write here is a whole batch, which has nothing to wait for.
        stream.set_nodelay(true).map_err(|error| Fault::io(&error))?;
        let mut link = Self::over(Socket::plain(stream));
        if settings.tls_first {
            link = link.secured(settings, endpoint, limit).await?;
        }
        let Op::Info(info) = link.op().await? else { return Err(Fault::malformed()) };
        if !settings.tls_first && (settings.address.tls || info.tls_required) {
            link = link.secured(settings, endpoint, limit).await?;
        }
        link.info = *info;
        link.greet(settings, name).await?;
        Ok(link)
    }

    fn over(socket: Socket) -> Self {
        let unread = BytesMut::with_capacity(Socket::READ);
        Self { socket, unread, reader: Reader::default(), info: ServerInfo::default() }
    }

    async fn secured(self, settings: &Settings, endpoint: &HostPort, limit: Duration) -> Result<Self, Fault> {
        // What came in plain text after the server's word that it wants TLS isn't the server's.
        if !self.unread.is_empty() {
            return Err(Fault::malformed());
        }
        let connector = settings.connector().map_err(Fault::unreachable)?;
        let name = ServerName::try_from(endpoint.host.clone())
            .map_err(|_| Fault::unreachable("the host isn't a name that a certificate can have"))?;
        let shaken = timeout(limit / 4 * 3, connector.connect(name, self.socket.into_stream())).await;
        let shaken = shaken.map_err(|_| {
            let text = "the TLS handshake didn't finish in time; does the port speak TLS?";
            Fault::new(ErrorKind::Timeout, Outcome::NotApplied, text)
        })?;
        Ok(Self::over(Socket::secured(shaken.map_err(|error| Fault::handshake(&error))?)))
    }

    async fn greet(&mut self, settings: &Settings, name: &str) -> Result<(), Fault> {
        let greeting = serde_json::to_string(&settings.greeting(&self.info, name));
        let mut greeting = greeting.map_err(|_| Fault::malformed())?.into_bytes();
        greeting.splice(0..0, *b"CONNECT ");
        greeting.extend_from_slice(b"\r\n");
        greeting.extend_from_slice(PING);
        let mut failed = self.socket.write(&greeting).await.err().map(|error| Fault::io(&error));
        loop {
            match self.op().await {
                Ok(Op::Pong) => return Ok(()),
                // A server that refuses says why before it closes, which must not be hidden by a failed write.
                Ok(Op::Complaint(text)) => match Complaint::read(&text) {
                    Complaint::Fatal(fault) => return Err(fault),
                    _ => failed = Some(Fault::unreachable("the server refused the connection")),
                },
                Ok(_) => {}
                Err(fault) => return Err(failed.unwrap_or(fault)),
            }
        }
    }

    /// Subscribes the connection itself to a subject, where nothing else is under way.
    pub(super) async fn listen(&mut self, subject: &str, sid: u64) -> Result<(), Fault> {
        let mut command = Vec::new();
        wire::subscribe(&mut command, subject, sid);
        command.extend_from_slice(PING);
        self.socket.write(&command).await.map_err(|error| Fault::io(&error))?;
        loop {
            match self.op().await? {
                Op::Pong => return Ok(()),
                Op::Complaint(text) => match Complaint::read(&text) {
                    Complaint::Fatal(fault) => return Err(fault),
                    _ => return Err(Fault::no_right_to_reply()),
                },
                _ => {}
            }
        }
    }

    async fn op(&mut self) -> Result<Op, Fault> {
        loop {
            if let Some(op) = self.take()? {
                return Ok(op);
            }
            std::future::poll_fn(|cx| self.poll_fill(cx)).await?;
        }
    }

    /// Takes the next operation from what was read.
    pub(super) fn take(&mut self) -> Result<Option<Op>, Fault> {
        if self.unread.is_empty() { Ok(None) } else { self.reader.take(&mut self.unread) }
    }

    /// Reads more, and fails at the end of the stream.
    pub(super) fn poll_fill(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Fault>> {
        self.socket.poll_fill(cx, &mut self.unread).map_err(|error| Fault::io(&error))
    }

    /// Writes the bytes from a place on, and moves it; ready when all are with the system.
    pub(super) fn poll_write(
        &mut self,
        cx: &mut Context<'_>,
        bytes: &[u8],
        from: &mut usize,
    ) -> Poll<Result<(), Fault>> {
        self.socket.poll_write(cx, bytes, from).map_err(|error| Fault::io(&error))
    }
}

/// The server's own facts, as callers look at them.
pub(super) type Facts = Arc<ServerInfo>;
