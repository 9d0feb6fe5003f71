use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::{Ipv4Addr, Shutdown, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use socket2::SockRef;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::deadline::{eventually, within};
use super::ports::free_ports;
use super::resp::{self, Value};

/// Which way bytes go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Direction {
    /// From the client to the server: requests.
    ToServer,
    /// From the server to the client: replies and pushed messages.
    ToClient,
}

/// How a connection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// With RST, as when the other machine lost its state: "connection reset by peer".
    Reset,
    /// With FIN, as when the other process ended: end of file.
    Finish,
}

/// What happens to new connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// They are served.
    Off,
    /// They are accepted and reset at once.
    AcceptAndReset,
    /// Nobody listens: "connection refused".
    StopListening,
}

/// What has passed through a [`Proxy`] since it was started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Connections accepted, those that were reset at once among them.
    pub accepted: u64,
    /// Connections that are open now.
    pub open: usize,
    /// Bytes written to the server.
    pub to_server: u64,
    /// Bytes written to the client.
    pub to_client: u64,
    /// Bytes from the server that were swallowed.
    pub dropped: u64,
}

/// A port of its own in front of a server, where a test can break the network.
///
/// A switch holds for every byte from the moment that its call returns: bytes are moved and switches are set under one
/// lock. Dropping the proxy ends every connection.
#[derive(Debug)]
pub struct Proxy {
    port: u16,
    shared: Arc<Shared>,
    listener: JoinHandle<()>,
}

#[derive(Debug)]
struct Shared {
    upstream: SocketAddr,
    state: Mutex<State>,
    /// Sent after every change of the state.
    changed: watch::Sender<()>,
}

#[derive(Debug)]
struct State {
    counters: Counters,
    refusal: Refusal,
    listening: bool,
    stalled: BTreeSet<Direction>,
    drop_replies: bool,
    budget: Option<Budget>,
    recording: bool,
    /// What each connection sent, in the order of the connections.
    recorded: BTreeMap<u64, Vec<u8>>,
    /// The open connections: `Some` tells one to end.
    connections: BTreeMap<u64, Option<Cut>>,
}

/// What may still pass before everything is cut, or held where there is no cut.
#[derive(Clone, Copy, Debug)]
struct Budget {
    direction: Direction,
    bytes: usize,
    cut: Option<Cut>,
}

impl Proxy {
    /// Listens on a free port of 127.0.0.1 for connections to the port `upstream` of 127.0.0.1.
    pub async fn start(upstream: u16) -> Self {
        let (port, listener) = eventually("the proxy finds a port", || async {
            let port = free_ports(1)[0];
            bind(port).await.map(|listener| (port, listener))
        })
        .await;
        Self::serve(port, listener, upstream)
    }

    /// Listens on the port `port` of 127.0.0.1, once it is free, for connections to the port `upstream`.
    pub(super) async fn start_at(port: u16, upstream: u16) -> Self {
        let listener = eventually(format!("the proxy gets port {port}"), || bind(port)).await;
        Self::serve(port, listener, upstream)
    }

    fn serve(port: u16, listener: TcpListener, upstream: u16) -> Self {
        let shared = Arc::new(Shared {
            upstream: (Ipv4Addr::LOCALHOST, upstream).into(),
            state: Mutex::new(State {
                counters: Counters::default(),
                refusal: Refusal::Off,
                listening: true,
                stalled: BTreeSet::new(),
                drop_replies: false,
                budget: None,
                recording: false,
                recorded: BTreeMap::new(),
                connections: BTreeMap::new(),
            }),
            changed: watch::Sender::new(()),
        });
        let listener = tokio::spawn(listen(Arc::clone(&shared), port, listener));
        Self { port, shared, listener }
    }

