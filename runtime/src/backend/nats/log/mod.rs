//! A stream as one of JetStream's, with one partition.

mod append;
mod consumer;
mod manage;
mod read;
mod record;

use std::sync::{Arc, Mutex};

use serde::Deserialize;
use tokio::time::{Duration, Instant};

use super::api;
use super::client::{MOST_SUBJECT_BYTES, NatsClient};
use super::fault::Fault;
use super::wire::Message;
use crate::broker::lock;
use crate::capability::{Record, StreamAddress};
use crate::error::Outcome;

pub(super) use append::{append, append_all};
pub(super) use consumer::Reading;
pub(super) use manage::{delete, ensure, start, update, window};
pub(super) use read::read;
use record::Known;

/// What was read of a stream's settings is used for so long.
const FRESH: Duration = Duration::from_secs(5);

/// What a client keeps of one stream.
struct StreamState {
    /// As JetStream calls it, which has no dots in names.
    name: Arc<str>,
    address: Arc<str>,
    known: Known,
    /// How many copies there are, and when that was read.
    copies: Mutex<Option<(u32, Instant)>>,
}

/// What JetStream says of a stream.
#[derive(Debug, Deserialize)]
struct Info {
    config: Config,
    state: State,
}

/// Nanoseconds, and a number below 1 for none.
#[derive(Debug, Deserialize)]
struct Config {
    #[serde(default)]
    subjects: Vec<String>,
    #[serde(default)]
    max_msgs: i64,
    #[serde(default)]
    max_age: i64,
    #[serde(default)]
    duplicate_window: u64,
    #[serde(default)]
    num_replicas: u32,
    #[serde(default)]
    retention: String,
    #[serde(default)]
    storage: String,
}

#[derive(Debug, Deserialize)]
struct State {
    first_seq: u64,
    last_seq: u64,
}

/// The stream as JetStream calls it.
pub(super) fn name(stream: &StreamAddress) -> &str {
    &state(stream).name
}

/// Reads a message of the stream.
pub(super) fn record(stream: &StreamAddress, message: &Message) -> Record {
    let state = state(stream);
    record::read(&state.known, &state.address, message)
}

fn state(stream: &StreamAddress) -> &Arc<StreamState> {
    stream.state(|| {
        Arc::new(StreamState {
            name: stream.text().replace('.', "_").into(),
            address: stream.text().clone(),
            known: Known::new(stream.origin()),
            copies: Mutex::default(),
        })
    })
}

impl StreamState {
    async fn info(&self, client: &NatsClient, by: Instant) -> Result<Info, Fault> {
        let info: Info = api::call(client, by, &format!("STREAM.INFO.{}", self.name), &()).await?;
        *lock(&self.copies) = Some((info.config.num_replicas, Instant::now()));
        Ok(info)
    }

    /// What was read is no longer so.
    fn forget(&self) {
        *lock(&self.copies) = None;
    }

    /// How many copies there are.
    async fn copies(&self, client: &NatsClient, by: Instant) -> Result<u32, Fault> {
        let held = *lock(&self.copies);
        match held {
            Some((copies, since)) if since.elapsed() < FRESH => Ok(copies),
            _ => Ok(self.info(client, by).await?.config.num_replicas),
        }
    }
}

/// The same of something that changes nothing.
fn unchanged(fault: Fault) -> Fault {
    Fault { outcome: Outcome::NotApplied, ..fault }
}

/// What an address can't be as a subject.
pub(super) fn admits(stream: &StreamAddress) -> Result<(), String> {
    let text = stream.text();
    let fits = |token: &str| !token.is_empty() && token.bytes().all(|byte| byte.is_ascii_graphic());
    let plain = !text.contains(['*', '>', '/', '\\']) && !text.starts_with('$');
    if text.len() > MOST_SUBJECT_BYTES || !plain || !text.split('.').all(fits) {
        return Err(format!(
            "`{text}` isn't a subject that a stream can have: tokens of printable letters with dots between, without \
             `*`, `>`, `/`, `\\` and `$` in front; give another address"
        ));
    }
    Ok(())
}
