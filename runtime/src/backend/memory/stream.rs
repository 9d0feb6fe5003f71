use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::log::{Log as Kept, failed};
use super::{Memory, MemoryClient, unavailable};
use crate::broker::{Waiting, lock};
use crate::capability::{AckGroups, BackendError, Dedup, GroupAddress, Log, Read, Record, StreamAddress, Taken};
use crate::error::ErrorKind;
use crate::stream::{Depth, Durability, PendingEntry, Position, Positions, Receipt, Start, StreamSettings};

impl MemoryClient {
    pub(super) fn reachable(&self) -> Result<(), BackendError> {
        if self.memory.refused.load(Ordering::Acquire) { Err(unavailable()) } else { Ok(()) }
    }

    /// The stream, where the system is in reach.
    pub(super) fn log<'a>(&self, stream: &'a StreamAddress) -> Result<&'a Arc<Kept>, BackendError> {
        self.reachable()?;
        Ok(stream.state(|| lock(&self.memory.logs).entry(stream.text().clone()).or_default().clone()))
    }

    /// The same, and counts against the task's budget, so that a loop of operations lets others run.
    pub(super) async fn reach<'a>(&self, stream: &'a StreamAddress) -> Result<&'a Arc<Kept>, BackendError> {
        tokio::task::coop::consume_budget().await;
        self.log(stream)
    }

    /// Looks again whenever something has changed, until there is something or the time is up.
    pub(super) async fn wait<R>(
        &self,
        log: &Kept,
        wait: Duration,
        mut look: impl FnMut() -> Result<R, BackendError>,
        found: impl Fn(&R) -> bool,
    ) -> Result<R, BackendError> {
        // Counts against the task's budget, so that a loop of reads lets others run.
        tokio::task::coop::consume_budget().await;
        let connection = self.memory.connections.load(Ordering::Acquire);
        let mut seen = look()?;
        if wait.is_zero() || found(&seen) {
            return Ok(seen);
        }
        let waiting = async {
            let _waiting = Waiting::new(&log.waiting);
            loop {
                let changed = log.changed.notified();
                tokio::pin!(changed);
                changed.as_mut().enable();
                if self.memory.connections.load(Ordering::Acquire) != connection {
                    return Err(failed(ErrorKind::Unavailable, "`Memory::disconnect` was called"));
                }
                if self.memory.refused.load(Ordering::Acquire) {
                    return Err(unavailable());
                }
                let now = look()?;
                if found(&now) {
                    return Ok(now);
                }
                seen = now;
                changed.await;
            }
        };
        let waited = tokio::time::timeout(wait, async {
            tokio::pin!(waiting);
            let closing = self.host.closing();
            tokio::pin!(closing);
            std::future::poll_fn(|cx| {
                use std::task::Poll;
                if let Poll::Ready(done) = waiting.as_mut().poll(cx) {
                    return Poll::Ready(done);
                }
                closing.as_mut().poll(cx).map(|()| Err(failed(ErrorKind::Closed, "the broker was closed")))
            })
            .await
        });
        waited.await.unwrap_or(Ok(seen))
    }
}

impl Log for Memory {
    fn admits(_: &MemoryClient, _: &StreamAddress, durability: Durability) -> Result<(), String> {
        match durability {
            Durability::Primary => Ok(()),
            _ => Err("memory has no replicas and no disk; use `Durability::Primary`".to_owned()),
        }
    }

    async fn ensure(
        client: &MemoryClient,
        stream: &StreamAddress,
        settings: &StreamSettings,
    ) -> Result<(), BackendError> {
        client.log(stream)?.ensure(settings)
    }

    async fn update(
        client: &MemoryClient,
        stream: &StreamAddress,
        settings: &StreamSettings,
    ) -> Result<(), BackendError> {
        client.log(stream)?.update(settings)
    }

    async fn delete(client: &MemoryClient, stream: &StreamAddress) -> Result<bool, BackendError> {
        Ok(client.log(stream)?.delete())
    }

    async fn append(
        client: &MemoryClient,
        stream: &StreamAddress,
        record: Record,
        _: Durability,
    ) -> Result<Receipt, BackendError> {
        let receipt = client.log(stream)?.append(record, client.host.now())?;
        // As for publishing, but afterwards: held while it waited, the record would be copied once more.
        tokio::task::coop::consume_budget().await;
        Ok(receipt)
    }

    async fn append_all(
        client: &MemoryClient,
        stream: &StreamAddress,
        records: Vec<Record>,
        _: Durability,
    ) -> Vec<Result<Receipt, BackendError>> {
        records.into_iter().map(|record| client.log(stream)?.append(record, client.host.now())).collect()
    }

    async fn start(client: &MemoryClient, stream: &StreamAddress, start: &Start) -> Result<Positions, BackendError> {
        match start {
            Start::After(positions) => Ok(positions.clone()),
            start => client.log(stream)?.start(start),
        }
    }

