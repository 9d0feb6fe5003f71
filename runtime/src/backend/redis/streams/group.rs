//! Groups, and the new entries that they hand out.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use tokio::time::Instant;

use super::super::fault::{Code, Fault};
use super::super::pipeline::{Packed, Pipeline};
use super::super::resp::Cursor;
use super::layout::{Layout, Part, StreamState, state};
use super::manage::before;
use super::node::Node;
use super::read::{GRACE, block, until};
use super::readers::{Job, Replies, Unclaimed};
use super::record::read_entries;
use super::scripts::{READ_NEW, RELEASE};
use super::send::send_all;
use super::{Nodes, by_node, id_text, packed, permit};
use crate::broker::lock;
use crate::capability::{GroupAddress, Stored};
use crate::stream::Start;

/// What a client keeps of one group.
#[derive(Default)]
pub(super) struct GroupState {
    /// Entries that were handed out beyond what a consumer asked for, for its next read.
    held: Mutex<HashMap<String, VecDeque<Stored>>>,
    /// Where the next claim begins.
    pub(super) claims: Mutex<super::settle::Claims>,
    turn: AtomicUsize,
}

pub(super) fn group_state(group: &GroupAddress) -> &GroupState {
    group.state(GroupState::default)
}

pub(in super::super) async fn ensure_group<N: Nodes>(
    nodes: &N,
    group: &GroupAddress,
    start: &Start,
) -> Result<bool, Fault> {
    let state = state(group.stream());
    let layout = state.layout(nodes, group.stream()).await?;
    let commands: Vec<(u16, Packed)> = layout
        .parts
        .iter()
        .map(|part| {
            let from = match start {
                Start::Earliest => "0".to_owned(),
                Start::Latest => "$".to_owned(),
                Start::At(time) => before(*time).map_or_else(|| "0".to_owned(), |(high, low)| format!("{high}-{low}")),
                Start::After(positions) => positions.get(part.index).map_or_else(|| "0".to_owned(), id_text),
            };
            (part.slot, packed("XGROUP CREATE", &[&part.log, group.name(), &from]))
        })
        .collect();
    let mut made = false;
    for reply in send_all(nodes, |node: &Node| node.control.clone(), &commands).await {
        match reply {
            Ok(_) => made = true,
            Err(fault) if fault.code == Some(Code::GroupExists) => {}
            Err(fault) => {
                state.learn(&fault);
                return Err(if made { fault.sent() } else { fault });
            }
        }
    }
    if made {
        lock(&group_state(group).held).clear();
    }
    Ok(made)
}

pub(in super::super) async fn delete_group<N: Nodes>(nodes: &N, group: &GroupAddress) -> Result<bool, Fault> {
    let state = state(group.stream());
    let layout = state.layout(nodes, group.stream()).await?;
    lock(&group_state(group).held).clear();
    let commands: Vec<(u16, Packed)> =
        layout.parts.iter().map(|part| (part.slot, packed("XGROUP DESTROY", &[&part.log, group.name()]))).collect();
    let mut removed = false;
    for reply in send_all(nodes, |node: &Node| node.control.clone(), &commands).await {
        let reply = reply.inspect_err(|fault| state.learn(fault))?;
        removed |= Cursor::new(&reply).number()? > 0;
    }
    Ok(removed)
}

pub(in super::super) async fn read_new<N: Nodes>(
    nodes: &N,
    group: &GroupAddress,
    consumer: &str,
    max: usize,
    wait: Duration,
) -> Result<Vec<Stored>, Fault> {
    let groups = group_state(group);
    let held = groups.take_held(consumer, max);
    if !held.is_empty() {
        return Ok(held);
    }
    let until = until(wait);
    let state = state(group.stream());
    let mut redirected = false;
    loop {
        let layout = state.layout(nodes, group.stream()).await?;
        let reading = Reading { state, groups, layout: &layout, group, consumer, max };
        // Fewer than there are partitions are read by a script that counts, before a wait for any.
        let scarce = max < layout.parts.len();
        if scarce {
            let (records, _) = reading.round(nodes, true, None).await?;
            if !records.is_empty() {
                return Ok(records);
            }
        }
        let block = block(until).filter(|_| !wait.is_zero());
        if scarce && block.is_none() {
            return Ok(Vec::new());
        }
        let (records, moved) = reading.round(nodes, false, block).await?;
        if moved && !redirected {
            redirected = true;
            continue;
        }
        if !records.is_empty() || block.is_none() || until <= Instant::now() {
            return Ok(records);
        }
    }
}

impl GroupState {
    fn take_held(&self, consumer: &str, max: usize) -> Vec<Stored> {
        let mut held = lock(&self.held);
        let Some(queue) = held.get_mut(consumer) else { return Vec::new() };
        let taken = queue.drain(..max.min(queue.len())).collect();
        if queue.is_empty() {
            held.remove(consumer);
        }
        taken
    }

    /// Forgets what is held for a consumer, which its history has.
    pub(super) fn forget_held(&self, consumer: &str) {
        lock(&self.held).remove(consumer);
    }
}

/// One read of new entries.
struct Reading<'a> {
    state: &'a StreamState,
    groups: &'a GroupState,
    layout: &'a Layout,
    group: &'a GroupAddress,
    consumer: &'a str,
    max: usize,
}

