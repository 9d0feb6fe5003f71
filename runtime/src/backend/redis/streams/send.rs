//! Commands to the nodes that have their keys, following what has moved once.

use std::sync::Arc;

use bytes::Bytes;
use tokio::time::{Instant, timeout_at};

use super::super::fault::{Code, Fault};
use super::super::pipeline::{Answer, Command, Packed, Pipeline};
use super::Nodes;
use super::node::{Doubt, Node};
use super::scripts::Script;
use crate::error::Outcome;

/// Sends one command to the node that has the slot.
pub(super) async fn send<N: Nodes, R: Answer>(
    nodes: &N,
    slot: u16,
    lane: impl Fn(&Node) -> &Arc<Pipeline<R>>,
    command: &impl Command,
) -> Result<R, Fault> {
    let doubt = Doubt::new(nodes);
    let reply = send_by(nodes, slot, |node| lane(node).clone(), command).await;
    doubt.dispel();
    reply
}

pub(super) async fn send_by<N: Nodes, R: Answer>(
    nodes: &N,
    slot: u16,
    lane: impl Fn(&Node) -> Arc<Pipeline<R>>,
    command: &impl Command,
) -> Result<R, Fault> {
    let deadline = Instant::now() + nodes.host().limits().timeout;
    let (node, reply) = if let Some(node) = nodes.known(slot)? {
        // The pipeline keeps the time itself.
        let reply = lane(&node).call(command).await;
        (node, reply)
    } else {
        let node = by(deadline, Outcome::NotApplied, nodes.owner(slot)).await?;
        let reply = Box::pin(by(deadline, Outcome::Unknown, lane(&node).call(command))).await;
        (node, reply)
    };
    let Err(fault) = &reply else { return reply };
    let Some(named) = nodes.redirected(fault, &node) else { return reply };
    let reply = Box::pin(by(deadline, Outcome::Unknown, lane(&named).call(command))).await;
    if let Err(fault) = &reply {
        nodes.redirected(fault, &named);
    }
    reply
}

/// Sends commands to the nodes that have their slots, those of one node in order, and returns each one's own reply.
pub(super) async fn send_all<N: Nodes, R: Answer, C: Command + Sync>(
    nodes: &N,
    lane: impl Fn(&Node) -> Arc<Pipeline<R>>,
    commands: &[(u16, C)],
) -> Vec<Result<R, Fault>> {
    let doubt = Doubt::new(nodes);
    let deadline = Instant::now() + nodes.host().limits().timeout;
    let mut replies: Vec<Option<Result<R, Fault>>> = commands.iter().map(|_| None).collect();
    let mut groups: Vec<(Arc<Node>, Vec<usize>)> = Vec::new();
    let mut failed: Option<Fault> = None;
    let mut last: Option<(u16, usize)> = None;
    for (index, (slot, _)) in commands.iter().enumerate() {
        // Neighbours have the same slot more often than not.
        if let Some((_, group)) = last.filter(|(known, _)| known == slot) {
            groups[group].1.push(index);
            continue;
        }
        let owner = match (nodes.known(*slot), &failed) {
            (Ok(None), None) => by(deadline, Outcome::NotApplied, nodes.owner(*slot)).await,
            // The cluster has been asked in vain; once is enough for a batch.
            (Ok(None), Some(fault)) => Err(fault.clone()),
            (Ok(Some(node)), _) => Ok(node),
            (Err(fault), _) => Err(fault),
        };
        match owner {
            Err(fault) => {
                replies[index] = Some(Err(fault.clone()));
                failed.get_or_insert(fault);
            }
            Ok(node) => {
                let group = groups.iter().position(|(owner, _)| Arc::ptr_eq(owner, &node)).unwrap_or_else(|| {
                    groups.push((node, Vec::new()));
                    groups.len() - 1
                });
                groups[group].1.push(index);
                last = Some((*slot, group));
            }
        }
    }
    // The second time is for those whose slot has moved since the slots were asked for.
    for again in [false, true] {
        let mut moved: Vec<(Arc<Node>, Vec<usize>)> = Vec::new();
        let sending = std::mem::take(&mut groups).into_iter().map(async |(node, indices)| {
            let pipeline = lane(&node);
            let answers = pipeline.call_all(indices.iter().map(|index| Ref(&commands[*index].1)));
            let unanswered = || indices.iter().map(|_| Err(Fault::timeout(Outcome::Unknown))).collect();
            let group = if again || failed.is_some() {
                timeout_at(deadline, answers).await.unwrap_or_else(|_| unanswered())
            } else {
                answers.await
            };
            (node, indices, group)
        });
        for (node, indices, group) in join(sending).await {
            for (index, reply) in indices.into_iter().zip(group) {
                let named = reply.as_ref().err().and_then(|fault| nodes.redirected(fault, &node));
                if let (Some(named), false) = (named, again) {
                    match moved.iter_mut().find(|(owner, _)| Arc::ptr_eq(owner, &named)) {
                        Some((_, indices)) => indices.push(index),
                        None => moved.push((named, vec![index])),
                    }
                }
                replies[index] = Some(reply);
            }
        }
        if moved.is_empty() {
            break;
        }
        groups = moved;
    }
    doubt.dispel();
    replies.into_iter().flatten().collect()
}

