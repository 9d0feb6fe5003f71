//! JetStream's own requests, in JSON.

use async_nats::jetstream::response::Response;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::client::NatsClient;
use super::fault::Fault;

/// Nobody listens to the subject.
pub(super) const NO_RESPONDERS: u16 = 503;

/// Sends a request and returns what is answered. Nothing limits its time but the caller.
pub(super) async fn call<T: DeserializeOwned>(
    client: &NatsClient,
    what: &str,
    body: &impl Serialize,
) -> Result<T, Fault> {
    let body = serde_json::to_vec(body).map_err(|_| Fault::malformed())?;
    // Nothing at all, where there is nothing to say.
    let body = if body == b"null" { &[][..] } else { &body };
    let mut request = client.streams.request(&format!("$JS.API.{what}"), &[], body)?;
    let reply = request.reply().await?;
    if reply.status().is_some_and(|(status, _)| status == NO_RESPONDERS) {
        return Err(Fault::no_jetstream());
    }
    match serde_json::from_slice(&reply.payload) {
        Ok(Response::Ok(answer)) => Ok(answer),
        Ok(Response::Err { error }) => Err(Fault::of_jetstream(error.error_code(), &error.to_string())),
        Err(_) => Err(Fault::unreachable("JetStream answered what isn't its JSON")),
    }
}