impl Reading<'_> {
    /// Asks every node at once, and returns what they handed out and whether a partition is elsewhere.
    async fn round<N: Nodes>(&self, nodes: &N, scarce: bool, block: Option<u64>) -> Result<(Vec<Stored>, bool), Fault> {
        let mut running = Vec::new();
        for (node, parts) in by_node(nodes, self.layout).await? {
            let job = self.job(nodes, &node, &parts, scarce, block).await?;
            let started = node.readers.start(job)?;
            running.push((started, node, None));
        }
        // The first that has something ends the others' wait, and what they hand out meanwhile comes along.
        std::future::poll_fn(|cx| {
            let mut enough = false;
            for (running, _, answer) in &mut running {
                if answer.is_none()
                    && let Poll::Ready(ready) = running.poll(cx)
                {
                    enough |= !matches!(&ready, Ok(replies) if matches!(replies.get(), [Ok(reply)] if is_empty(reply)));
                    *answer = Some(ready);
                }
            }
            if enough {
                running.iter_mut().for_each(|(running, ..)| running.stop_waiting());
            }
            if running.iter().all(|(.., answer)| answer.is_some()) { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
        let mut records = Vec::new();
        let mut failed = None;
        let mut moved = false;
        let mut taken: Vec<Replies> = Vec::new();
        for (_, node, answer) in running {
            let read = match answer {
                Some(Ok(replies)) => {
                    let read = match replies.get() {
                        [Ok(reply)] => self.parse(reply, &mut records),
                        [Err(fault), ..] => Err(fault.clone()),
                        _ => Err(Fault::malformed()),
                    };
                    taken.push(replies);
                    read
                }
                Some(Err(fault)) => Err(fault),
                None => Ok(()),
            };
            if let Err(fault) = read {
                self.state.learn(&fault);
                moved |= nodes.redirected(&fault, &node).is_some();
                failed.get_or_insert(fault);
            }
        }
        match failed {
            Some(fault) if records.is_empty() && !moved => return Err(fault),
            _ => {}
        }
        taken.iter_mut().for_each(Replies::taken);
        if records.len() > self.max {
            let more = records.split_off(self.max);
            lock(&self.groups.held).entry(self.consumer.to_owned()).or_default().extend(more);
        }
        Ok((records, moved))
    }

    async fn job<N: Nodes>(
        &self,
        nodes: &N,
        node: &Arc<Node>,
        parts: &[&Part],
        scarce: bool,
        block: Option<u64>,
    ) -> Result<Job, Fault> {
        let (group, consumer) = (&**self.group.name(), self.consumer);
        let count = (self.max / self.layout.parts.len()).max(1);
        let Packed { word, bytes } = if scarce {
            // Another partition comes first each time.
            let first = self.groups.turn.fetch_add(1, Ordering::Relaxed) % parts.len();
            let keys: Vec<&[u8]> =
                parts[first..].iter().chain(&parts[..first]).map(|part| part.log.as_bytes()).collect();
            let max = self.max.to_string();
            READ_NEW.call(true, &keys, &[group.as_bytes(), consumer.as_bytes(), max.as_bytes()])
        } else {
            let (count, block) = (count.to_string(), block.map(|block| block.to_string()));
            let mut words = vec!["GROUP", group, consumer, "COUNT", &count];
            if let Some(block) = &block {
                words.extend(["BLOCK", block]);
            }
            words.push("STREAMS");
            words.extend(parts.iter().map(|part| &*part.log));
            words.extend(parts.iter().map(|_| ">"));
            packed("XREADGROUP", &words)
        };
        Ok(Job {
            bytes,
            words: vec![word],
            enough: Instant::now()
                + block.map_or(nodes.host().limits().timeout, |block| Duration::from_millis(block) + GRACE),
            permit: permit(nodes, block.is_some()).await?,
            unclaimed: Some(self.give_back(&node.control)),
        })
    }

    /// What gives back entries that nobody took.
    fn give_back(&self, control: &Arc<Pipeline<Bytes>>) -> Unclaimed {
        let (group, consumer) = (self.group.name().clone(), self.consumer.to_owned());
        let control = control.clone();
        Box::new(move |replies| {
            for reply in replies.iter().flatten() {
                // What can't be read can't be given back either.
                let _ = each_log(reply, |log, entries| {
                    let ids = ids(entries)?;
                    if !ids.is_empty() {
                        let mut arguments = vec![group.as_bytes(), consumer.as_bytes()];
                        arguments.extend(&ids);
                        control.post(&RELEASE.call(true, &[log], &arguments));
                    }
                    Ok(())
                });
            }
        })
    }

    fn parse(&self, reply: &Bytes, records: &mut Vec<Stored>) -> Result<(), Fault> {
        each_log(reply, |log, entries| {
            let part = self.layout.parts.iter().find(|part| part.log.as_bytes() == log);
            let index = part.ok_or_else(Fault::malformed)?.index;
            read_entries(entries, &self.state.known, index, records, &mut Vec::new())
        })
    }
}

fn is_empty(reply: &Bytes) -> bool {
    matches!(Cursor::new(reply).list(), Ok(None | Some(0)))
}

/// Goes over the logs of a reply, each with its entries.
fn each_log<'a>(
    reply: &'a Bytes,
    mut take: impl FnMut(&'a [u8], &mut Cursor<'a>) -> Result<(), Fault>,
) -> Result<(), Fault> {
    let mut reply = Cursor::new(reply);
    for _ in 0..reply.list()?.unwrap_or(0) / 2 {
        let log = reply.text()?;
        take(log, &mut reply)?;
    }
    Ok(())
}

fn ids<'a>(entries: &mut Cursor<'a>) -> Result<Vec<&'a [u8]>, Fault> {
    let mut ids = Vec::new();
    for _ in 0..entries.list()?.unwrap_or(0) {
        entries.list()?;
        ids.push(entries.text()?);
        entries.skip()?;
    }
    Ok(ids)
}
