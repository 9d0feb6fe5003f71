//! Commit groups: consumer groups of Kafka.
//!
//! A member is a consumer polled by a thread of its own ([`thread`]), which shares what it [`held`]s with its callers
//! ([`member`]). What isn't a member's goes through a [`desk`]: a consumer of the group that doesn't join it.

mod committer;
mod desk;
mod held;
mod listener;
mod member;
mod thread;

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use rdkafka::admin::{AdminClient, AdminOptions};
use rdkafka::topic_partition_list::Offset;
use rdkafka::types::RDKafkaErrorCode as Code;

use super::fault::Fault;
use super::{Kafka, KafkaClient};
use crate::broker::lock;
use crate::capability::{BackendError, CommitGroups, GroupAddress};
use crate::error::{ErrorKind, Outcome};
use crate::stream::{Lag, MemberSettings, Position, Positions, Start};
use desk::{Desk, at_desk};

pub(super) use desk::{Desks, list};
use member::KafkaMember;
pub(super) use member::{Shared, Ticket};

/// A call that blocks is made in pieces of this length at most, so that what else there is to do isn't held up.
const PIECE: Duration = Duration::from_secs(1);
/// Of so many offsets it is looked whether any has a record: a look takes longer than the rest.
const FEW: u64 = 8;
/// How long to wait before something that failed is tried again.
const AGAIN: Duration = Duration::from_millis(50);

/// An offset as Kafka keeps it for a group: that of the next record, one after a [`Position`]'s.
type Wire = i64;

fn wire(position: Position) -> Wire {
    Wire::try_from(position.offset()).unwrap_or(Wire::MAX).saturating_add(1)
}

fn position(partition: u32, next: Wire) -> Option<Position> {
    let last = u128::try_from(next).ok()?.checked_sub(1)?;
    Some(Position::new(partition, last))
}

fn failed(kind: ErrorKind, text: impl Into<String>) -> BackendError {
    BackendError::new(kind, Outcome::NotApplied).with_source(text.into())
}

fn absent() -> Fault {
    let text = "nothing is recorded for the group; `ensure` does that";
    Fault::new(ErrorKind::Absent, Outcome::NotApplied, text)
}

/// The members of one broker.
#[derive(Default)]
pub(super) struct Members {
    next: AtomicU64,
    all: Mutex<HashMap<u64, Weak<Shared>>>,
}

impl Members {
    fn next(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    fn enter(&self, shared: &Arc<Shared>) {
        lock(&self.all).insert(shared.id, Arc::downgrade(shared));
    }

    fn remove(&self, id: u64) {
        lock(&self.all).remove(&id);
    }

    pub(super) fn get(&self, id: u64) -> Option<Arc<Shared>> {
        lock(&self.all).get(&id)?.upgrade()
    }
}

/// The group's name on the wire.
///
/// A stream at an address of its own may be read in several environments, so that their groups are told apart there.
pub(super) fn group_id(group: &GroupAddress) -> String {
    let stream = group.stream();
    if stream.is_verbatim() {
        format!("{}.address.{}.{}", namespace(group), stream.text(), group.name())
    } else {
        format!("{}.{}", stream.text(), group.name())
    }
}

/// A member's name on the wire, by which the server knows it again.
fn instance_id(group: &GroupAddress, name: &str) -> String {
    format!("{}.{name}", namespace(group))
}

/// `{application}.{environment}`.
fn namespace(group: &GroupAddress) -> String {
    let source = group.stream().origin().source.as_deref().unwrap_or_default();
    source.trim_start_matches('/').replace('/', ".")
}

impl CommitGroups for Kafka {
    type Member = KafkaMember;

    async fn ensure_commit_group(
        client: &KafkaClient,
        group: &GroupAddress,
        start: &Start,
    ) -> Result<bool, BackendError> {
        let start = start.clone();
        at_desk(client.clients(), group, move |desk| {
            // Resolved before anything is looked at: who records it at the same time records no later one than what
            // is appended after this call.
            let from = desk.resolve(&start)?;
            let missing = |committed: &[Option<Wire>]| -> Vec<(u32, Wire)> {
                let parts = (0..).zip(from.iter().zip(committed));
                parts
                    .filter(|(_, (_, committed))| committed.is_none())
                    .map(|(index, (from, _))| (index, *from))
                    .collect()
            };
            let committed = desk.committed()?;
            let wanted = missing(&committed);
            if wanted.is_empty() {
                return Ok(false);
            }
            loop {
                match desk.commit(&wanted) {
                    // It has members, who begin a partition that was added at its first record.
                    Err(fault) if is_live(&fault) && wanted.len() < committed.len() => return Ok(false),
                    // Members of a group of which nothing is recorded are about to leave.
                    Err(fault) if is_live(&fault) && desk.again() => {}
                    Err(fault) if is_live(&fault) => return Err(live()),
                    Err(fault) => return Err(fault),
                    Ok(()) => return Ok(true),
                }
            }
        })
        .await
    }

