//! Acknowledging, keeping, giving back and taking over.

use std::time::Duration;

use bytes::Bytes;

use super::super::fault::Fault;
use super::super::link::header;
use super::super::pipeline::Command;
use super::super::resp::Cursor;
use super::group::group_state;
use super::layout::{Layout, Part, StreamState, millis, state, word};
use super::node::Node;
use super::record::read_entries;
use super::scripts::{CLAIM, EXTEND, HISTORY, RELEASE, Script};
use super::send::{Call, run, run_all, send, send_all, together};
use super::{Nodes, id_text, packed};
use crate::broker::lock;
use crate::capability::{GroupAddress, Taken};
use crate::stream::Position;

/// A script goes over so many entries at a time, since the server does nothing else meanwhile.
const STEP: usize = 128;
/// One claim asks so many times at most, beside once for each partition.
const MOST_STEPS: usize = 64;

/// Where the next claim begins: a partition, and an id in each.
#[derive(Default)]
pub(super) struct Claims {
    partition: usize,
    cursors: Vec<(u64, u64)>,
}

/// `XACK` of one partition.
struct Ack<'a> {
    part: &'a Part,
    group: &'a str,
    positions: Vec<Position>,
}

impl Command for Ack<'_> {
    fn word(&self) -> &'static str {
        "XACK"
    }

    fn write(&self, out: &mut Vec<u8>) {
        header(out, b'*', 3 + self.positions.len());
        word(out, b"XACK");
        word(out, self.part.log.as_bytes());
        word(out, self.group.as_bytes());
        for position in &self.positions {
            write_id(out, *position);
        }
    }
}

/// Appends an id as a word.
fn write_id(out: &mut Vec<u8>, position: Position) {
    let (high, low) = position.halves();
    let mut digits = [0; 41];
    let mut at = digits.len();
    for (index, mut half) in [low, high].into_iter().enumerate() {
        if index == 1 {
            at -= 1;
            digits[at] = b'-';
        }
        loop {
            at -= 1;
            digits[at] = b'0' + u8::try_from(half % 10).unwrap_or_default();
            half /= 10;
            if half == 0 {
                break;
            }
        }
    }
    word(out, &digits[at..]);
}

/// The positions by partition, those of partitions that there aren't left out.
fn by_part<'a>(layout: &'a Layout, positions: &[Position]) -> Vec<(&'a Part, Vec<Position>)> {
    let mut groups: Vec<(&Part, Vec<Position>)> = Vec::new();
    for position in positions {
        if let Some((_, group)) = groups.last_mut().filter(|(part, _)| part.index == position.partition()) {
            group.push(*position);
            continue;
        }
        match groups.iter_mut().find(|(part, _)| part.index == position.partition()) {
            Some((_, group)) => group.push(*position),
            None => groups.extend(layout.part(position.partition()).map(|part| (part, vec![*position]))),
        }
    }
    groups
}