    /// The port of 127.0.0.1 for clients.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The address for clients: `redis://127.0.0.1:...`.
    #[must_use]
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// The address for clients that take no URL: `127.0.0.1:...`.
    #[must_use]
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// Ends all connections; returns when they are closed. New ones are served.
    pub async fn cut(&self, cut: Cut) {
        let doomed: Vec<u64> = self.shared.change(|state| {
            state.cut_all(cut);
            state.connections.keys().copied().collect()
        });
        let gone = |state: &State| doomed.iter().all(|id| !state.connections.contains_key(id));
        within("the proxy cuts its connections", self.shared.wait(gone)).await;
    }

    /// Ends all connections after `bytes` more have gone that way, in the middle of a frame if need be. Nothing more
    /// passes that way on any connection; wait for it with [`wait`](Self::wait). New connections are served.
    pub fn cut_after(&self, direction: Direction, bytes: usize, cut: Cut) {
        self.shared.change(|state| {
            state.budget = Some(Budget { direction, bytes, cut: Some(cut) });
            state.spend(direction, 0);
        });
    }

    /// [Stalls](Self::stall) that way after `bytes` more have gone, in the middle of a frame if need be; wait for it with
    /// [`wait`](Self::wait).
    pub fn stall_after(&self, direction: Direction, bytes: usize) {
        self.shared.change(|state| {
            state.budget = Some(Budget { direction, bytes, cut: None });
            state.spend(direction, 0);
        });
    }

    /// Says what happens to new connections; returns when it is so. Open ones go on.
    pub async fn refuse(&self, refusal: Refusal) {
        self.shared.change(|state| state.refusal = refusal);
        let done = |state: &State| state.listening == (refusal != Refusal::StopListening);
        within("the proxy starts or stops to listen", self.shared.wait(done)).await;
    }

    /// Lets no byte and no end of a connection pass that way, or lets them pass again. Connections stay open and new ones
    /// are accepted: nobody notices but by waiting. What is sent meanwhile isn't lost.
    pub fn stall(&self, direction: Direction, on: bool) {
        self.shared.change(|state| {
            if on {
                state.stalled.insert(direction);
            } else {
                state.stalled.remove(&direction);
            }
        });
    }

    /// Swallows what the server sends while requests reach it: the outcome of each is unknown. A connection that was
    /// swallowed from is out of step: [`cut`](Self::cut) it before replies pass again.
    pub fn drop_replies(&self, on: bool) {
        self.shared.change(|state| state.drop_replies = on);
    }

    /// Begins to keep what clients send, from nothing, or stops to.
    pub fn record(&self, on: bool) {
        self.shared.change(|state| {
            state.recording = on;
            if on {
                state.recorded.clear();
            }
        });
    }

    /// The complete commands that reached the server since [`record`](Self::record), word by word, in order within each
    /// connection. Panics when a client didn't speak RESP, or when the recording began in the middle of a command.
    #[must_use]
    pub fn commands(&self) -> Vec<Vec<Vec<u8>>> {
        let state = self.shared.lock();
        state.recorded.values().flat_map(|bytes| commands(bytes)).collect()
    }

    /// How many of [`commands`](Self::commands) have this name.
    #[must_use]
    pub fn count(&self, name: &str) -> usize {
        let named = |command: &&Vec<Vec<u8>>| command[0].eq_ignore_ascii_case(name.as_bytes());
        self.commands().iter().filter(named).count()
    }

    /// What has passed so far.
    #[must_use]
    pub fn counters(&self) -> Counters {
        self.shared.lock().counters()
    }

    /// Waits until the counters are as `wanted` says, and returns them; panics with `what` when they never are.
    pub async fn wait(&self, what: &str, wanted: impl Fn(&Counters) -> bool) -> Counters {
        let seen = |state: &State| wanted(&state.counters());
        let last = async {
            self.shared.wait(seen).await;
            self.counters()
        };
        within(format!("{what} (the proxy on port {})", self.port), last).await
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.listener.abort();
        self.shared.change(|state| {
            state.refusal = Refusal::StopListening;
            state.cut_all(Cut::Reset);
        });
    }
}