    async fn delete_commit_group(client: &KafkaClient, group: &GroupAddress) -> Result<bool, BackendError> {
        at_desk(client.clients(), group, |desk| {
            let limits = desk.clients.host.limits();
            let admin: AdminClient<_> =
                desk.clients.settings.admin(limits).create().map_err(|error| Fault::of(&error))?;
            let options = AdminOptions::new().request_timeout(Some(limits.timeout));
            desk.changes()?;
            let removed = super::client::wait(admin.delete_groups(&[&desk.group], &options));
            let removed = removed.map_err(|error| Fault::of_sent(&error))?;
            match removed.into_iter().next() {
                Some(Err((_, Code::GroupIdNotFound))) => Ok(false),
                Some(Err((_, Code::NonEmptyGroup))) => Err(live()),
                Some(Err((_, code))) => Err(Fault::of_code(code, Outcome::Unknown).needs("Read and Delete")),
                Some(Ok(_)) | None => Ok(true),
            }
        })
        .await
    }

    async fn join(
        client: &KafkaClient,
        group: &GroupAddress,
        settings: &MemberSettings,
    ) -> Result<KafkaMember, BackendError> {
        KafkaMember::join(client.clients(), group, settings).await
    }

    async fn committed(client: &KafkaClient, group: &GroupAddress) -> Result<Positions, BackendError> {
        at_desk(client.clients(), group, |desk| Ok(positions(&recorded(desk)?))).await
    }

    async fn reset_offsets(client: &KafkaClient, group: &GroupAddress, to: &Start) -> Result<Positions, BackendError> {
        let to = to.clone();
        at_desk(client.clients(), group, move |desk| {
            recorded(desk)?;
            let offsets = desk.resolve(&to)?;
            let wanted: Vec<(u32, Wire)> = (0..).zip(offsets.iter().copied()).collect();
            match desk.commit(&wanted) {
                Err(fault) if is_live(&fault) => Err(live()),
                Err(fault) => Err(fault),
                Ok(()) => Ok(wanted.into_iter().filter_map(|(index, offset)| position(index, offset)).collect()),
            }
        })
        .await
    }

    async fn lag(client: &KafkaClient, group: &GroupAddress) -> Result<Vec<Lag>, BackendError> {
        at_desk(client.clients(), group, |desk| {
            // First what is committed, so that it can't be beyond the end.
            let committed = recorded(desk)?;
            let low = desk.offsets(Offset::Beginning)?;
            let end = desk.offsets(Offset::End)?;
            let parts = (0..).zip(committed.iter().zip(low.iter().zip(&end)));
            let left: Vec<(u32, Wire, u64)> = parts
                .map(|(index, (committed, (low, end)))| {
                    let from = committed.unwrap_or(0).max(*low);
                    (index, from, u64::try_from(end.saturating_sub(from)).unwrap_or(0))
                })
                .collect();
            // What is left may be a transaction's marker, which nobody reads.
            let few = left.iter().filter(|(_, _, records)| (1..=FEW).contains(records));
            let read_out = desk.read_out(few.map(|(index, from, _)| (*index, *from)).collect())?;
            let lag = left.iter().zip(&committed).map(|((index, _, records), committed)| {
                let records = if read_out.contains(index) { 0 } else { *records };
                Lag::new(*index, committed.and_then(|next| position(*index, next)), records)
            });
            Ok(lag.collect())
        })
        .await
    }
}

/// What is committed in each partition, of a group that is there.
fn recorded(desk: &Desk) -> Result<Vec<Option<Wire>>, Fault> {
    let committed = desk.committed()?;
    if committed.iter().all(Option::is_none) { Err(absent()) } else { Ok(committed) }
}

fn positions(committed: &[Option<Wire>]) -> Positions {
    (0..).zip(committed).filter_map(|(index, next)| position(index, (*next)?)).collect()
}

/// The failure of what needs partitions that aren't the member's.
pub(super) fn revoked(partitions: &[u32]) -> BackendError {
    let named: Vec<String> = partitions.iter().map(ToString::to_string).collect();
    failed(ErrorKind::Revoked, format!("partitions {} aren't this member's any longer", named.join(", ")))
}

/// Whether the group's coordinator refused because the group has members.
fn is_live(fault: &Fault) -> bool {
    let codes = [Code::UnknownMemberId, Code::IllegalGeneration, Code::RebalanceInProgress, Code::StaleMemberEpoch];
    fault.code.is_some_and(|code| codes.contains(&code))
}

fn live() -> Fault {
    Fault::new(ErrorKind::Conflict, Outcome::NotApplied, "the group has members; let them leave first")
}
