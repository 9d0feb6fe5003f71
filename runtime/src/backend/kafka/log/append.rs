//! Appending.

use std::sync::Arc;

use rdkafka::producer::BaseRecord;
use rdkafka::util::IntoOpaque;
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::super::client::{Clients, Placed, Told};
use super::super::fault::Fault;
use super::{Layout, StreamState, by, record, state};
use crate::capability::{BackendError, Record, StreamAddress};
use crate::error::{ErrorKind, Outcome};
use crate::stream::{Position, Receipt};

/// Finds the stream and makes the client that appends. Nothing is sent before.
async fn prepare(clients: &Arc<Clients>, state: &Arc<StreamState>) -> Result<Layout, Fault> {
    let layout = state.layout(clients).await?;
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
fn send(
    clients: &Clients,
    state: &StreamState,
    layout: Layout,
    record: &Record,
) -> Result<oneshot::Receiver<Placed>, Fault> {
    let (tell, told) = Told::new();
    let message = message(state, state.partition(layout.partitions, record.key.as_ref()), record, tell);
    clients.send(message).inspect_err(|fault| state.learn(fault))?;
    Ok(told)
}

async fn told(clients: &Clients, state: &StreamState, told: oneshot::Receiver<Placed>) -> Result<Receipt, Fault> {
    // The client tells of every record before it goes.
    let placed = told.await.unwrap_or_else(|_| Err(Fault::closed(Outcome::Unknown)));
    let placed = placed.map_err(|fault| clients.explain(fault));
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
    let host = &clients.host;
    let deadline = Instant::now() + host.limits().timeout;
    let state = state(stream);
    let layout = by(host, deadline, Outcome::NotApplied, prepare(clients, state)).await?;
    let sent = send(clients, state, layout, &record)?;
    drop(record);
    by(host, deadline, Outcome::Unknown, told(clients, state, sent)).await
}

/// Appends several records, those of a partition in order.
pub(in super::super) async fn append_all(
    clients: &Arc<Clients>,
    stream: &StreamAddress,
    records: Vec<Record>,
) -> Vec<Result<Receipt, BackendError>> {
    let host = &clients.host;
    let deadline = Instant::now() + host.limits().timeout;
    let state = state(stream);
    let layout = match by(host, deadline, Outcome::NotApplied, prepare(clients, state)).await {
        Ok(layout) => layout,
        Err(failed) => return refused_all(records.len(), failed),
    };
    let sent: Vec<_> = records.iter().map(|record| send(clients, state, layout, record)).collect();
    drop(records);
    let mut answers = Vec::with_capacity(sent.len());
    for sent in sent {
        answers.push(match sent {
            Ok(sent) => by(host, deadline, Outcome::Unknown, told(clients, state, sent)).await,
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
