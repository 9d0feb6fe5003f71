//! JetStream's own requests, in JSON.

use async_nats::jetstream::response::Response;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::time::Instant;

use super::client::NatsClient;
use super::fault::Fault;
use super::pipeline::Request;
use super::wire::Message;
use crate::error::{ErrorKind, Outcome};

/// Nobody listens to the subject.
pub(super) const NO_RESPONDERS: u16 = 503;

/// Sends a request and returns what is answered by then.
pub(super) async fn call<T: DeserializeOwned>(
    client: &NatsClient,
    by: Instant,
    what: &str,
    body: &impl Serialize,
) -> Result<T, Fault> {
    let body = serde_json::to_vec(body).map_err(|_| Fault::malformed())?;
    // Nothing at all, where there is nothing to say.
    let body = if body == b"null" { &[][..] } else { &body };
    let request = client.streams.request(&format!("$JS.API.{what}"), &[], body)?;
    let reply = reply(client, by, request).await?;
    if reply.status().is_some_and(|(status, _)| status == NO_RESPONDERS) {
        return Err(match client.streams.known() {
            Some(info) if info.jetstream => Fault::jetstream_is_away(),
            _ => Fault::no_jetstream(),
        });
    }
    answer(&reply.payload)
}

/// Waits for a request's reply. What is cut short is unknown only if it was sent.
pub(super) async fn reply(client: &NatsClient, by: Instant, mut request: Request) -> Result<Message, Fault> {
    let left = by.saturating_duration_since(Instant::now());
    let mut replied = None;
    let replying = async {
        replied = Some(request.reply().await);
        Ok(())
    };
    if let Err(cut_short) = client.host.within_time(left, Outcome::Unknown, replying).await {
        let outcome = if request.was_sent() { Outcome::Unknown } else { Outcome::NotApplied };
        return Err(if cut_short.kind == ErrorKind::Closed { Fault::closed(outcome) } else { Fault::timeout(outcome) });
    }
    replied.unwrap_or_else(|| Err(Fault::task_ended()))
}

/// Reads an answer, which may be a refusal.
pub(super) fn answer<T: DeserializeOwned>(payload: &[u8]) -> Result<T, Fault> {
    match serde_json::from_slice(payload) {
        Ok(Response::Ok(answer)) => Ok(answer),
        Ok(Response::Err { error }) => Err(Fault::of_jetstream(error.error_code(), &error.to_string())),
        Err(_) => Err(Fault::unreachable("JetStream answered what isn't its JSON").sent()),
    }
}
