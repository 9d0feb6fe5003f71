//! A backend around another, of which some operations are done otherwise.

mod durables;

use std::fmt;
use std::time::Duration;

use tidings::capability::{
    AckGroups, Backend, BackendError, Checked, GroupAddress, Host, Log, Read, Record, StreamAddress, Taken, Wanted,
};
use tidings::{Depth, Durability, PendingEntry, Position, Positions, Receipt, Start, StreamSettings};

pub use durables::{CursorTwist, TwistedDurable};

/// The client of the backend inside.
pub type ClientOf<W> = <<W as Twist>::Inner as Backend>::Client;

/// What is done otherwise: each method does what the backend inside does, unless it is written anew.
pub trait Twist: Send + Sync + 'static {
    /// The backend inside.
    type Inner: AckGroups;

    /// See [`Backend::close`].
    fn close(client: &ClientOf<Self>) -> impl Future<Output = ()> + Send
    where
        Self: Sized,
    {
        Self::Inner::close(client)
    }

    /// See [`AckGroups::ensure_group`].
    fn ensure_group(
        client: &ClientOf<Self>,
        group: &GroupAddress,
        start: &Start,
    ) -> impl Future<Output = Result<bool, BackendError>> + Send
    where
        Self: Sized,
    {
        Self::Inner::ensure_group(client, group, start)
    }

    /// See [`AckGroups::read_new`].
    fn read_new(
        client: &ClientOf<Self>,
        group: &GroupAddress,
        consumer: &str,
        max: usize,
        wait: Duration,
    ) -> impl Future<Output = Result<Read, BackendError>> + Send
    where
        Self: Sized,
    {
        Self::Inner::read_new(client, group, consumer, max, wait)
    }

    /// See [`AckGroups::history`].
    fn history(
        client: &ClientOf<Self>,
        group: &GroupAddress,
        consumer: &str,
        after: Option<Position>,
        max: usize,
    ) -> impl Future<Output = Result<Taken, BackendError>> + Send
    where
        Self: Sized,
    {
        Self::Inner::history(client, group, consumer, after, max)
    }

    /// See [`AckGroups::ack`].
    fn ack(
        client: &ClientOf<Self>,
        group: &GroupAddress,
        positions: &[Position],
    ) -> impl Future<Output = Result<u64, BackendError>> + Send
    where
        Self: Sized,
    {
        Self::Inner::ack(client, group, positions)
    }

    /// See [`AckGroups::claim`].
    fn claim(
        client: &ClientOf<Self>,
        group: &GroupAddress,
        consumer: &str,
        idle: Duration,
        max: usize,
    ) -> impl Future<Output = Result<Taken, BackendError>> + Send
    where
        Self: Sized,
    {
        Self::Inner::claim(client, group, consumer, idle, max)
    }

    /// See [`AckGroups::extend`].
    fn extend(
        client: &ClientOf<Self>,
        group: &GroupAddress,
        consumer: &str,
        positions: &[Position],
    ) -> impl Future<Output = Result<Vec<Position>, BackendError>> + Send
    where
        Self: Sized,
    {
        Self::Inner::extend(client, group, consumer, positions)
    }

    /// See [`AckGroups::release`].
    fn release(
        client: &ClientOf<Self>,
        group: &GroupAddress,
        consumer: &str,
        positions: &[Position],
    ) -> impl Future<Output = Result<(), BackendError>> + Send
    where
        Self: Sized,
    {
        Self::Inner::release(client, group, consumer, positions)
    }

    /// See [`AckGroups::settled`].
    fn settled(
        client: &ClientOf<Self>,
        group: &GroupAddress,
    ) -> impl Future<Output = Result<Positions, BackendError>> + Send
    where
        Self: Sized,
    {
        Self::Inner::settled(client, group)
    }
}

/// A backend with a twist.
pub struct Twisted<W: Twist>(pub W::Inner);

impl<W: Twist> fmt::Debug for Twisted<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Twisted").finish_non_exhaustive()
    }
}

impl<W: Twist> Backend for Twisted<W> {
    type Client = ClientOf<W>;

    fn system(&self) -> &'static str {
        self.0.system()
    }

    fn client(&self, host: Host) -> Result<Self::Client, Vec<String>> {
        self.0.client(host)
    }

    fn check(client: &Self::Client, wanted: Wanted) -> impl Future<Output = Result<Checked, BackendError>> + Send {
        W::Inner::check(client, wanted)
    }

    fn close(client: &Self::Client) -> impl Future<Output = ()> + Send {
        W::close(client)
    }
}

impl<W: Twist> Log for Twisted<W> {
    fn admits(client: &Self::Client, stream: &StreamAddress, durability: Durability) -> Result<(), String> {
        W::Inner::admits(client, stream, durability)
    }