impl State {
    fn counters(&self) -> Counters {
        Counters { open: self.connections.len(), ..self.counters }
    }

    fn cut_all(&mut self, cut: Cut) {
        for order in self.connections.values_mut() {
            order.get_or_insert(cut);
        }
    }

    /// Whether bytes may go at all: nobody has stalled this way or told the connection to end.
    fn may_move(&self, connection: u64, direction: Direction) -> bool {
        !self.stalled.contains(&direction) && self.connections[&connection].is_none()
    }

    /// How many of `wanted` bytes may go.
    fn allowance(&self, direction: Direction, wanted: usize) -> usize {
        match self.budget {
            Some(budget) if budget.direction == direction => wanted.min(budget.bytes),
            _ => wanted,
        }
    }

    fn spend(&mut self, direction: Direction, bytes: usize) {
        let Some(budget) = self.budget.as_mut().filter(|budget| budget.direction == direction) else { return };
        budget.bytes -= bytes;
        if budget.bytes == 0 {
            let cut = budget.cut;
            self.budget = None;
            match cut {
                Some(cut) => self.cut_all(cut),
                None => _ = self.stalled.insert(direction),
            }
        }
    }

    fn count(&mut self, connection: u64, direction: Direction, bytes: &[u8]) {
        let length = u64::try_from(bytes.len()).expect("a buffer's length is a u64");
        match direction {
            Direction::ToServer => {
                self.counters.to_server += length;
                if self.recording {
                    self.recorded.entry(connection).or_default().extend_from_slice(bytes);
                }
            }
            Direction::ToClient => self.counters.to_client += length,
        }
        self.spend(direction, bytes.len());
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        // A test that failed elsewhere still gets its own message.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let result = change(&mut self.lock());
        self.changed.send_replace(());
        result
    }

    async fn wait(&self, wanted: impl Fn(&State) -> bool) {
        let mut changes = self.changed.subscribe();
        while !wanted(&self.lock()) {
            changes.changed().await.expect("the sender is in self");
        }
    }

    /// Waits until the connection is told to end.
    async fn cut_of(&self, connection: u64) -> Cut {
        self.wait(|state| state.connections[&connection].is_some()).await;
        self.lock().connections[&connection].expect("an order is never taken back")
    }
}

async fn bind(port: u16) -> io::Result<TcpListener> {
    TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await
}

/// Accepts connections, and opens and closes the port as it is told.
async fn listen(shared: Arc<Shared>, port: u16, listener: TcpListener) {
    let mut listener = Some(listener);
    let mut next = 0;
    loop {
        let listening = listener.is_some();
        shared.change(|state| state.listening = listening);
        let stop = |state: &State| state.refusal == Refusal::StopListening;
        let Some(open) = &listener else {
            shared.wait(|state| !stop(state)).await;
            listener = Some(eventually("the proxy gets its port back", || bind(port)).await);
            continue;
        };
        tokio::select! {
            biased;
            () = shared.wait(stop) => {
                // Closing alone isn't enough while another thread starts a process: until that process becomes its
                // program it holds a copy of every socket.
                let _ = SockRef::from(open).shutdown(Shutdown::Both);
                listener = None;
            }
            accepted = open.accept() => {
                let Ok((client, _)) = accepted else { continue };
                let id = next;
                next += 1;
                let serve = shared.change(|state| {
                    state.counters.accepted += 1;
                    let serve = state.refusal == Refusal::Off;
                    if serve {
                        state.connections.insert(id, None);
                    }
                    serve
                });
                if serve {
                    tokio::spawn(connection(Arc::clone(&shared), id, client));
                } else {
                    end(client, Cut::Reset);
                }
            }
        }
    }
}

/// Serves one connection until both sides have ended or it is told to end.
async fn connection(shared: Arc<Shared>, id: u64, client: TcpStream) {
    let cut = serve(&shared, id, &client).await;
    // Closed before it is said to be gone.
    end(client, cut);
    shared.change(|state| state.connections.remove(&id));
}

