//! Durables: JetStream's durable pull consumers, whose every settlement is confirmed.

mod bell;
mod config;
mod handle;
mod settled;

use serde::Deserialize;

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
        let stream = log::name(durable.stream());
        let info = api::call(self, self.deadline(), &format!("CONSUMER.INFO.{stream}.{}", durable.name()), &()).await;
        info.map_err(absent)
    }

    /// Creates or updates a consumer.
    async fn set_up(&self, durable: &GroupAddress, action: &'static str, config: Wanted<'_>) -> Result<Info, Fault> {
        let stream = log::name(durable.stream());
        let filter = config.filter_subject.as_ref().map(|filter| format!(".{filter}")).unwrap_or_default();
        let what = format!("CONSUMER.CREATE.{stream}.{}{filter}", durable.name());
        api::call(self, self.deadline(), &what, &Request { stream_name: stream, action, config }).await.map_err(absent)
    }

    /// How far the durable is, where it isn't beyond the end of its stream, and which it is.
    async fn inspect(&self, durable: &GroupAddress) -> Result<(DurableInfo, String), Fault> {
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
        Ok((read, info.identity().to_owned()))
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
            let made = client.set_up(durable, "create", Wanted::new(durable, settings, created)).await;
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
            let held = client.consumer(durable).await?;
            held.read(durable)?;
            let wanted = Wanted::new(durable, settings, String::new()).begun_as(&held);
            client.set_up(durable, "update", wanted).await?;
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
            let (info, identity) = client.inspect(durable).await?;
            // Without a bound nothing is ever given up.
            let bell = if info.settings.max_deliver.is_some() {
                let stream = log::name(durable.stream());
                let bell = Bell::new(client, stream, durable.name());
                bell.listen().await?;
                Some(bell)
            } else {
                None
            };
            Ok(NatsDurable::new(client, durable, info.settings, &identity, bell))
        };
        client.host.within(Outcome::NotApplied, binding).await
    }
}