    async fn read(
        client: &MemoryClient,
        stream: &StreamAddress,
        after: &Positions,
        max: usize,
        wait: Duration,
    ) -> Result<Read, BackendError> {
        let log = client.log(stream)?;
        client.wait(log, wait, || log.read(after, max), found).await
    }
}

impl Dedup for Memory {
    async fn window(client: &MemoryClient, stream: &StreamAddress) -> Result<Duration, BackendError> {
        client.log(stream)?.window()
    }
}

impl AckGroups for Memory {
    async fn ensure_group(client: &MemoryClient, group: &GroupAddress, start: &Start) -> Result<bool, BackendError> {
        client.reach(group.stream()).await?.with(|state| Ok(state.ensure_group(group.name(), start)))
    }

    async fn delete_group(client: &MemoryClient, group: &GroupAddress) -> Result<bool, BackendError> {
        let log = client.reach(group.stream()).await?;
        let gone = log.with(|state| Ok(state.groups.remove(group.name())))?;
        log.changed.notify_waiters();
        Ok(gone.is_some())
    }

    async fn read_new(
        client: &MemoryClient,
        group: &GroupAddress,
        consumer: &str,
        max: usize,
        wait: Duration,
    ) -> Result<Read, BackendError> {
        let log = client.reach(group.stream()).await?;
        let look = || {
            log.with(|state| {
                let (group, partitions) = state.group(group.name())?;
                Ok(group.read_new(partitions, consumer, max))
            })
        };
        client.wait(log, wait, look, found).await
    }

    async fn history(
        client: &MemoryClient,
        group: &GroupAddress,
        consumer: &str,
        after: Option<Position>,
        max: usize,
    ) -> Result<Taken, BackendError> {
        client.reach(group.stream()).await?.with(|state| {
            let (group, partitions) = state.group(group.name())?;
            Ok(group.history(partitions, consumer, after, max))
        })
    }

    async fn ack(client: &MemoryClient, group: &GroupAddress, positions: &[Position]) -> Result<u64, BackendError> {
        client.reach(group.stream()).await?.with(|state| Ok(state.group(group.name())?.0.ack(positions)))
    }

    async fn claim(
        client: &MemoryClient,
        group: &GroupAddress,
        consumer: &str,
        idle: Duration,
        max: usize,
    ) -> Result<Taken, BackendError> {
        client.reach(group.stream()).await?.with(|state| {
            let (group, partitions) = state.group(group.name())?;
            Ok(group.claim(partitions, consumer, idle, max))
        })
    }

    async fn extend(
        client: &MemoryClient,
        group: &GroupAddress,
        consumer: &str,
        positions: &[Position],
    ) -> Result<Vec<Position>, BackendError> {
        let now = tokio::time::Instant::now();
        client
            .reach(group.stream())
            .await?
            .with(|state| Ok(state.group(group.name())?.0.change(consumer, positions, |since, _| *since = Some(now))))
    }

    async fn release(
        client: &MemoryClient,
        group: &GroupAddress,
        consumer: &str,
        positions: &[Position],
    ) -> Result<(), BackendError> {
        client.reach(group.stream()).await?.with(|state| {
            state.group(group.name())?.0.change(consumer, positions, |since, attempt| {
                // Once is enough: another would take back a delivery that was made.
                if since.take().is_some() {
                    *attempt = attempt.saturating_sub(1);
                }
            });
            Ok(())
        })
    }

    async fn pending(
        client: &MemoryClient,
        group: &GroupAddress,
        after: Option<Position>,
        max: usize,
    ) -> Result<Vec<PendingEntry>, BackendError> {
        client.reach(group.stream()).await?.with(|state| Ok(state.group(group.name())?.0.pending(after, max)))
    }

    async fn depth(client: &MemoryClient, group: &GroupAddress) -> Result<Depth, BackendError> {
        client.reach(group.stream()).await?.with(|state| {
            let (group, partitions) = state.group(group.name())?;
            Ok(group.depth(partitions))
        })
    }

    async fn settled(client: &MemoryClient, group: &GroupAddress) -> Result<Positions, BackendError> {
        client.reach(group.stream()).await?.with(|state| Ok(state.group(group.name())?.0.settled()))
    }

    async fn trim_acknowledged(client: &MemoryClient, stream: &StreamAddress) -> Result<u64, BackendError> {
        client.reach(stream).await?.with(|state| Ok(state.trim_acknowledged()))
    }

    async fn remove_consumer(
        client: &MemoryClient,
        group: &GroupAddress,
        consumer: &str,
        heir: Option<&str>,
    ) -> Result<u64, BackendError> {
        client.reach(group.stream()).await?.with(|state| {
            let (group, partitions) = state.group(group.name())?;
            group.remove_consumer(partitions, consumer, heir)
        })
    }
}

fn found(read: &Read) -> bool {
    !matches!(read, Read::Records(records) if records.is_empty())
}
