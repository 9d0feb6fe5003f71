//! What a server says of itself.

use serde::de::IgnoredAny;

use super::api;
use super::client::NatsClient;
use super::fault::Fault;
use crate::capability::{Checked, Wanted};
use crate::error::ErrorKind;

/// The oldest that is tested.
const OLDEST: (u32, u32) = (2, 10);

pub(super) async fn check(client: &NatsClient, wanted: &Wanted) -> Result<Checked, Fault> {
    let info = client.streams.facts().await?;
    let mut checked = Checked::new(format!("nats {}", info.version));
    match version(&info.version) {
        Some(found) if found >= OLDEST => {}
        Some(_) => checked.problems.push("the server is older than NATS 2.10; use a newer one".to_owned()),
        None => checked.unchecked.push("the version, which the server doesn't tell".to_owned()),
    }
    if !info.headers && !wanted.streams.is_empty() {
        checked.problems.push("the server takes no headers, which records of streams have; switch them on".to_owned());
    }
    let most = info.max_payload;
    let limits = client.host.limits();
    if !wanted.topics.is_empty() && limits.publish_bytes > most {
        checked.problems.push(format!(
            "the server takes {most} bytes a message, and `publish_bytes` is {}; raise `max_payload` there",
            limits.publish_bytes
        ));
    }
    if !wanted.streams.is_empty() && limits.append_bytes + limits.header_bytes > most {
        checked.problems.push(format!(
            "the server takes {most} bytes a message, and `append_bytes` with `header_bytes` is {}; raise `max_payload` there",
            limits.append_bytes + limits.header_bytes
        ));
    }
    if !wanted.streams.is_empty() {
        match api::call::<IgnoredAny>(client, client.deadline(), "INFO", &()).await {
            Ok(_) => {}
            Err(fault) if fault.kind == ErrorKind::Forbidden => {
                checked.unchecked.push("JetStream's limits; grant the user `publish` on `$JS.API.INFO`".to_owned());
            }
            Err(fault) if fault.kind == ErrorKind::Unsupported => checked.problems.push(fault.text.to_string()),
            Err(fault) => return Err(fault),
        }
    }
    if info.auth_required {
        checked
            .unchecked
            .push("the rights to publish and to subscribe; NATS tells them only when they are used".to_owned());
    }
    Ok(checked)
}

fn version(text: &str) -> Option<(u32, u32)> {
    let mut parts = text.split('.');
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}
