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
use super::{Nodes, id_text, packed, permit, places, waited};
use crate::capability::{Read, Stored, StreamAddress};
use crate::stream::{Position, Positions};

/// A server is asked to wait for so long at most; then it is asked again.
pub(super) const LONGEST_BLOCK: Duration = Duration::from_hours(1);
/// A server that is asked to wait answers within so long after that; else it is told to.
pub(super) const GRACE: Duration = Duration::from_millis(50);

/// Up to when a call waits. Further off than anyone can wait is as good as that.
pub(super) fn until(wait: Duration) -> Instant {
    Instant::now() + wait.min(Duration::from_hours(24 * 365))
}

/// How long the server is to wait now, in whole milliseconds. `None` where there is nothing left to wait.
pub(super) fn block(until: Instant) -> Option<u64> {
    let left = until.saturating_duration_since(Instant::now()).min(LONGEST_BLOCK);
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
    let state = state(stream);
    loop {
        let layout = state.layout(nodes, stream).await?;
        let found = fetch(nodes, state, &layout, after, max).await.inspect_err(|fault| state.learn(fault))?;
        let empty = matches!(&found, Read::Records(records) if records.is_empty());
        match block(until).filter(|_| empty && !wait.is_zero()) {
            None => return Ok(found),
            Some(block) => wait_for_more(nodes, state, &layout, after, block).await?,
        }
    }
}

/// Reads what is there.
///
/// It reads from the position itself on: while the record that stands there is there, nothing behind it was removed.
/// Where it isn't, a script says what there is and what was, at one moment.
async fn fetch<N: Nodes>(
    nodes: &N,
    state: &StreamState,
    layout: &Layout,
    after: &Positions,
    max: usize,
) -> Result<Read, Fault> {
    let share = (max / layout.parts.len()).max(1);
    let commands: Vec<(u16, Packed)> = layout
        .parts
        .iter()
        .map(|part| {
            let (from, count) = match after.get(part.index) {
                Some(position) => (id_text(position), share + 1),
                None => ("-".to_owned(), share),
            };
            (part.slot, packed("XRANGE", &[&part.log, &from, "+", "COUNT", &count.to_string()]))
        })
        .collect();
    let mut found: Vec<Vec<Stored>> = Vec::with_capacity(layout.parts.len());
    let mut doubtful: Vec<&Part> = Vec::new();
    let replies = send_all(nodes, |node: &Node| node.reads.clone(), &commands).await;
    for (part, reply) in layout.parts.iter().zip(replies) {
        let mut records = Vec::with_capacity(share + 1);
        read_entries(&mut Cursor::new(&reply?), &state.known, part.index, &mut records, &mut Vec::new())?;
        let certain = match (after.get(part.index), records.first()) {
            (Some(position), Some(first)) if first.position == position => {
                records.remove(0);
                true
            }
            (None, Some(_)) => true,
            _ => false,
        };
        if !certain {
            doubtful.push(part);
        }
        found.push(records);
    }
    if !doubtful.is_empty() {
        for (part, records) in doubtful.iter().zip(ask(nodes, state, &doubtful, after, share).await?) {
            match records {
                Read::Records(records) => found[part.index as usize] = records,
                trimmed @ Read::Trimmed { .. } => return Ok(trimmed),
            }
        }
    }
    Ok(Read::Records(state.spread(found, max)))
}

/// Reads each partition by the script that tells whether something was removed.
async fn ask<N: Nodes>(
    nodes: &N,
    state: &StreamState,
    parts: &[&Part],
    after: &Positions,
    share: usize,
) -> Result<Vec<Read>, Fault> {
    let count = share.to_string();
    let from: Vec<String> =
        parts.iter().map(|part| after.get(part.index).map_or_else(|| "0-0".to_owned(), id_text)).collect();
    let calls: Vec<Call<'_>> = parts
        .iter()
        .zip(&from)
        .map(|(part, from)| Call {
            slot: part.slot,
            keys: vec![part.log.as_bytes()],
            arguments: vec![from.as_bytes(), count.as_bytes()],
        })
        .collect();
    let replies = run_all(nodes, |node| &node.reads, &READ, &calls).await;
    parts.iter().zip(replies).map(|(part, reply)| judge(state, part, after.get(part.index), &reply?)).collect()
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
        let removed = ever != there;
        let before_first = there == 0 || after < first;
        if removed && before_first && after < last {
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
) -> Result<(), Fault> {
    let mut running = Vec::new();
    let (parts, block) = waited::<N>(layout, state.turn(), block);
    let permit = permit(nodes, true).await?;
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
