//! Appending.

use std::sync::Arc;

use rdkafka::producer::BaseRecord;
use rdkafka::util::IntoOpaque;
use tokio::time::Instant;

use super::super::client::Clients;
use super::super::fault::Fault;
use super::super::waits::Waiting;
use super::{Held, Layout, StreamState, by, record, state};
use crate::capability::{BackendError, Record, StreamAddress};
use crate::error::{ErrorKind, Outcome};
use crate::stream::{Position, Receipt};

/// What is needed to hand records over, and when their time is over.
struct Prepared {
    layout: Layout,
    deadline: Instant,
}

/// Finds the stream and makes the client that appends, by the deadline. Nothing is sent before.
async fn prepare(clients: &Arc<Clients>, state: &Arc<StreamState>) -> Result<Prepared, BackendError> {
    let now = Instant::now();
    let deadline = now + clients.host.limits().timeout;
    let held = state.held(clients, now);
    let layout = match held {
        Held::Fresh(partitions) if clients.has_sender() => Layout { partitions, anew: false },
        // In a box: it is large and rare, and would be part of every append.
        held => Box::pin(by(&clients.host, deadline, Outcome::NotApplied, found(clients, state, held))).await?,
    };
    Ok(Prepared { layout, deadline })
}

async fn found(clients: &Arc<Clients>, state: &Arc<StreamState>, held: Held) -> Result<Layout, Fault> {
    let layout = state.layout_of(held, clients).await?;
    let made = clients.sender().await?;
    if made || layout.anew {
        // It may know the topic as it was before, or as one that isn't there. A new one asks for its identity at once where
        // it has asked for something, and after half a second otherwise.
        let state = state.clone();
        let refresh = move |clients: &Arc<Clients>| {
            let timeout = clients.patience();
            // The first answer may come before a new one has learned whom to ask for its identity.
            for _ in 0..if made { 2 } else { 1 } {
                let asked = clients.with_sender(|sender| sender.fetch_metadata(Some(&state.topic), timeout));
                asked.transpose().map_err(|error| Fault::of(&error))?;
            }
            Ok(())
        };
        clients.call("kafka metadata", refresh).await?;
    }
    Ok(layout)
}

/// Makes the message that a record is.
pub(in super::super) fn message<'a, O: IntoOpaque>(
    state: &'a StreamState,
    partition: i32,
    record: &'a Record,
    delivery_opaque: O,
) -> BaseRecord<'a, [u8], [u8], O> {
    BaseRecord {
        topic: &state.topic,
        partition: Some(partition),
        payload: (!record.tombstone).then_some(&record.data[..]),
        key: record.key.as_deref(),
        timestamp: record::timestamp(record),
        headers: Some(record::headers(&state.known, record)),
        delivery_opaque,
    }
}

/// Hands a record over. It is on its way when this returns.
fn send<'a>(
    clients: &'a Clients,
    state: &StreamState,
    prepared: &Prepared,
    record: &Record,
) -> Result<Waiting<'a>, Fault> {
    let waiting = clients.waits.begin(prepared.deadline)?;
    let partition = state.partition(prepared.layout.partitions, record.key.as_ref());
    let message = message(state, partition, record, waiting.wait());
    clients.send(message).inspect_err(|fault| state.learn(fault))?;
    Ok(waiting)
}

async fn told(clients: &Clients, state: &StreamState, waiting: Waiting<'_>) -> Result<Receipt, BackendError> {
    let placed = waiting.await.map_err(|fault| clients.explain(fault));
    let (partition, offset) = placed.inspect_err(|fault| state.learn(fault))?;
    let position = u32::try_from(partition).ok().zip(u128::try_from(offset).ok());
    Ok(Receipt::new(position.map(|(partition, offset)| Position::new(partition, offset)), false))
}

/// Appends one record.
pub(in super::super) async fn append(
    clients: &Arc<Clients>,
    stream: &StreamAddress,
    record: Record,
) -> Result<Receipt, BackendError> {
    let state = state(stream);
    let prepared = prepare(clients, state).await?;
    let waiting = send(clients, state, &prepared, &record)?;
    drop(record);
    told(clients, state, waiting).await
}

/// Appends several records, those of a partition in order.
pub(in super::super) async fn append_all(
    clients: &Arc<Clients>,
    stream: &StreamAddress,
    records: Vec<Record>,
) -> Vec<Result<Receipt, BackendError>> {
    let state = state(stream);
    let prepared = match prepare(clients, state).await {
        Ok(prepared) => prepared,
        Err(failed) => return refused_all(records.len(), failed),
    };
    let sent: Vec<_> = records.iter().map(|record| send(clients, state, &prepared, record)).collect();
    drop(records);
    let mut answers = Vec::with_capacity(sent.len());
    for sent in sent {
        answers.push(match sent {
            Ok(waiting) => told(clients, state, waiting).await,
            Err(fault) => Err(fault.into()),
        });
    }
    answers
}

/// The same failure for each.
fn refused_all(count: usize, failed: BackendError) -> Vec<Result<Receipt, BackendError>> {
    let (kind, outcome): (ErrorKind, Outcome) = (failed.kind, failed.outcome);
    let text = failed.source.map(|source| source.to_string());
    let again = || {
        let error = BackendError::new(kind, outcome);
        match &text {
            Some(text) => error.with_source(&**text),
            None => error,
        }
    };
    (0..count).map(|_| Err(again())).collect()
}
