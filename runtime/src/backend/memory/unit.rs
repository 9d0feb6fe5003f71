use std::sync::Arc;

use super::log::{Log as Kept, absent, failed};
use super::{Memory, MemoryClient};
use crate::capability::{BackendError, Settlement, StreamAddress, Transactions, Unit};
use crate::error::ErrorKind;
use crate::stream::Receipt;

impl Transactions for Memory {
    async fn record(client: &MemoryClient, unit: Unit) -> Result<Vec<Receipt>, BackendError> {
        tokio::task::coop::consume_budget().await;
        let place = |stream: &StreamAddress| client.log(stream).cloned();
        let mut appends = Vec::with_capacity(unit.appends.len());
        for (stream, record) in unit.appends {
            appends.push((place(&stream)?, record));
        }
        let mut settlements = Vec::with_capacity(unit.settlements.len());
        for settlement in unit.settlements {
            let (Settlement::Commit { group, .. } | Settlement::Ack { group, .. }) = &settlement;
            settlements.push((place(group.stream())?, settlement));
        }
        // Everyone locks in the same order.
        let mut logs: Vec<&Arc<Kept>> =
            appends.iter().map(|(log, _)| log).chain(settlements.iter().map(|(log, _)| log)).collect();
        logs.sort_by_key(|log| Arc::as_ptr(log));
        logs.dedup_by(|one, other| Arc::ptr_eq(one, other));
        let logs: Vec<Arc<Kept>> = logs.into_iter().cloned().collect();
        let receipts = {
            let mut locked: Vec<_> = logs.iter().map(|log| (log, log.lock())).collect();
            let at = |log: &Arc<Kept>| locked.iter().position(|(other, _)| Arc::ptr_eq(log, other)).unwrap_or(0);
            let places: Vec<usize> = appends.iter().map(|(log, _)| at(log)).collect();
            let settled: Vec<usize> = settlements.iter().map(|(log, _)| at(log)).collect();
            // Whatever may fail comes first.
            for (_, state) in &locked {
                if state.is_none() {
                    return Err(absent());
                }
            }
            for ((_, settlement), place) in settlements.iter().zip(&settled) {
                let state = locked[*place].1.as_mut().ok_or_else(absent)?;
                match settlement {
                    Settlement::Commit { group, member, positions } => {
                        let others = state.commit_group(group.name())?.0.others(*member, positions);
                        if !others.is_empty() {
                            return Err(revoked(&others));
                        }
                    }
                    Settlement::Ack { group, .. } => {
                        state.group(group.name())?;
                    }
                }
            }
            let now = client.host.now();
            let mut receipts = Vec::with_capacity(appends.len());
            for ((_, record), place) in appends.into_iter().zip(places) {
                receipts.push(locked[place].1.as_mut().ok_or_else(absent)?.append(record, now));
            }
            for ((_, settlement), place) in settlements.iter().zip(settled) {
                let state = locked[place].1.as_mut().ok_or_else(absent)?;
                match settlement {
                    Settlement::Commit { group, member, positions } => {
                        let (group, partitions) = state.commit_group(group.name())?;
                        group.commit(partitions, *member, positions);
                    }
                    Settlement::Ack { group, positions } => {
                        state.group(group.name())?.0.ack(positions);
                    }
                }
            }
            receipts
        };
        for log in logs {
            log.changed.notify_waiters();
        }
        Ok(receipts)
    }
}

fn revoked(partitions: &[u32]) -> BackendError {
    let named: Vec<String> = partitions.iter().map(ToString::to_string).collect();
    failed(ErrorKind::Revoked, format!("partitions {} aren't this member's any longer", named.join(", ")))
}
