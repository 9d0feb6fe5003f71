use std::convert::Infallible;
use std::time::Duration;

use tidings::capability::{AckGroups, BackendError, GroupAddress, Log, Read, Record, StreamAddress, Taken};
use tidings::{Depth, Durability, PendingEntry, Position, Positions, Receipt, Start, StreamSettings};

use crate::backends::backend;

/// A backend with streams, and no way to consume them but by reading.
#[derive(Debug)]
pub struct LogOnly;

/// A backend with streams and ack groups.
#[derive(Debug)]
pub struct NoUnits;

backend!(LogOnly);
backend!(NoUnits);

/// What an impl holds: no client can be made, so nothing is ever called.
macro_rules! never_called {
    () => {
        fn admits(client: &Infallible, _: &StreamAddress, _: Durability) -> Result<(), String> {
            match *client {}
        }

        async fn ensure(client: &Infallible, _: &StreamAddress, _: &StreamSettings) -> Result<(), BackendError> {
            match *client {}
        }

        async fn delete(client: &Infallible, _: &StreamAddress) -> Result<bool, BackendError> {
            match *client {}
        }

        async fn append(
            client: &Infallible,
            _: &StreamAddress,
            _: Record,
            _: Durability,
        ) -> Result<Receipt, BackendError> {
            match *client {}
        }

        async fn append_all(
            client: &Infallible,
            _: &StreamAddress,
            _: Vec<Record>,
            _: Durability,
        ) -> Vec<Result<Receipt, BackendError>> {
            match *client {}
        }

        async fn start(client: &Infallible, _: &StreamAddress, _: &Start) -> Result<Positions, BackendError> {
            match *client {}
        }

        async fn read(
            client: &Infallible,
            _: &StreamAddress,
            _: &Positions,
            _: usize,
            _: Duration,
        ) -> Result<Read, BackendError> {
            match *client {}
        }
    };
}

impl Log for LogOnly {
    never_called!();
}

impl Log for NoUnits {
    never_called!();
}

impl AckGroups for NoUnits {
    async fn ensure_group(client: &Infallible, _: &GroupAddress, _: &Start) -> Result<bool, BackendError> {
        match *client {}
    }

    async fn delete_group(client: &Infallible, _: &GroupAddress) -> Result<bool, BackendError> {
        match *client {}
    }

    async fn read_new(
        client: &Infallible,
        _: &GroupAddress,
        _: &str,
        _: usize,
        _: Duration,
    ) -> Result<Read, BackendError> {
        match *client {}
    }

    async fn history(
        client: &Infallible,
        _: &GroupAddress,
        _: &str,
        _: Option<Position>,
        _: usize,
    ) -> Result<Taken, BackendError> {
        match *client {}
    }

    async fn ack(client: &Infallible, _: &GroupAddress, _: &[Position]) -> Result<u64, BackendError> {
        match *client {}
    }

    async fn claim(
        client: &Infallible,
        _: &GroupAddress,
        _: &str,
        _: Duration,
        _: usize,
    ) -> Result<Taken, BackendError> {
        match *client {}
    }

    async fn extend(
        client: &Infallible,
        _: &GroupAddress,
        _: &str,
        _: &[Position],
    ) -> Result<Vec<Position>, BackendError> {
        match *client {}
    }

    async fn release(client: &Infallible, _: &GroupAddress, _: &str, _: &[Position]) -> Result<(), BackendError> {
        match *client {}
    }

    async fn pending(
        client: &Infallible,
        _: &GroupAddress,
        _: Option<Position>,
        _: usize,
    ) -> Result<Vec<PendingEntry>, BackendError> {
        match *client {}
    }

    async fn depth(client: &Infallible, _: &GroupAddress) -> Result<Depth, BackendError> {
        match *client {}
    }

    async fn settled(client: &Infallible, _: &GroupAddress) -> Result<Positions, BackendError> {
        match *client {}
    }

    async fn trim_acknowledged(client: &Infallible, _: &StreamAddress) -> Result<u64, BackendError> {
        match *client {}
    }

    async fn remove_consumer(
        client: &Infallible,
        _: &GroupAddress,
        _: &str,
        _: Option<&str>,
    ) -> Result<u64, BackendError> {
        match *client {}
    }
}
