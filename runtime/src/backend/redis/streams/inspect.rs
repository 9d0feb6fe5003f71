//! Looking at groups.

use std::time::Duration;

use super::super::fault::Fault;
use super::super::pipeline::Packed;
use super::super::resp::{Cursor, Value};
use super::layout::state;
use super::node::Node;
use super::scripts::SETTLED;
use super::send::{Call, run_all, send_all};
use super::{Nodes, id_text, packed};
use crate::capability::GroupAddress;
use crate::error::{ErrorKind, Outcome};
use crate::stream::{Depth, PendingEntry, Position, Positions};

/// So many partitions are asked at once for what is pending, of which all but the first are often asked in vain.
const AT_ONCE: usize = 16;

pub(in super::super) async fn pending<N: Nodes>(
    nodes: &N,
    group: &GroupAddress,
    after: Option<Position>,
    max: usize,
) -> Result<Vec<PendingEntry>, Fault> {
    let state = state(group.stream());
    let layout = state.layout(nodes, group.stream()).await?;
    let first = after.map_or(0, Position::partition);
    let count = max.to_string();
    let mut entries = Vec::new();
    let parts: Vec<_> = layout.parts.iter().filter(|part| part.index >= first).collect();
    for parts in parts.chunks(AT_ONCE) {
        let commands: Vec<(u16, Packed)> = parts
            .iter()
            .map(|part| {
                let after = after.filter(|after| after.partition() == part.index);
                let from = after.map_or_else(|| "-".to_owned(), |after| format!("({}", id_text(after)));
                (part.slot, packed("XPENDING", &[&part.log, group.name(), &from, "+", &count]))
            })
            .collect();
        let replies = send_all(nodes, |node: &Node| node.control.clone(), &commands).await;
        for (part, reply) in parts.iter().zip(replies) {
            let reply = reply.inspect_err(|fault| state.learn(fault))?;
            let mut reply = Cursor::new(&reply);
            for _ in 0..reply.list()?.unwrap_or(0) {
                reply.list()?;
                let (high, low) = reply.id()?;
                let consumer = String::from_utf8_lossy(reply.text()?).into_owned();
                let idle = Duration::from_millis(u64::try_from(reply.number()?).unwrap_or(0));
                let attempt = u32::try_from(reply.number()?).unwrap_or(u32::MAX);
                if entries.len() < max {
                    entries.push(PendingEntry::new(
                        Position::of_halves(part.index, high, low),
                        consumer,
                        idle,
                        attempt,
                    ));
                }
            }
        }
        if entries.len() >= max {
            break;
        }
    }
    Ok(entries)
}

pub(in super::super) async fn depth<N: Nodes>(nodes: &N, group: &GroupAddress) -> Result<Depth, Fault> {
    let state = state(group.stream());
    let layout = state.layout(nodes, group.stream()).await?;
    let commands: Vec<(u16, Packed)> =
        layout.parts.iter().map(|part| (part.slot, packed("XINFO GROUPS", &[&part.log]))).collect();
    let mut depth = Depth::new(0, Some(0));
    for reply in send_all(nodes, |node: &Node| node.control.clone(), &commands).await {
        let reply = Cursor::new(&reply.inspect_err(|fault| state.learn(fault))?).value()?;
        let found = reply
            .list()?
            .iter()
            .find(|held| matches!(held.field("name"), Some(Value::Text(name)) if name == group.name().as_bytes()));
        let Some(found) = found else {
            let text = "the group isn't there; `ensure` creates it";
            return Err(Fault::new(ErrorKind::Absent, Outcome::NotApplied, text));
        };
        depth.pending += found.field("pending").ok_or_else(Fault::malformed)?.number()?;
        let unread = match found.field("lag") {
            Some(lag @ Value::Number(_)) => Some(lag.number()?),
            _ => None,
        };
        depth.unread = depth.unread.zip(unread).map(|(sum, unread)| sum + unread);
    }
    Ok(depth)
}

pub(in super::super) async fn settled<N: Nodes>(nodes: &N, group: &GroupAddress) -> Result<Positions, Fault> {
    let state = state(group.stream());
    let layout = state.layout(nodes, group.stream()).await?;
    let calls: Vec<Call<'_>> = layout
        .parts
        .iter()
        .map(|part| Call { slot: part.slot, keys: vec![part.log.as_bytes()], arguments: vec![group.name().as_bytes()] })
        .collect();
    let mut settled = Positions::new();
    let replies = run_all(nodes, |node| &node.control, &SETTLED, &calls).await;
    for (part, reply) in layout.parts.iter().zip(replies) {
        let reply = reply.inspect_err(|fault| state.learn(fault))?;
        let mut reply = Cursor::new(&reply);
        if reply.list()?.is_none() {
            continue;
        }
        let at = reply.text()? == b"at";
        let (high, low) = reply.id()?;
        let position = Position::of_halves(part.index, high, low);
        let offset = if at { Some(position.offset()) } else { position.offset().checked_sub(1) };
        settled.extend(offset.map(|offset| Position::new(part.index, offset)));
    }
    Ok(settled)
}