    fn ensure(
        client: &Self::Client,
        stream: &StreamAddress,
        settings: &StreamSettings,
    ) -> impl Future<Output = Result<(), BackendError>> + Send {
        W::Inner::ensure(client, stream, settings)
    }

    fn delete(
        client: &Self::Client,
        stream: &StreamAddress,
    ) -> impl Future<Output = Result<bool, BackendError>> + Send {
        W::Inner::delete(client, stream)
    }

    fn append(
        client: &Self::Client,
        stream: &StreamAddress,
        record: Record,
        durability: Durability,
    ) -> impl Future<Output = Result<Receipt, BackendError>> + Send {
        W::Inner::append(client, stream, record, durability)
    }

    fn append_all(
        client: &Self::Client,
        stream: &StreamAddress,
        records: Vec<Record>,
        durability: Durability,
    ) -> impl Future<Output = Vec<Result<Receipt, BackendError>>> + Send {
        W::Inner::append_all(client, stream, records, durability)
    }

    fn start(
        client: &Self::Client,
        stream: &StreamAddress,
        start: &Start,
    ) -> impl Future<Output = Result<Positions, BackendError>> + Send {
        W::Inner::start(client, stream, start)
    }

    fn read(
        client: &Self::Client,
        stream: &StreamAddress,
        after: &Positions,
        max: usize,
        wait: Duration,
    ) -> impl Future<Output = Result<Read, BackendError>> + Send {
        W::Inner::read(client, stream, after, max, wait)
    }
}

impl<W: Twist> AckGroups for Twisted<W> {
    fn ensure_group(
        client: &Self::Client,
        group: &GroupAddress,
        start: &Start,
    ) -> impl Future<Output = Result<bool, BackendError>> + Send {
        W::ensure_group(client, group, start)
    }

    fn delete_group(
        client: &Self::Client,
        group: &GroupAddress,
    ) -> impl Future<Output = Result<bool, BackendError>> + Send {
        W::Inner::delete_group(client, group)
    }

    fn read_new(
        client: &Self::Client,
        group: &GroupAddress,
        consumer: &str,
        max: usize,
        wait: Duration,
    ) -> impl Future<Output = Result<Read, BackendError>> + Send {
        W::read_new(client, group, consumer, max, wait)
    }

    fn history(
        client: &Self::Client,
        group: &GroupAddress,
        consumer: &str,
        after: Option<Position>,
        max: usize,
    ) -> impl Future<Output = Result<Taken, BackendError>> + Send {
        W::history(client, group, consumer, after, max)
    }

    fn ack(
        client: &Self::Client,
        group: &GroupAddress,
        positions: &[Position],
    ) -> impl Future<Output = Result<u64, BackendError>> + Send {
        W::ack(client, group, positions)
    }

    fn claim(
        client: &Self::Client,
        group: &GroupAddress,
        consumer: &str,
        idle: Duration,
        max: usize,
    ) -> impl Future<Output = Result<Taken, BackendError>> + Send {
        W::claim(client, group, consumer, idle, max)
    }

    fn extend(
        client: &Self::Client,
        group: &GroupAddress,
        consumer: &str,
        positions: &[Position],
    ) -> impl Future<Output = Result<Vec<Position>, BackendError>> + Send {
        W::extend(client, group, consumer, positions)
    }

    fn release(
        client: &Self::Client,
        group: &GroupAddress,
        consumer: &str,
        positions: &[Position],
    ) -> impl Future<Output = Result<(), BackendError>> + Send {
        W::release(client, group, consumer, positions)
    }

    fn pending(
        client: &Self::Client,
        group: &GroupAddress,
        after: Option<Position>,
        max: usize,
    ) -> impl Future<Output = Result<Vec<PendingEntry>, BackendError>> + Send {
        W::Inner::pending(client, group, after, max)
    }

    fn depth(client: &Self::Client, group: &GroupAddress) -> impl Future<Output = Result<Depth, BackendError>> + Send {
        W::Inner::depth(client, group)
    }

    fn settled(
        client: &Self::Client,
        group: &GroupAddress,
    ) -> impl Future<Output = Result<Positions, BackendError>> + Send {
        W::settled(client, group)
    }

    fn trim_acknowledged(
        client: &Self::Client,
        stream: &StreamAddress,
    ) -> impl Future<Output = Result<u64, BackendError>> + Send {
        W::Inner::trim_acknowledged(client, stream)
    }

    fn remove_consumer(
        client: &Self::Client,
        group: &GroupAddress,
        consumer: &str,
        heir: Option<&str>,
    ) -> impl Future<Output = Result<u64, BackendError>> + Send {
        W::Inner::remove_consumer(client, group, consumer, heir)
    }
}
