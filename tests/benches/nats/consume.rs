//! How the library consumes.

use std::sync::Arc;

use tidings::backend::Nats;
use tidings::{Durable, Stop};

use crate::shown;
use crate::text::{Seen, Text, handle};

/// Takes one delivery after the other.
pub(crate) async fn cursor(durable: Durable<Text, Nats>, seen: Arc<Seen>) -> Result<(), String> {
    let mut cursor = durable.cursor().await.map_err(shown)?;
    while seen.count() < seen.all() {
        let delivery = cursor.next().await.map_err(shown)?;
        seen.mark(delivery.value().map_err(shown)?)?;
        delivery.ack().await.map_err(shown)?;
    }
    Ok(())
}

pub(crate) async fn worker(durable: Durable<Text, Nats>, seen: Arc<Seen>) -> Result<(), String> {
    let stop = Stop::new();
    let worker = durable.worker().until(&stop).with((seen, stop.clone()));
    worker.run(async |delivery, handled| Ok(handle(&delivery, &handled)?)).await.map_err(shown).map(drop)
}
