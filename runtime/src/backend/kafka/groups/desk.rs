use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use rdkafka::TopicPartitionList;
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer};
use rdkafka::error::KafkaError;
use rdkafka::topic_partition_list::Offset;
use tokio::time::Instant;

use super::super::client::{Clients, SLICE};
use super::super::fault::Fault;
use super::super::settings::millis;
use super::listener::Listener;
use super::{PIECE, Wire, wire};
use crate::error::Outcome;
use crate::stream::Start;

/// A consumer of a group that doesn't join it, on the thread that blocks for it.
pub(super) struct Desk {
    clients: Arc<Clients>,
    consumer: BaseConsumer<Listener>,
    topic: String,
    partitions: u32,
    until: Instant,
}

impl Desk {
    /// Opens a desk at a topic that is there.
    pub(super) fn open(clients: &Arc<Clients>, group: &str, topic: String) -> Result<Self, Fault> {
        let limits = clients.host.limits();
        let mut config = clients.settings.consumer(limits, group);
        config
            .set("enable.partition.eof", "false")
            // It doesn't join, so this is how long a commit waits for the group's coordinator to be found.
            .set("session.timeout.ms", millis(limits.timeout).clamp(1_000, 45_000).to_string())
            .set("heartbeat.interval.ms", "300");
        let consumer: BaseConsumer<Listener> =
            config.create_with_context(Listener::default()).map_err(|error| Fault::of(&error))?;
        let until = Instant::now() + limits.timeout;
        let mut desk = Self { clients: clients.clone(), consumer, topic, partitions: 0, until };
        desk.partitions = desk.ask(|desk, most| count(&desk.consumer, &desk.topic, most))?;
        Ok(desk)
    }

    pub(super) fn work<T>(self, work: impl FnOnce(&Self) -> Result<T, Fault>) -> Result<T, Fault> {
        work(&self)
    }

    /// Asks in pieces, so that a broker that closes isn't kept.
    fn ask<T>(&self, ask: impl Fn(&Self, Duration) -> Result<T, Fault>) -> Result<T, Fault> {
        loop {
            if self.clients.stopped() {
                return Err(Fault::closed(Outcome::NotApplied));
            }
            let left = self.until.saturating_duration_since(Instant::now());
            match ask(self, left.min(PIECE)) {
                Err(fault) if is_passing(&fault) && !left.is_zero() => {
                    // Serves what came in meanwhile, and waits.
                    let _ = self.consumer.poll(SLICE.min(left));
                }
                answer => return answer,
            }
        }
    }

    fn list(&self, offset: Offset) -> Result<TopicPartitionList, Fault> {
        list(&self.topic, (0..self.partitions).map(|partition| (partition, offset)))
    }

    /// What is committed in each partition.
    pub(super) fn committed(&self) -> Result<Vec<Option<Wire>>, Fault> {
        let committed = self.ask(|desk, most| committed(&desk.consumer, &desk.topic, 0..desk.partitions, most))?;
        Ok(committed.into_iter().map(|(_, committed)| committed).collect())
    }

    /// In each partition the first offset, or the one after the last that can be read, or the first at a time.
    pub(super) fn offsets(&self, of: Offset) -> Result<Vec<Wire>, Fault> {
        self.ask(|desk, most| {
            let found = desk.consumer.offsets_for_times(desk.list(of)?, most).map_err(|error| Fault::of(&error))?;
            let mut offsets = vec![0; desk.partitions as usize];
            for element in found.elements() {
                element.error().map_err(|error| Fault::of(&error))?;
                if let Some(offset) = usize::try_from(element.partition()).ok().and_then(|at| offsets.get_mut(at)) {
                    *offset = element.offset().to_raw().unwrap_or(-1);
                }
            }
            Ok(offsets)
        })
    }

    /// What a start is in each partition, within what is there.
    pub(super) fn resolve(&self, start: &Start) -> Result<Vec<Wire>, Fault> {
        match start {
            Start::Earliest => self.offsets(Offset::Beginning),
            Start::Latest => self.offsets(Offset::End),
            Start::At(time) => {
                let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
                let millis = i64::try_from(since.as_nanos().div_ceil(1_000_000)).unwrap_or(i64::MAX);
                // The end first: what is appended meanwhile comes after it.
                let end = self.offsets(Offset::End)?;
                let at = self.offsets(Offset::Offset(millis))?;
                Ok(at.iter().zip(&end).map(|(at, end)| if *at < 0 { *end } else { *at.min(end) }).collect())
            }
            Start::After(positions) => {
                let low = self.offsets(Offset::Beginning)?;
                let end = self.offsets(Offset::End)?;
                let parts = (0..).zip(low.iter().zip(&end));
                Ok(parts
                    .map(|(index, (low, end))| positions.get(index).map_or(*low, wire).clamp(*low, *end.max(low)))
                    .collect())
            }
        }
    }

    /// Commits for a group without members.
    pub(super) fn commit(&self, offsets: &[(u32, Wire)]) -> Result<(), Fault> {
        let list = list(&self.topic, offsets.iter().map(|(partition, offset)| (*partition, Offset::Offset(*offset))))?;
        self.consumer.commit(&list, CommitMode::Sync).map_err(|error| Fault::of_sent(&error))
    }
}

/// Whether it is worth to ask again.
pub(super) fn is_passing(fault: &Fault) -> bool {
    use crate::error::ErrorKind;
    matches!(fault.kind, ErrorKind::Timeout | ErrorKind::Unavailable) || super::is_live(fault)
}

/// How many partitions a topic has.
pub(super) fn count(consumer: &BaseConsumer<Listener>, topic: &str, most: Duration) -> Result<u32, Fault> {
    let metadata = consumer.fetch_metadata(Some(topic), most).map_err(|error| Fault::of(&error))?;
    let found = metadata.topics().iter().find(|found| found.name() == topic).ok_or_else(Fault::absent)?;
    if let Some(error) = found.error() {
        return Err(Fault::of_code(error.into(), Outcome::NotApplied));
    }
    match found.partitions().len() {
        0 => Err(Fault::absent()),
        count => Ok(u32::try_from(count).unwrap_or(u32::MAX)),
    }
}

/// What is committed in these partitions. Where a unit is under way that commits there, it waits for its end.
pub(super) fn committed(
    consumer: &BaseConsumer<Listener>,
    topic: &str,
    partitions: impl IntoIterator<Item = u32>,
    most: Duration,
) -> Result<Vec<(u32, Option<Wire>)>, Fault> {
    let list = list(topic, partitions.into_iter().map(|partition| (partition, Offset::Invalid)))?;
    let found = consumer.committed_offsets(list, most).map_err(|error: KafkaError| Fault::of(&error))?;
    let elements = found.elements();
    let mut committed = Vec::with_capacity(elements.len());
    for element in &elements {
        element.error().map_err(|error| Fault::of(&error))?;
        if let Ok(partition) = u32::try_from(element.partition()) {
            let offset = element.offset().to_raw().filter(|offset| *offset >= 0);
            committed.push((partition, offset));
        }
    }
    committed.sort_unstable_by_key(|(partition, _)| *partition);
    Ok(committed)
}

/// A list of partitions as the client takes it.
pub(in super::super) fn list(
    topic: &str,
    offsets: impl IntoIterator<Item = (u32, Offset)>,
) -> Result<TopicPartitionList, Fault> {
    let mut list = TopicPartitionList::new();
    for (partition, offset) in offsets {
        let partition = i32::try_from(partition).unwrap_or(i32::MAX);
        list.add_partition_offset(topic, partition, offset).map_err(|error| Fault::of(&error))?;
    }
    Ok(list)
}
