//! Code over any stream and any backend bounds what it uses.
#![deny(warnings)]

use serde::{Deserialize, Serialize};
use tidings::capability::{AckGroups, Backend, Log};
use tidings::codec::Encode;
use tidings::{Broker, Error, Receipt, Stream, StreamSpec, StreamedBy, stream_spec};
use ui_tests::{LogOnly, NoUnits};

#[stream_spec(name = "ledger.entries", version = 1)]
#[derive(Serialize, Deserialize)]
pub struct LedgerEntry;

#[stream_spec(name = "ledger.closings", version = 1, requires(ack_groups))]
#[derive(Serialize, Deserialize)]
pub struct LedgerClosing;

/// Over the payload: what its declaration requires comes with the bound.
fn bind<T: StreamedBy<Broker<B>>, B: Backend>(broker: &Broker<B>) -> Result<Stream<T, B>, Error> {
    T::bind(broker)
}

/// Over the backend: what the declaration requires is a bound of its own.
fn closings<B: AckGroups>(broker: &Broker<B>) -> Result<Stream<LedgerClosing, B>, Error> {
    let stream = LedgerClosing::stream(broker)?;
    stream.ack_group("billing")?;
    Ok(stream)
}

/// Over a handle.
async fn append<T, B: Log>(stream: &Stream<T, B>, key: &T::Key, entry: &T) -> Result<Receipt, Error>
where
    T: StreamSpec,
    T::Codec: Encode<T>,
{
    stream.append(key, entry).await
}

async fn uses(logs: &Broker<LogOnly>, groups: &Broker<NoUnits>) {
    let stream = bind::<LedgerEntry, _>(logs).unwrap();
    let _ = append(&stream, &(), &LedgerEntry).await;
    let stream = bind::<LedgerClosing, _>(groups).unwrap();
    let _ = append(&stream, &(), &LedgerClosing).await;
    let _ = closings(groups);
}

fn main() {
    let _ = uses;
}
