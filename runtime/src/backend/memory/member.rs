use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::time::Instant;

use super::commit::CommitGroup;
use super::log::{Log as Kept, Partition, failed};
use super::{Memory, MemoryClient};
use crate::broker::lock;
use crate::capability::{BackendError, CommitGroups, Fetched, GroupAddress, GroupMember};
use crate::error::ErrorKind;
use crate::stream::{Lag, MemberSettings, Positions, Start};

/// A member of a commit group of [`Memory`].
#[derive(Debug)]
pub struct MemoryMember {
    client: MemoryClient,
    log: Arc<Kept>,
    group: Arc<str>,
    id: u64,
}

impl MemoryClient {
    async fn with_group<R>(
        &self,
        group: &GroupAddress,
        work: impl FnOnce(&mut CommitGroup, &[Partition]) -> Result<R, BackendError>,
    ) -> Result<R, BackendError> {
        self.reach(group.stream()).await?.with(|state| {
            let (group, partitions) = state.commit_group(group.name())?;
            work(group, partitions)
        })
    }
}

impl CommitGroups for Memory {
    type Member = MemoryMember;

    async fn ensure_commit_group(
        client: &MemoryClient,
        group: &GroupAddress,
        start: &Start,
    ) -> Result<bool, BackendError> {
        client.reach(group.stream()).await?.with(|state| Ok(state.ensure_commit_group(group.name(), start)))
    }

    async fn delete_commit_group(client: &MemoryClient, group: &GroupAddress) -> Result<bool, BackendError> {
        client.reach(group.stream()).await?.with(|state| state.delete_commit_group(group.name()))
    }

    async fn join(
        client: &MemoryClient,
        group: &GroupAddress,
        settings: &MemberSettings,
    ) -> Result<MemoryMember, BackendError> {
        let id = client.memory.members.fetch_add(1, Ordering::Relaxed);
        let log = client.reach(group.stream()).await?.clone();
        log.with(|state| state.commit_group(group.name())?.0.join(id, settings))?;
        log.changed.notify_waiters();
        lock(&client.joined).insert(id, (log.clone(), group.name().clone()));
        let client = client.clone();
        Ok(MemoryMember { client, log, group: group.name().clone(), id })
    }

    async fn committed(client: &MemoryClient, group: &GroupAddress) -> Result<Positions, BackendError> {
        client.with_group(group, |group, partitions| Ok(group.committed(partitions))).await
    }

    async fn reset_offsets(client: &MemoryClient, group: &GroupAddress, to: &Start) -> Result<Positions, BackendError> {
        client.reach(group.stream()).await?.with(|state| state.reset_offsets(group.name(), to))
    }

    async fn lag(client: &MemoryClient, group: &GroupAddress) -> Result<Vec<Lag>, BackendError> {
        client.with_group(group, |group, partitions| Ok(group.lag(partitions))).await
    }
}

impl MemoryMember {
    fn with<R>(
        &self,
        work: impl FnOnce(&mut CommitGroup, &[Partition]) -> Result<R, BackendError>,
    ) -> Result<R, BackendError> {
        if self.client.memory.refused.load(Ordering::Acquire) {
            return Err(super::unavailable());
        }
        if !lock(&self.client.joined).contains_key(&self.id) {
            return Err(failed(ErrorKind::Closed, "the broker was closed"));
        }
        self.log.with(|state| {
            let (group, partitions) = state.commit_group(&self.group)?;
            work(group, partitions)
        })
    }

    /// Changes something whether the system is in reach or not, and has everyone look again.
    fn change<R: Default>(&self, work: impl FnOnce(&mut CommitGroup) -> R) -> R {
        let changed = self.log.with(|state| Ok(work(state.commit_group(&self.group)?.0)));
        self.log.changed.notify_waiters();
        changed.unwrap_or_default()
    }
}

impl GroupMember for MemoryMember {
    async fn next(&self, max: usize, wait: Duration) -> Result<Fetched, BackendError> {
        let until = Instant::now().checked_add(wait);
        loop {
            let mut due = None;
            let look = || {
                self.with(|group, partitions| {
                    due = group.due();
                    group.next(partitions, self.id, max)
                })
            };
            let found = |fetched: &Fetched| !matches!(fetched, Fetched::Records(records) if records.is_empty());
            let now = Instant::now();
            let left = until.map_or(wait, |until| until.saturating_duration_since(now));
            // What comes due is nobody's call, so it is looked for.
            let soon = self.with(|group, _| Ok(group.due()))?.map(|due| due.saturating_duration_since(now));
            let most = soon.map_or(left, |soon| soon.min(left));
            let fetched = self.client.wait(&self.log, most, look, found).await?;
            if found(&fetched) || most == left {
                return Ok(fetched);
            }
        }
    }

    async fn joined(&self) -> Result<(), BackendError> {
        tokio::task::coop::consume_budget().await;
        self.with(|_, _| Ok(()))
    }

    async fn commit(&self, positions: &Positions) -> Result<Vec<u32>, BackendError> {
        tokio::task::coop::consume_budget().await;
        self.with(|group, partitions| Ok(group.commit(partitions, self.id, positions)))
    }

    fn hand_over(&self, partitions: &[u32]) {
        self.change(|group| group.hand_over(self.id, partitions));
    }

    async fn rewind(&self) -> Result<(), BackendError> {
        self.with(|group, _| group.rewind(self.id))?;
        self.log.changed.notify_waiters();
        Ok(())
    }

    fn pause(&self, partitions: &[u32], paused: bool) {
        self.change(|group| group.pause(self.id, partitions, paused));
    }

    fn assigned(&self) -> Vec<u32> {
        self.change(|group| group.assigned(self.id))
    }

    fn id(&self) -> u64 {
        self.id
    }

    async fn leave(self) {}
}

impl Drop for MemoryMember {
    fn drop(&mut self) {
        let joined = lock(&self.client.joined).remove(&self.id);
        if let Some((log, group)) = joined {
            leave(self.id, &log, &group);
        }
    }
}

/// The members of one client that haven't left, and where they are.
pub(super) type Joined = BTreeMap<u64, (Arc<Kept>, Arc<str>)>;

/// Has all of a client's members leave.
pub(super) fn leave_all(joined: &Mutex<Joined>) {
    let joined = std::mem::take(&mut *lock(joined));
    for (id, (log, group)) in joined {
        leave(id, &log, &group);
    }
}

fn leave(id: u64, log: &Kept, group: &str) {
    // Where the stream or the group is gone, so is the member.
    let _ = log.with(|state| {
        state.commit_group(group)?.0.leave(id);
        Ok(())
    });
    log.changed.notify_waiters();
}
