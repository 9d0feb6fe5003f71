//! What the benches of streams share, wherever they run: the payload, which entries have come, and how the library
//! consumes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use serde::{Deserialize, Serialize};
use tidings::backend::Redis;
use tidings::{AckGroup, Delivery, Stop, Worker};

use crate::measure::ROUND;

pub(crate) const CONSUMER: &str = "one";
/// Entries of one pipeline, of one `append_all`, and of one read.
pub(crate) const BATCH: u32 = 256;
/// The first entry's number: all that follow have as many digits, so that payloads are of one length.
pub(crate) const FIRST: u32 = 100_000;

/// A payload whose length in JSON is chosen.
#[tidings::topic(name = "bench.texts", version = 1)]
#[tidings::stream_spec(name = "bench.texts", version = 1)]
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct Text {
    pub(crate) number: u32,
    text: String,
}

impl Text {
    pub(crate) fn new(bytes: usize) -> Self {
        let empty = Self { number: FIRST, text: String::new() };
        let frame = empty.json().len();
        Self { text: "x".repeat(bytes - frame), ..empty }
    }

    pub(crate) fn json(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("a text is encoded")
    }
}

/// Which entries have come.
#[derive(Default)]
pub(crate) struct Seen {
    marks: Vec<AtomicBool>,
    count: AtomicU32,
}

impl Seen {
    pub(crate) fn new(entries: u32) -> Self {
        Self { marks: (0..entries).map(|_| AtomicBool::new(false)).collect(), count: AtomicU32::new(0) }
    }

    /// Notes an entry, and says whether it was the last.
    pub(crate) fn mark(&self, text: &Text) -> Result<bool, String> {
        let mark = self.marks.get((text.number - FIRST) as usize).ok_or("an entry that nobody appended")?;
        if mark.swap(true, Ordering::Relaxed) {
            return Err(format!("entry {} came twice", text.number));
        }
        Ok(self.count.fetch_add(1, Ordering::Relaxed) + 1 == self.all())
    }

    pub(crate) fn all(&self) -> u32 {
        u32::try_from(self.marks.len()).unwrap_or(u32::MAX)
    }

    pub(crate) fn count(&self) -> u32 {
        self.count.load(Ordering::Relaxed)
    }

    pub(crate) fn is_complete(&self) -> Result<(), String> {
        match (self.count(), self.all()) {
            (count, all) if count == all => Ok(()),
            (count, all) => Err(format!("{} of {all} entries were lost", all - count)),
        }
    }
}

fn shown(error: impl std::fmt::Display) -> String {
    error.to_string()
}

/// Reads a page, handles it and acknowledges it, one after the other.
pub(crate) async fn consumer(group: &AckGroup<Text, Redis>, seen: Arc<Seen>) -> Result<(), String> {
    let consumer = group.consumer(CONSUMER).map_err(shown)?;
    while seen.count() < seen.all() {
        let deliveries = consumer.read(BATCH as usize, ROUND).await.map_err(shown)?;
        for delivery in &deliveries {
            seen.mark(delivery.value().map_err(shown)?)?;
        }
        consumer.ack(deliveries.iter().map(Delivery::position)).await.map_err(shown)?;
    }
    Ok(())
}

/// What a handler works on.
pub(crate) type Handled = (Arc<Seen>, Stop);

pub(crate) fn handle(delivery: &Delivery<Text>, (seen, stop): &Handled) -> Result<(), String> {
    if seen.mark(delivery.value().map_err(shown)?)? {
        stop.stop();
    }
    Ok(())
}

pub(crate) fn ready(group: &AckGroup<Text, Redis>, seen: Arc<Seen>) -> Worker<Text, Redis, Handled> {
    let stop = Stop::new();
    group.worker(CONSUMER).until(&stop).with((seen, stop))
}

pub(crate) async fn worker(
    group: &AckGroup<Text, Redis>,
    seen: Arc<Seen>,
    set: impl FnOnce(Worker<Text, Redis, Handled>) -> Worker<Text, Redis, Handled>,
) -> Result<(), String> {
    let worker = set(ready(group, seen));
    worker.run(async |delivery, handled| Ok(handle(&delivery, &handled)?)).await.map_err(shown).map(drop)
}
