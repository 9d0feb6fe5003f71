//! How the library consumes.

use std::sync::Arc;

use tidings::backend::Kafka;
use tidings::{CommitGroup, Delivery, MemberSettings, Stop};

use crate::measure::ROUND;
use crate::shown;
use crate::text::{BATCH, Seen, Text, handle};

/// Reads a page, handles it and commits it, one after the other.
pub(crate) async fn member(group: CommitGroup<Text, Kafka>, seen: Arc<Seen>) -> Result<(), String> {
    let member = group.join(MemberSettings::new()).await.map_err(shown)?;
    while seen.count() < seen.all() {
        let read = member.read(BATCH as usize, ROUND).await.map_err(shown)?;
        for delivery in &read {
            seen.mark(delivery.value().map_err(shown)?)?;
        }
        member.commit(read.iter().map(Delivery::position)).await.map_err(shown)?;
    }
    member.leave().await;
    Ok(())
}

pub(crate) async fn worker(group: CommitGroup<Text, Kafka>, seen: Arc<Seen>) -> Result<(), String> {
    let stop = Stop::new();
    let worker = group.worker().until(&stop).with((seen, stop.clone()));
    worker.run(async |delivery, handled| Ok(handle(&delivery, &handled)?)).await.map_err(shown).map(drop)
}