async fn serve(shared: &Shared, id: u64, client: &TcpStream) -> Cut {
    let server = tokio::select! {
        biased;
        cut = shared.cut_of(id) => return cut,
        server = TcpStream::connect(shared.upstream) => match server {
            Ok(server) => server,
            Err(_) => return Cut::Reset,
        },
    };
    // The proxy shouldn't add delays of its own.
    let _ = (client.set_nodelay(true), server.set_nodelay(true));
    let both = async {
        let to_server = pump(shared, id, Direction::ToServer, client, &server);
        let to_client = pump(shared, id, Direction::ToClient, &server, client);
        tokio::try_join!(to_server, to_client)
    };
    let cut = tokio::select! {
        biased;
        cut = shared.cut_of(id) => cut,
        ended = both => match ended {
            Ok(_) => Cut::Finish,
            Err(_) => Cut::Reset,
        },
    };
    end(server, cut);
    cut
}

/// Moves bytes until `from` has ended, and passes that on too.
async fn pump(shared: &Shared, id: u64, direction: Direction, from: &TcpStream, to: &TcpStream) -> io::Result<()> {
    let mut waiting = Vec::new();
    loop {
        shared.wait(|state| state.may_move(id, direction)).await;
        // Readiness is waited for here; whether and how much is decided below, under the lock.
        if waiting.is_empty() {
            from.readable().await?;
        } else {
            to.writable().await?;
        }
        let ended = shared.change(|state| step(state, id, direction, (from, to), &mut waiting));
        if ended? {
            return SockRef::from(to).shutdown(Shutdown::Write);
        }
    }
}

/// Moves what can be moved without waiting; says whether `from` has ended.
fn step(
    state: &mut State,
    id: u64,
    direction: Direction,
    (from, to): (&TcpStream, &TcpStream),
    waiting: &mut Vec<u8>,
) -> io::Result<bool> {
    if !state.may_move(id, direction) {
        return Ok(false);
    }
    if waiting.is_empty() {
        let mut buffer = [0; 16 * 1024];
        match unless_blocked(from.try_read(&mut buffer))? {
            None => return Ok(false),
            Some(0) => return Ok(true),
            Some(count) => waiting.extend_from_slice(&buffer[..count]),
        }
    }
    if direction == Direction::ToClient && state.drop_replies {
        state.counters.dropped += u64::try_from(waiting.len()).expect("a buffer's length is a u64");
        waiting.clear();
        return Ok(false);
    }
    let allowed = state.allowance(direction, waiting.len());
    if let Some(count) = unless_blocked(to.try_write(&waiting[..allowed]))? {
        state.count(id, direction, &waiting[..count]);
        waiting.drain(..count);
    }
    Ok(false)
}

fn unless_blocked<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
        Err(error) => Err(error),
    }
}

/// Closes a socket so that the other side sees `cut`.
fn end(stream: TcpStream, cut: Cut) {
    // A socket that is already gone needs no more.
    match cut {
        Cut::Reset => _ = SockRef::from(&stream).set_linger(Some(Duration::ZERO)),
        Cut::Finish => {
            _ = SockRef::from(&stream).shutdown(Shutdown::Write);
            // The kernel answers with RST after all when unread bytes are thrown away.
            let mut buffer = [0; 16 * 1024];
            while matches!(stream.try_read(&mut buffer), Ok(1..)) {}
        }
    }
    drop(stream);
}

/// The complete commands at the front of `bytes`.
fn commands(mut bytes: &[u8]) -> Vec<Vec<Vec<u8>>> {
    let mut commands = Vec::new();
    while let Some(value) = resp::parse(&mut bytes).unwrap_or_else(|error| panic!("a client sent something: {error}")) {
        let words = value.elements().iter().filter_map(|word| match word {
            Value::Bulk(bytes) => bytes.clone(),
            _ => None,
        });
        commands.push(words.collect());
    }
    commands
}
