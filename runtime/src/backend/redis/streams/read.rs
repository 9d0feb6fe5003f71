//! Reading after positions.

use std::time::Duration;

use bytes::Bytes;
use tokio::time::Instant;

use super::super::fault::Fault;
use super::super::pipeline::Packed;
use super::super::resp::Cursor;
use super::layout::{Layout, Part, StreamState, millis, state};
use super::node::Node;
use super::readers::Job;
use super::record::read_entries;
use super::scripts::READ;
use super::send::{Call, run_all, send_all};
use super::{Nodes, Permit, id_text, keep_place, packed, places, waited};
use crate::capability::{Read, Stored, StreamAddress};
use crate::stream::{Position, Positions};

/// A server that is asked to wait answers within so long after that; else it is told to.
pub(super) const GRACE: Duration = Duration::from_millis(50);

/// Up to when a call waits. Further off than anyone can wait is as good as that.
pub(super) fn until(wait: Duration) -> Instant {
    Instant::now() + wait.min(Duration::from_hours(24 * 365))
}

/// How long the server is to wait now, in whole milliseconds. `None` where there is nothing left to wait. It is asked again
/// with each heartbeat, so that one that hangs is told soon, however long the wait.
pub(super) fn block(until: Instant, heartbeat: Duration) -> Option<u64> {
    let left = until.saturating_duration_since(Instant::now()).min(heartbeat);
    (!left.is_zero()).then(|| millis(left).max(1))
}

pub(in super::super) async fn read<N: Nodes>(
    nodes: &N,
    stream: &StreamAddress,
    after: &Positions,
    max: usize,
    wait: Duration,
) -> Result<Read, Fault> {
    let until = until(wait);
    let heartbeat = nodes.host().limits().heartbeat;
    let state = state(stream);
    let mut place = None;
    loop {
        let layout = state.layout(nodes, stream).await?;
        let found = fetch(nodes, state, &layout, after, max).await.inspect_err(|fault| state.learn(fault))?;
        let empty = matches!(&found, Read::Records(records) if records.is_empty());
        match block(until, heartbeat).filter(|_| empty && !wait.is_zero()) {
            None => return Ok(found),
            Some(block) => {
                let place = keep_place(nodes, &mut place).await?;
                wait_for_more(nodes, state, &layout, after, block, place).await?;
            }
        }
    }
}

/// Reads what is there: of each partition its share, and then of those that have more.
async fn fetch<N: Nodes>(
    nodes: &N,
    state: &StreamState,
    layout: &Layout,
    after: &Positions,
    max: usize,
) -> Result<Read, Fault> {
    let mut found: Vec<Vec<Stored>> = layout.parts.iter().map(|_| Vec::new()).collect();
    let mut asked: Vec<(&Part, Option<Position>)> =
        layout.parts.iter().map(|part| (part, after.get(part.index))).collect();
    let mut total = 0;
    let mut first = true;
    while total < max && !asked.is_empty() {
        let share = ((max - total) / asked.len()).max(1);
        let pages = pages(nodes, state, &asked, share).await?;
        let doubtful: Vec<_> =
            asked.iter().zip(&pages).filter(|(_, (_, certain))| !certain).map(|(asked, _)| *asked).collect();
        let mut more = Vec::new();
        for ((part, _), (records, certain)) in asked.into_iter().zip(pages) {
            if let Some(last) = records.last().filter(|_| certain && records.len() == share) {
                more.push((part, Some(last.position)));
            }
            if certain {
                total += records.len();
                found[part.index as usize].extend(records);
            }
        }
        // What is doubtful later has been read up to there, and is told by the next read.
        if std::mem::take(&mut first) && !doubtful.is_empty() {
            for ((part, _), read) in doubtful.iter().zip(ask(nodes, state, &doubtful, share).await?) {
                match read {
                    Read::Records(records) => {
                        total += records.len();
                        if let Some(last) = records.last().filter(|_| records.len() == share) {
                            more.push((part, Some(last.position)));
                        }
                        found[part.index as usize] = records;
                    }
                    trimmed @ Read::Trimmed { .. } => return Ok(trimmed),
                }
            }
        }
        asked = more;
    }
    Ok(Read::Records(state.spread(found, max)))
}

