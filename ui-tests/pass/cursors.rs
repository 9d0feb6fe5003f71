//! A cursor's deliveries, one after the other, in every form.
#![deny(warnings)]

use std::time::Duration;

use serde::{Deserialize, Serialize};
use tidings::backend::{AnyBackend, Memory};
use tidings::capability::Cursors;
use tidings::{Cursor, Durable, DurableOwner, DurableSettings, Error, InFlight, Stream, stream_spec};

#[stream_spec(name = "ledger.entries", version = 1, key(tenant, account), requires(cursors))]
#[derive(Serialize, Deserialize)]
pub struct LedgerEntry {
    tenant: String,
    account: u64,
    cents: i64,
}

/// Over the backend.
async fn consume<B: Cursors>(stream: &Stream<LedgerEntry, B>, owner: &DurableOwner) -> Result<i64, Error> {
    let durable: Durable<LedgerEntry, B> = stream.durable(owner)?;
    durable.ensure(DurableSettings::new().ack_wait(Duration::from_secs(5))).await?;
    let mut cursor: Cursor<LedgerEntry, B> = stream.cursor(owner).await?;
    let mut cents = 0;
    while let Some(next) = cursor.next_within(Duration::ZERO).await? {
        cents += next.value().map_or(0, |entry| entry.cents);
        settle(next).await?;
    }
    // One that is settled makes room for the next.
    let next = cursor.next().await?;
    next.in_progress().await?;
    next.nak(Duration::from_secs(1)).await?;
    let next = cursor.next().await?;
    next.ack().await?;
    // It can be let go on purpose.
    drop(cursor.next().await?);
    Ok(cents)
}

/// By a function of one's own.
async fn settle<B: Cursors>(next: InFlight<'_, LedgerEntry, B>) -> Result<(), Error> {
    match next.attempt() {
        1..5 => next.ack().await,
        _ => next.term("it was tried too often").await,
    }
}

fn is_send<T: Send>(_: T) {}

fn uses(memory: &Stream<LedgerEntry, Memory>, any: &Stream<LedgerEntry, AnyBackend>, owner: &DurableOwner) {
    is_send(consume(memory, owner));
    is_send(consume(any, owner));
}

fn main() {
    let _ = uses;
}
