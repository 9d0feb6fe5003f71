//! Appending: each record is a request that JetStream answers, and those of many callers go out together.

use serde::Deserialize;
use tokio::time::Instant;

use super::super::api::{self, NO_RESPONDERS};
use super::super::client::{NatsClient, is_short};
use super::super::fault::Fault;
use super::super::pipeline::Request;
use super::{StreamState, record, state, unchanged};
use crate::capability::{BackendError, Record, StreamAddress};
use crate::error::{ErrorKind, Outcome};
use crate::stream::{Durability, Position, Receipt};

/// What JetStream answers.
#[derive(Deserialize)]
struct Stored {
    seq: u64,
    #[serde(default)]
    duplicate: bool,
}

pub(in super::super) async fn append(
    client: &NatsClient,
    stream: &StreamAddress,
    record: Record,
    durability: Durability,
) -> Result<Receipt, BackendError> {
    let state = state(stream);
    let by = client.deadline();
    is_durable(client, by, state, durability).await?;
    let request = send(client, state, &record)?;
    Ok(receipt(client, by, state, request).await?)
}

pub(in super::super) async fn append_all(
    client: &NatsClient,
    stream: &StreamAddress,
    records: Vec<Record>,
    durability: Durability,
) -> Vec<Result<Receipt, BackendError>> {
    let state = state(stream);
    let mut answers = Vec::with_capacity(records.len());
    let by = client.deadline();
    if let Err(fault) = is_durable(client, by, state, durability).await {
        answers.extend(records.iter().map(|_| Err(fault.clone().into())));
        return answers;
    }
    // All are on their way, in order, before the first is answered.
    let requests: Vec<_> = records.iter().map(|record| send(client, state, record)).collect();
    for request in requests {
        let answer = match request {
            Ok(request) => receipt(client, by, state, request).await,
            Err(fault) => Err(fault),
        };
        answers.push(answer.map_err(BackendError::from));
    }
    answers
}

/// JetStream answers when most of a stream's copies have a record, so that many others have it beside the first.
async fn is_durable(
    client: &NatsClient,
    by: Instant,
    state: &StreamState,
    durability: Durability,
) -> Result<(), Fault> {
    let Durability::Replicas(wanted) = durability else { return Ok(()) };
    let copies = state.copies(client, by).await.map_err(unchanged)?;
    if copies / 2 >= wanted {
        return Ok(());
    }
    Err(Fault::new(ErrorKind::Unsupported, Outcome::NotApplied, too_few(wanted, copies)))
}

fn too_few(wanted: u32, copies: u32) -> String {
    let remedy = match wanted {
        0..=2 => format!("give the stream {} `replicas`", 2 * wanted + 1),
        _ => "it keeps at most 5 copies, so ask for 1 or 2".to_owned(),
    };
    format!(
        "an append can't wait for `Replicas({wanted})`: JetStream confirms it when most copies have it, so of this stream's \
         {copies} with {} beside the first; {remedy}",
        copies / 2
    )
}

fn send(client: &NatsClient, state: &StreamState, record: &Record) -> Result<Request, Fault> {
    let head = record::head(&state.known, record, &state.name);
    let Some(key) = &record.key else { return client.streams.request(&state.address, &head, &record.data) };
    // Keys are encoded as text that a subject can hold.
    let subject = format!("{}.{}", state.address, String::from_utf8_lossy(key));
    is_short(&subject)?;
    client.streams.request(&subject, &head, &record.data)
}

async fn receipt(client: &NatsClient, by: Instant, state: &StreamState, request: Request) -> Result<Receipt, Fault> {
    let reply = api::reply(client, by, request).await?;
    if reply.status().is_some_and(|(status, _)| status == NO_RESPONDERS) {
        return Err(unheard(client, state).await);
    }
    let Stored { seq, duplicate } = api::answer(&reply.payload)?;
    Ok(Receipt::new(Some(Position::new(0, u128::from(seq))), duplicate))
}

/// Why nobody took a record.
async fn unheard(client: &NatsClient, state: &StreamState) -> Fault {
    match state.info(client, client.deadline()).await {
        Ok(_) => Fault::unreachable(
            "the stream is there, but nobody takes what is sent to it: no server leads it at the moment, or it has other \
             subjects",
        ),
        Err(fault) => unchanged(fault),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_asked_for_is_told_beside_what_there_is() {
        for (wanted, copies, parts) in [
            (1, 1, ["`Replicas(1)`", "this stream's 1 with 0 beside", "give the stream 3 `replicas`"]),
            (2, 3, ["`Replicas(2)`", "this stream's 3 with 1 beside", "give the stream 5 `replicas`"]),
            (3, 1, ["`Replicas(3)`", "this stream's 1 with 0 beside", "ask for 1 or 2"]),
        ] {
            let said = too_few(wanted, copies);
            assert!(parts.iter().all(|part| said.contains(part)), "{said}");
        }
    }
}