struct Ref<'a, C>(&'a C);

impl<C: Command> Command for Ref<'_, C> {
    fn word(&self) -> &'static str {
        self.0.word()
    }

    fn write(&self, out: &mut Vec<u8>) {
        self.0.write(out);
    }
}

/// What a script is called with: the slot of its keys, the keys and the arguments.
pub(super) struct Call<'a> {
    pub(super) slot: u16,
    pub(super) keys: Vec<&'a [u8]>,
    pub(super) arguments: Vec<&'a [u8]>,
}

/// Runs a script on the node that has the slot.
pub(super) async fn run<N: Nodes>(
    nodes: &N,
    lane: impl Fn(&Node) -> &Arc<Pipeline<Bytes>>,
    script: &Script,
    call: &Call<'_>,
) -> Result<Bytes, Fault> {
    let short = script.call(false, &call.keys, &call.arguments);
    match send(nodes, call.slot, &lane, &short).await {
        Err(fault) if fault.code == Some(Code::UnknownScript) => {
            send(nodes, call.slot, &lane, &script.call(true, &call.keys, &call.arguments)).await
        }
        reply => reply,
    }
}

/// Runs a script once for each call, and returns each one's own reply.
pub(super) async fn run_all<N: Nodes>(
    nodes: &N,
    lane: impl Fn(&Node) -> &Arc<Pipeline<Bytes>>,
    script: &Script,
    calls: &[Call<'_>],
) -> Vec<Result<Bytes, Fault>> {
    let pack = |whole: bool, call: &Call<'_>| (call.slot, script.call(whole, &call.keys, &call.arguments));
    let short: Vec<(u16, Packed)> = calls.iter().map(|call| pack(false, call)).collect();
    let lane = |node: &Node| lane(node).clone();
    let mut replies = send_all(nodes, lane, &short).await;
    let unknown = |reply: &Result<Bytes, Fault>| matches!(reply, Err(fault) if fault.code == Some(Code::UnknownScript));
    let again: Vec<usize> = (0..replies.len()).filter(|index| unknown(&replies[*index])).collect();
    if !again.is_empty() {
        let whole: Vec<(u16, Packed)> = again.iter().map(|index| pack(true, &calls[*index])).collect();
        for (index, reply) in again.into_iter().zip(send_all(nodes, lane, &whole).await) {
            replies[index] = reply;
        }
    }
    replies
}

/// The replies of one operation's commands. Where one failed, the operation did; it says that nothing happened only where
/// that is so of all.
pub(super) fn together<R>(replies: Vec<Result<R, Fault>>) -> Result<Vec<R>, Fault> {
    let may_have_happened =
        |reply: &Result<R, Fault>| !matches!(reply, Err(fault) if fault.outcome == Outcome::NotApplied);
    let partly = replies.iter().any(may_have_happened);
    let replies: Result<Vec<R>, Fault> = replies.into_iter().collect();
    replies.map_err(|fault| if partly { fault.sent() } else { fault })
}

pub(super) async fn by<T>(
    deadline: Instant,
    late: Outcome,
    step: impl Future<Output = Result<T, Fault>>,
) -> Result<T, Fault> {
    timeout_at(deadline, step).await.unwrap_or_else(|_| Err(Fault::timeout(late)))
}

/// Awaits all at once.
pub(in super::super) async fn join<F: Future>(futures: impl Iterator<Item = F>) -> Vec<F::Output> {
    let mut running: Vec<std::pin::Pin<Box<F>>> = futures.map(Box::pin).collect();
    let mut outputs: Vec<Option<F::Output>> = running.iter().map(|_| None).collect();
    std::future::poll_fn(|cx| {
        for (future, output) in running.iter_mut().zip(&mut outputs).filter(|(_, output)| output.is_none()) {
            if let std::task::Poll::Ready(ready) = future.as_mut().poll(cx) {
                *output = Some(ready);
            }
        }
        if outputs.iter().all(Option::is_some) { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
    })
    .await;
    outputs.into_iter().flatten().collect()
}