pub(in super::super) async fn ack<N: Nodes>(
    nodes: &N,
    group: &GroupAddress,
    positions: &[Position],
) -> Result<u64, Fault> {
    let state = state(group.stream());
    let layout = state.layout(nodes, group.stream()).await?;
    let mut commands: Vec<(u16, Ack<'_>)> = by_part(&layout, positions)
        .into_iter()
        .map(|(part, positions)| (part.slot, Ack { part, group: group.name(), positions }))
        .collect();
    let replies = if commands.len() == 1
        && let Some((slot, command)) = commands.pop()
    {
        vec![send(nodes, slot, |node| &node.control, &command).await]
    } else {
        send_all(nodes, |node: &Node| node.control.clone(), &commands).await
    };
    let mut count = 0;
    for reply in together(replies)? {
        count += u64::try_from(Cursor::new(&reply).number()?).unwrap_or(0);
    }
    if count == 0 {
        // The server counts none in a group that isn't there, too.
        let part = &layout.parts[0];
        let command = packed("XPENDING", &[&part.log, group.name()]);
        send(nodes, part.slot, |node| &node.control, &command).await.inspect_err(|fault| state.learn(fault))?;
    }
    Ok(count)
}

/// Runs a script over a consumer's entries, some at a time.
async fn change<N: Nodes>(
    nodes: &N,
    group: &GroupAddress,
    consumer: &str,
    positions: &[Position],
    script: &Script,
) -> Result<Vec<(u32, Bytes)>, Fault> {
    let state = state(group.stream());
    let layout = state.layout(nodes, group.stream()).await?;
    let mut groups = by_part(&layout, positions);
    if groups.is_empty() {
        // Asked all the same, whether the group is there.
        groups.push((&layout.parts[0], Vec::new()));
        let command = packed("XPENDING", &[&layout.parts[0].log, group.name()]);
        send(nodes, layout.parts[0].slot, |node| &node.control, &command).await?;
    }
    let texts: Vec<(&Part, Vec<String>)> =
        groups.into_iter().map(|(part, ids)| (part, ids.into_iter().map(id_text).collect())).collect();
    let steps = texts.iter().flat_map(|(part, ids)| ids.chunks(STEP).map(move |ids| (*part, ids)));
    let calls: Vec<(u32, Call<'_>)> = steps
        .map(|(part, ids)| {
            let mut arguments = vec![group.name().as_bytes(), consumer.as_bytes()];
            arguments.extend(ids.iter().map(String::as_bytes));
            (part.index, Call { slot: part.slot, keys: vec![part.log.as_bytes()], arguments })
        })
        .collect();
    let (parts, calls): (Vec<u32>, Vec<Call<'_>>) = calls.into_iter().unzip();
    let replies = together(run_all(nodes, |node| &node.control, script, &calls).await);
    Ok(parts.into_iter().zip(replies.inspect_err(|fault| state.learn(fault))?).collect())
}

pub(in super::super) async fn extend<N: Nodes>(
    nodes: &N,
    group: &GroupAddress,
    consumer: &str,
    positions: &[Position],
) -> Result<Vec<Position>, Fault> {
    let mut kept = Vec::new();
    for (partition, reply) in change(nodes, group, consumer, positions, &EXTEND).await? {
        let mut reply = Cursor::new(&reply);
        for _ in 0..reply.list()?.unwrap_or(0) {
            let (high, low) = reply.id()?;
            kept.push(Position::of_halves(partition, high, low));
        }
    }
    Ok(kept)
}

pub(in super::super) async fn release<N: Nodes>(
    nodes: &N,
    group: &GroupAddress,
    consumer: &str,
    positions: &[Position],
) -> Result<(), Fault> {
    change(nodes, group, consumer, positions, &RELEASE).await.map(drop)
}

/// Reads entries, ids of those that are gone, and how often each was delivered. Returns the rest of the reply.
fn read_taken<'a>(
    reply: &'a Bytes,
    state: &StreamState,
    partition: u32,
    taken: &mut Taken,
) -> Result<(usize, Cursor<'a>), Fault> {
    let mut reply = Cursor::new(reply);
    reply.list()?;
    let before = taken.records.len();
    let gone = taken.lost.len();
    read_entries(&mut reply, &state.known, partition, &mut taken.records, &mut taken.lost)?;
    for _ in 0..reply.list()?.unwrap_or(0) {
        let (high, low) = reply.id()?;
        taken.lost.push(Position::of_halves(partition, high, low));
    }
    let counts = reply.list()?.unwrap_or(0);
    if counts != taken.records.len() - before {
        return Err(Fault::malformed());
    }
    for record in &mut taken.records[before..] {
        record.attempt = u32::try_from(reply.number()?).unwrap_or(u32::MAX);
    }
    Ok((taken.records.len() - before + taken.lost.len() - gone, reply))
}

pub(in super::super) async fn history<N: Nodes>(
    nodes: &N,
    group: &GroupAddress,
    consumer: &str,
    after: Option<Position>,
    max: usize,
) -> Result<Taken, Fault> {
    let state = state(group.stream());
    let layout = state.layout(nodes, group.stream()).await?;
    // What nobody has seen, held here or handed to a read that was dropped, mustn't count as delivered before.
    if after.is_none() {
        let held = group_state(group).forget_held(consumer);
        if !held.is_empty() {
            release(nodes, group, consumer, &held).await?;
        }
    }
    group_state(group).returned(nodes.host().limits().timeout / 2).await;
    let first = after.map_or(0, Position::partition);
    let mut taken = Taken::default();
    for part in layout.parts.iter().filter(|part| part.index >= first) {
        let mut from = match after.filter(|after| after.partition() == part.index) {
            Some(after) => id_text(after),
            None => "0-0".to_owned(),
        };
        loop {
            let left = max.saturating_sub(taken.records.len());
            if left == 0 {
                return Ok(taken);
            }
            let count = left.min(STEP).to_string();
            let arguments = [group.name(), consumer, &from, &count].map(str::as_bytes).to_vec();
            let call = Call { slot: part.slot, keys: vec![part.log.as_bytes()], arguments };
            let reply = run(nodes, |node| &node.reads, &HISTORY, &call).await;
            let reply = match reply.inspect_err(|fault| state.learn(fault)) {
                // What was redelivered before is told; the next page fails.
                Err(_) if !taken.is_empty() => return Ok(taken),
                reply => reply?,
            };
            let (read, _) = read_taken(&reply, state, part.index, &mut taken)?;
            if read < left.min(STEP) {
                break;
            }
            let last = taken.records.last().into_iter().map(|last| last.position).chain(taken.lost.last().copied());
            let last = last.filter(|last| last.partition() == part.index).max_by_key(|last| last.offset());
            match last {
                Some(last) => from = id_text(last),
                None => break,
            }
        }
    }
    Ok(taken)
}

pub(in super::super) async fn claim<N: Nodes>(
    nodes: &N,
    group: &GroupAddress,
    consumer: &str,
    idle: Duration,
    max: usize,
) -> Result<Taken, Fault> {
    let state = state(group.stream());
    let layout = state.layout(nodes, group.stream()).await?;
    let groups = group_state(group);
    let partitions = layout.parts.len();
    let (first, starts) = {
        let mut claims = lock(&groups.claims);
        claims.cursors.resize(partitions, (0, 0));
        (claims.partition % partitions, claims.cursors.clone())
    };
    let idle_text = millis(idle).to_string();
    let mut taken = Taken::default();
    let mut steps = MOST_STEPS;
    'partitions: for turn in 0..partitions {
        let index = (first + turn) % partitions;
        let part = &layout.parts[index];
        let start = starts[index];
        let mut cursor = start;
        // Begun in the middle, it goes on at the front. Without an idle time that would take the same again.
        let mut around = start == (0, 0) || idle.is_zero();
        loop {
            let left = max.saturating_sub(taken.records.len());
            if left == 0 || steps == 0 {
                break 'partitions;
            }
            let count = left.min(STEP).to_string();
            let from = format!("{}-{}", cursor.0, cursor.1);
            let arguments = [group.name(), consumer, &idle_text, &from, &count].map(str::as_bytes).to_vec();
            let call = Call { slot: part.slot, keys: vec![part.log.as_bytes()], arguments };
            let reply = run(nodes, |node| &node.reads, &CLAIM, &call).await;
            let reply = match reply.inspect_err(|fault| state.learn(fault)) {
                // What was taken over before is told; the next claim fails.
                Err(_) if !taken.is_empty() => break 'partitions,
                reply => reply?,
            };
            let (_, mut rest) = read_taken(&reply, state, part.index, &mut taken)?;
            cursor = rest.id()?;
            {
                let mut claims = lock(&groups.claims);
                claims.partition = index;
                if let Some(kept) = claims.cursors.get_mut(index) {
                    *kept = cursor;
                }
            }
            steps -= 1;
            let ended = cursor == (0, 0);
            if (ended && around) || (around && start != (0, 0) && !idle.is_zero() && cursor >= start) {
                break;
            }
            around |= ended;
        }
        // The partition was gone over, so the next claim begins with the next one.
        lock(&groups.claims).partition = index + 1;
    }
    taken.records.sort_by_key(|stored| (stored.position.partition(), stored.position.offset()));
    groups.forget_claimed(&taken.records);
    Ok(taken)
}