/// Reads a page of each partition, and says of each whether nothing was removed before it.
///
/// It reads from the position itself on: while the record that stands there is there, nothing behind it was removed.
/// Where it isn't, that can't be told.
async fn pages<N: Nodes>(
    nodes: &N,
    state: &StreamState,
    asked: &[(&Part, Option<Position>)],
    share: usize,
) -> Result<Vec<(Vec<Stored>, bool)>, Fault> {
    let commands: Vec<(u16, Packed)> = asked
        .iter()
        .map(|(part, after)| {
            let (from, count) = match after {
                Some(position) => (id_text(*position), share + 1),
                None => ("-".to_owned(), share),
            };
            (part.slot, packed("XRANGE", &[&part.log, &from, "+", "COUNT", &count.to_string()]))
        })
        .collect();
    let mut pages = Vec::with_capacity(asked.len());
    let replies = send_all(nodes, |node: &Node| node.reads.clone(), &commands).await;
    for ((part, after), reply) in asked.iter().zip(replies) {
        let mut records = Vec::new();
        read_entries(&mut Cursor::new(&reply?), &state.known, part.index, &mut records, &mut Vec::new())?;
        let certain = match (after, records.first()) {
            (Some(position), Some(first)) if first.position == *position => {
                records.remove(0);
                true
            }
            (None, Some(_)) => true,
            _ => false,
        };
        pages.push((records, certain));
    }
    Ok(pages)
}

/// Reads each partition by the script that tells whether something was removed.
async fn ask<N: Nodes>(
    nodes: &N,
    state: &StreamState,
    asked: &[(&Part, Option<Position>)],
    share: usize,
) -> Result<Vec<Read>, Fault> {
    let count = share.to_string();
    let from: Vec<String> = asked.iter().map(|(_, after)| after.map_or_else(|| "0-0".to_owned(), id_text)).collect();
    let calls: Vec<Call<'_>> = asked
        .iter()
        .zip(&from)
        .map(|((part, _), from)| Call {
            slot: part.slot,
            keys: vec![part.log.as_bytes()],
            arguments: vec![from.as_bytes(), count.as_bytes()],
        })
        .collect();
    let replies = run_all(nodes, |node| &node.reads, &READ, &calls).await;
    asked.iter().zip(replies).map(|((part, after), reply)| judge(state, part, *after, &reply?)).collect()
}

fn judge(state: &StreamState, part: &Part, after: Option<Position>, reply: &Bytes) -> Result<Read, Fault> {
    let mut reply = Cursor::new(reply);
    if reply.list()? != Some(5) {
        return Err(Fault::malformed());
    }
    let (there, ever) = (reply.number()?, reply.number()?);
    let position = |(high, low)| Position::of_halves(part.index, high, low);
    let (last, first) = (position(reply.id()?), position(reply.id()?));
    if let Some(after) = after {
        // Where nothing was ever removed, a position before the first entry is of a stream that was deleted, and what stood
        // behind it there is gone.
        let missed = ever != there || after.offset() > 0;
        // Nothing can stand between two ids that follow each other.
        let before_first = there == 0 || after.offset().saturating_add(1) < first.offset();
        if missed && before_first && after < last {
            // Where nothing is left, the next record comes first, after the last there was.
            let first = if there == 0 { Position::new(part.index, last.offset().saturating_add(1)) } else { first };
            return Ok(Read::Trimmed { first, certain: false });
        }
    }
    let mut records = Vec::new();
    read_entries(&mut reply, &state.known, part.index, &mut records, &mut Vec::new())?;
    Ok(Read::Records(records))
}

/// Waits until one of the partitions has something, or the time is up.
async fn wait_for_more<N: Nodes>(
    nodes: &N,
    state: &StreamState,
    layout: &Layout,
    after: &Positions,
    block: u64,
    permit: Permit,
) -> Result<(), Fault> {
    let mut running = Vec::new();
    let (parts, block) = waited::<N>(layout, state.turn(), block);
    for (node, parts) in places(nodes, parts).await? {
        let block_text = block.to_string();
        let mut words = vec!["COUNT", "1", "BLOCK", &block_text, "STREAMS"];
        words.extend(parts.iter().map(|part| &*part.log));
        let from: Vec<String> =
            parts.iter().map(|part| after.get(part.index).map_or_else(|| "0-0".to_owned(), id_text)).collect();
        words.extend(from.iter().map(|from| &**from));
        let Packed { word, bytes } = packed("XREAD", &words);
        let job = Job {
            bytes,
            words: vec![word],
            enough: Instant::now() + Duration::from_millis(block) + GRACE,
            permit: permit.clone(),
            unclaimed: None,
        };
        running.push((node.readers.start(job)?, node));
    }
    // Those that are left are dropped, which ends their wait.
    std::future::poll_fn(|cx| {
        for (running, node) in &mut running {
            if let std::task::Poll::Ready(answer) = running.poll(cx) {
                let reply = answer
                    .and_then(|replies| replies.get().first().cloned().unwrap_or_else(|| Err(Fault::malformed())));
                return std::task::Poll::Ready(match reply {
                    // The next look follows what has moved.
                    Err(fault) if nodes.redirected(&fault, node).is_some() => Ok(()),
                    Err(fault) => Err(fault),
                    Ok(_) => Ok(()),
                });
            }
        }
        std::task::Poll::Pending
    })
    .await
}
