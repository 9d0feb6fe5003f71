//! What the server tells of records that it gives up.

use std::fmt;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use serde::Deserialize;

use super::super::super::routes::Route;
use super::super::client::NatsClient;
use super::super::fault::Fault;
use super::super::subscriber::{NatsSubscription, Subscriber};
use crate::broker::lock;
use crate::capability::Pulled;
use crate::stream::Position;
use crate::topic::{FeedLimits, Inbox, feed};

/// As many of them as wait to be told.
const LIMITS: FeedLimits = FeedLimits { messages: 65_536, bytes: 64 << 20, one: 64 << 10, keyed: false };

/// Listens to what the server tells of a durable's records that were handed out as often as they may be.
pub(super) struct Bell {
    subscriber: Arc<Subscriber>,
    subject: Arc<str>,
    open: Mutex<Option<(Inbox, NatsSubscription)>>,
}

#[derive(Deserialize)]
struct Advisory {
    stream_seq: u64,
}

impl Bell {
    pub(super) fn new(client: &NatsClient, stream: &str, durable: &str) -> Self {
        let subject = format!("$JS.EVENT.ADVISORY.CONSUMER.MAX_DELIVERIES.{stream}.{durable}").into();
        Self { subscriber: client.subscriber.clone(), subject, open: Mutex::default() }
    }

    /// Listens, unless it does.
    pub(super) async fn listen(&self) -> Result<(), Fault> {
        if lock(&self.open).is_some() {
            return Ok(());
        }
        let (feed, inbox) = feed(LIMITS);
        let subscription = self.subscriber.subscribe(vec![Route::Channel(self.subject.clone())], feed).await?;
        *lock(&self.open) = Some((inbox, subscription));
        Ok(())
    }

    /// Takes what was told. What is told while the connection is lost isn't heard, and that it is lost is told next.
    pub(super) fn poll(&self, cx: &mut Context<'_>, to: &mut Vec<Pulled>) -> Result<(), Fault> {
        let mut open = lock(&self.open);
        while let Some((inbox, _)) = &*open {
            match inbox.poll(cx) {
                Poll::Pending => break,
                Poll::Ready(Ok(told)) => {
                    let told: Option<Advisory> = serde_json::from_slice(&told.payload).ok();
                    to.extend(told.map(|told| Pulled::Exhausted(Position::new(0, u128::from(told.stream_seq)))));
                }
                Poll::Ready(Err(_)) if !to.is_empty() => break,
                Poll::Ready(Err(_)) => {
                    *open = None;
                    return Err(Fault::unreachable("the connection that tells what is given up is lost"));
                }
            }
        }
        Ok(())
    }
}

impl fmt::Debug for Bell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bell").field("subject", &self.subject).finish_non_exhaustive()
    }
}
