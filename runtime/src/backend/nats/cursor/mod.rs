//! Durables: JetStream's durable pull consumers, whose every settlement is confirmed.

mod bell;
mod config;
mod handle;
mod settled;

use async_nats::jetstream::ErrorCode;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use self::bell::Bell;
use self::config::{Info, Request, Wanted};
use self::handle::NatsDurable;
use super::client::NatsClient;
use super::fault::Fault;
use super::{Nats, api, log};
use crate::capability::{BackendError, Cursors, GroupAddress};
use crate::error::{ErrorKind, Outcome};
use crate::stream::{DurableInfo, DurableSettings};

#[derive(Deserialize)]
struct Deleted {
    success: bool,
}

/// What is asked of a stream's settings here.
#[derive(Deserialize)]
struct Stream {
    state: State,
}

#[derive(Deserialize)]
struct State {
    last_seq: u64,
}

impl NatsClient {
    async fn consumer(&self, durable: &GroupAddress) -> Result<Info, Fault> {
        self.ask(durable).await
    }

    /// Asks what the server says of a consumer.
    async fn ask<T: DeserializeOwned>(&self, durable: &GroupAddress) -> Result<T, Fault> {
        let stream = log::name(durable.stream());
        let info = api::call(self, self.deadline(), &format!("CONSUMER.INFO.{stream}.{}", durable.name()), &()).await;
        info.map_err(absent)
    }

    /// Creates or updates a consumer.
    async fn set_up<C: Serialize>(
        &self,
        durable: &GroupAddress,
        action: &'static str,
        filter: Option<&str>,
        config: C,
    ) -> Result<Info, Fault> {
        let stream = log::name(durable.stream());
        let filter = filter.map(|filter| format!(".{filter}")).unwrap_or_default();
        let what = format!("CONSUMER.CREATE.{stream}.{}{filter}", durable.name());
        api::call(self, self.deadline(), &what, &Request { stream_name: stream, action, config }).await.map_err(absent)
    }

    /// How far the durable is, where it isn't beyond the end of its stream, and which it is.
    async fn inspect(&self, durable: &GroupAddress) -> Result<(DurableInfo, Info), Fault> {
        let info = self.consumer(durable).await?;
        let read = info.read(durable)?;
        let stream = log::name(durable.stream());
        let last =
            api::call::<Stream>(self, self.deadline(), &format!("STREAM.INFO.{stream}"), &()).await?.state.last_seq;
        if info.delivered() > last {
            let text = format!(
                "the durable is ahead of its stream, at {} of {last}: the stream lost its end, by a crash or a recovery; \
                 delete the durable and ensure it again",
                info.delivered()
            );
            return Err(Fault::new(ErrorKind::Conflict, Outcome::NotApplied, text));
        }
        Ok((read, info))
    }
}

/// Says it in a durable's words.
fn absent(fault: Fault) -> Fault {
    if fault.kind == ErrorKind::Absent && !fault.text.contains("stream") {
        let text = "there is no such durable; `ensure` creates it";
        return Fault::new(ErrorKind::Absent, fault.outcome, text);
    }
    fault
}

impl Cursors for Nats {
    type Durable = NatsDurable;

    async fn ensure_durable(
        client: &NatsClient,
        durable: &GroupAddress,
        settings: &DurableSettings,
    ) -> Result<bool, BackendError> {
        let ensuring = async {
            let created = format!("{:016x}", client.host.random());
            let wanted = Wanted::new(durable, settings, created);
            let filter = wanted.filter_subject.clone();
            let made = client.set_up(durable, "create", filter.as_deref(), wanted).await;
            match made {
                Ok(_) => Ok(true),
                Err(fault) if fault.code == config::EXISTS => {
                    let held = client.consumer(durable).await?.read(durable)?;
                    let Some(text) = held.settings.unlike(settings) else { return Ok(false) };
                    Err(Fault::new(ErrorKind::Conflict, Outcome::NotApplied, text).into())
                }
                Err(fault) => Err(fault.into()),
            }
        };
        client.host.within(Outcome::Unknown, ensuring).await
    }

    async fn update_durable(
        client: &NatsClient,
        durable: &GroupAddress,
        settings: &DurableSettings,
    ) -> Result<(), BackendError> {
        let updating = async {
            let held: Value = client.ask(durable).await?;
            Info::deserialize(&held).map_err(|_| Fault::malformed())?.read(durable)?;
            let Some(Value::Object(mut config)) = held.get("config").cloned() else {
                return Err(Fault::malformed().into());
            };
            let wanted = Wanted::new(durable, settings, String::new());
            let filter = wanted.filter_subject.clone();
            wanted.set_in(&mut config);
            client.set_up(durable, "update", filter.as_deref(), config).await?;
            Ok(())
        };
        client.host.within(Outcome::Unknown, updating).await
    }

    async fn delete_durable(client: &NatsClient, durable: &GroupAddress) -> Result<bool, BackendError> {
        let deleting = async {
            let stream = log::name(durable.stream());
            let what = format!("CONSUMER.DELETE.{stream}.{}", durable.name());
            match api::call::<Deleted>(client, client.deadline(), &what, &()).await {
                Ok(deleted) => Ok(deleted.success),
                Err(fault) if fault.kind == ErrorKind::Absent && !fault.text.contains("stream") => Ok(false),
                // The server lets go of the durable before it removes its files, which fails where one is being written.
                Err(fault) if fault.code == ErrorCode::STREAM_GENERALOR => match client.consumer(durable).await {
                    Err(gone) if gone.kind == ErrorKind::Absent => Ok(true),
                    _ => Err(Fault { outcome: Outcome::Unknown, ..fault }.into()),
                },
                Err(fault) => Err(fault.into()),
            }
        };
        client.host.within(Outcome::Unknown, deleting).await
    }

    async fn inspect_durable(client: &NatsClient, durable: &GroupAddress) -> Result<DurableInfo, BackendError> {
        let inspecting = async { Ok(client.inspect(durable).await?.0) };
        client.host.within(Outcome::NotApplied, inspecting).await
    }

    async fn bind_durable(client: &NatsClient, durable: &GroupAddress) -> Result<NatsDurable, BackendError> {
        let binding = async {
            let (read, info) = client.inspect(durable).await?;
            // Without a bound nothing is ever given up.
            let bell = if read.settings.max_deliver.is_some() {
                let stream = log::name(durable.stream());
                let bell = Bell::new(client, stream, durable.name());
                bell.listen().await?;
                Some(bell)
            } else {
                None
            };
            Ok(NatsDurable::new(client, durable, read.settings, &info, bell))
        };
        client.host.within(Outcome::NotApplied, binding).await
    }
}
