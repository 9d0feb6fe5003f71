//! Groups, and the new entries that they hand out.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::watch;
use tokio::time::{Instant, timeout};

use super::super::fault::{Code, Fault};
use super::super::pipeline::Packed;
use super::super::resp::Cursor;
use super::layout::{Layout, Part, StreamState, state};
use super::manage::{self, before};
use super::node::Node;
use super::read::{GRACE, block, until};
use super::readers::{Job, Replies, Returning, Running, Unclaimed};
use super::record::read_entries;
use super::scripts::{LOOK, READ_NEW, RELEASE};
use super::send::{send_all, together};
use super::settle::extend;
use super::{Nodes, Permit, keep_place, packed, permit, places, waited};
use crate::broker::lock;
use crate::capability::{GroupAddress, Read as Found, Stored};
use crate::stream::{Position, Start};

/// After a server whose memory was full has refused a transaction, reads are scripts for so long.
const FULL: Duration = Duration::from_secs(1);

/// What a client keeps of one group.
#[derive(Default)]
pub(super) struct GroupState {
    /// Entries that were handed out beyond what a consumer asked for, for its next read.
    held: Mutex<HashMap<String, VecDeque<Stored>>>,
    /// Where the next claim begins.
    pub(super) claims: Mutex<super::settle::Claims>,
    turn: AtomicUsize,
    /// When a transaction was refused because the server's memory is full.
    full: Mutex<Option<Instant>>,
    /// Where entries were removed before the group had them, or why that isn't known, which is still to be told.
    skipped: Arc<Mutex<VecDeque<Result<Skipped, Fault>>>>,
    /// How many reads that nobody wants any more have entries to give back, or may have.
    returning: watch::Sender<usize>,
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
    let infos = manage::infos(nodes, &layout).await.inspect_err(|fault| state.learn(fault))?;
    let commands: Vec<(u16, Packed)> = layout
        .parts
        .iter()
        .zip(infos)
        .map(|(part, info)| {
            let from = match start {
                Start::Earliest => (0, 0),
                Start::Latest => info.last,
                Start::At(time) => before(*time).unwrap_or_default(),
                Start::After(positions) => positions.get(part.index).map_or((0, 0), Position::halves),
            };
            // The server would hand out nothing until the ids have passed a start that is beyond the end.
            let from = from.min(info.last);
            let id = format!("{}-{}", from.0, from.1);
            // How many entries count as read, by which it is known later whether some were removed unread. In the middle
            // the server can't tell until the group has read to the end.
            let read = if from == info.last {
                info.added.to_string()
            } else if from < info.last && info.first.is_none_or(|first| from < first) {
                info.added.saturating_sub(info.length).to_string()
            } else {
                "-1".to_owned()
            };
            (part.slot, packed("XGROUP CREATE", &[&part.log, group.name(), &id, "ENTRIESREAD", &read]))
        })
        .collect();
    let mut replies = send_all(nodes, |node: &Node| node.control.clone(), &commands).await;
    replies.retain(|reply| !matches!(reply, Err(fault) if fault.code == Some(Code::GroupExists)));
    let made = !together(replies).inspect_err(|fault| state.learn(fault))?.is_empty();
    if made {
        group_state(group).forget();
    }
    Ok(made)
}

pub(in super::super) async fn delete_group<N: Nodes>(nodes: &N, group: &GroupAddress) -> Result<bool, Fault> {
    let state = state(group.stream());
    let layout = state.layout(nodes, group.stream()).await?;
    group_state(group).forget();
    let commands: Vec<(u16, Packed)> =
        layout.parts.iter().map(|part| (part.slot, packed("XGROUP DESTROY", &[&part.log, group.name()]))).collect();
    let mut removed = false;
    let replies = send_all(nodes, |node: &Node| node.control.clone(), &commands).await;
    for reply in together(replies).inspect_err(|fault| state.learn(fault))? {
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
) -> Result<Found, Fault> {
    let groups = group_state(group);
    let until = until(wait);
    let state = state(group.stream());
    let mut redirected = false;
    let mut place = None;
    loop {
        // It stood before what is held.
        if let Some(trimmed) = groups.trimmed() {
            return trimmed;
        }
        let held = groups.held(consumer, max);
        if !held.is_empty() {
            // They may have been idle long enough for another to claim them.
            let kept = extend(nodes, group, consumer, &held).await?;
            let taken = groups.take_held(consumer, &held, &kept);
            if !taken.is_empty() {
                return Ok(Found::Records(taken));
            }
        }
        let layout = state.layout(nodes, group.stream()).await?;
        let reading = Reading { state, groups, layout: &layout, group, consumer, max };
        let block = block(until, nodes.host().limits().heartbeat).filter(|_| !wait.is_zero());
        let mut read = reading.at_once(nodes).await?;
        if let (Some(block), false) = (block, read.moved.is_some() || read.is_something()) {
            let (parts, block) = waited::<N>(&layout, groups.turn(), block);
            let places = places(nodes, parts).await?.into_iter().map(|(node, parts)| (node, vec![parts])).collect();
            let wait = Some((block, keep_place(nodes, &mut place).await?));
            read = reading.round(nodes, places, Way::Wait, wait, reading.share()).await?;
        }
        match read.moved.take() {
            Some(_) if !std::mem::replace(&mut redirected, true) => continue,
            Some(fault) if !read.is_something() => return Err(fault),
            Some(_) => {}
            None => redirected = false,
        }
        if read.is_something() || block.is_none() || until <= Instant::now() {
            reading.fill_up(nodes, &mut read).await;
            return reading.take(read);
        }
    }
}

/// Where entries were removed before the group had them.
struct Skipped {
    first: Position,
    certain: bool,
}

/// What a round found.
#[derive(Default)]
struct Read {
    /// What was handed out before the next was known.
    before: Vec<Stored>,
    skipped: Vec<Result<Skipped, Fault>>,
    /// What stands behind that.
    records: Vec<Stored>,
    /// Where they are from. Dropped before they are taken, these give them back.
    replies: Vec<Replies>,
    /// The refusal of a partition that turned out to be elsewhere.
    moved: Option<Fault>,
}

impl Read {
    fn is_something(&self) -> bool {
        !self.records.is_empty() || !self.skipped.is_empty()
    }
}

impl GroupState {
    /// Forgets what is kept of a group that is gone or was made just now.
    fn forget(&self) {
        lock(&self.held).clear();
        lock(&self.skipped).clear();
    }

    /// Takes what is still to be told of entries that were removed unread.
    fn trimmed(&self) -> Option<Result<Found, Fault>> {
        let skipped = lock(&self.skipped).pop_front()?;
        Some(skipped.map(|Skipped { first, certain }| Found::Trimmed { first, certain }))
    }

    fn hold(&self, consumer: &str, records: Vec<Stored>) {
        if !records.is_empty() {
            lock(&self.held).entry(consumer.to_owned()).or_default().extend(records);
        }
    }

    /// What is held for a consumer, at most so many.
    fn held(&self, consumer: &str, max: usize) -> Vec<Position> {
        let held = lock(&self.held);
        held.get(consumer).into_iter().flatten().take(max).map(|stored| stored.position).collect()
    }

    /// Takes those that were kept of these, and forgets the others.
    fn take_held(&self, consumer: &str, of: &[Position], kept: &[Position]) -> Vec<Stored> {
        let mut held = lock(&self.held);
        let Some(queue) = held.get_mut(consumer) else { return Vec::new() };
        let (mut taken, rest) =
            std::mem::take(queue).into_iter().partition::<Vec<_>, _>(|stored| of.contains(&stored.position));
        queue.extend(rest);
        if queue.is_empty() {
            held.remove(consumer);
        }
        taken.retain(|stored| kept.contains(&stored.position));
        taken
    }

    /// Waits until nothing is to be given back, or that takes longer than this.
    pub(super) async fn returned(&self, most: Duration) {
        let mut returning = self.returning.subscribe();
        let _ = timeout(most, returning.wait_for(|reads| *reads == 0)).await;
    }

    fn turn(&self) -> usize {
        self.turn.fetch_add(1, Ordering::Relaxed)
    }

    /// Forgets what is held of these, which were claimed.
    pub(super) fn forget_claimed(&self, claimed: &[Stored]) {
        let mut held = lock(&self.held);
        if !held.is_empty() {
            for queue in held.values_mut() {
                queue.retain(|stored| claimed.iter().all(|claimed| claimed.position != stored.position));
            }
            held.retain(|_, queue| !queue.is_empty());
        }
    }

    /// Forgets what is held for a consumer, which its history has, and returns its positions.
    pub(super) fn forget_held(&self, consumer: &str) -> Vec<Position> {
        lock(&self.held).remove(consumer).into_iter().flatten().map(|stored| stored.position).collect()
    }
}

/// The commands that read these partitions, by node.
async fn jobs<'a, N: Nodes>(nodes: &N, parts: &[&'a Part]) -> Result<Vec<(Arc<Node>, Vec<Vec<&'a Part>>)>, Fault> {
    let mut jobs: Vec<(Arc<Node>, Vec<Vec<&Part>>)> = Vec::new();
    for (node, parts) in places(nodes, parts.iter().copied()).await? {
        match jobs.iter_mut().find(|(owner, _)| Arc::ptr_eq(owner, &node)) {
            Some((_, commands)) => commands.push(parts),
            None => jobs.push((node, vec![parts])),
        }
    }
    Ok(jobs)
}

/// How new entries are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// By a command that waits, behind a look in the same write: hardly anything comes between.
    Wait,
    /// In a transaction with a look for what was removed unread.
    Transaction,
    /// By a script that looks, too: it counts over several partitions, and takes the server twice as long.
    Script,
}

/// A connection that was asked, and its answer.
type Asked = (Running, Arc<Node>, Option<Result<Replies, Fault>>);

/// One read of new entries.
struct Reading<'a> {
    state: &'a StreamState,
    groups: &'a GroupState,
    layout: &'a Arc<Layout>,
    group: &'a GroupAddress,
    consumer: &'a str,
    max: usize,
}

impl Reading<'_> {
    /// How many entries one partition may hand out, so that all of them together hand out no more than is asked for.
    fn share(&self) -> usize {
        (self.max / self.layout.parts.len()).max(1)
    }

    /// Reads more of those partitions that had as much as they might hand out.
    async fn fill_up<N: Nodes>(&self, nodes: &N, read: &mut Read) {
        let mut share = self.share();
        let mut before = 0;
        while read.skipped.is_empty() && read.records.len() < self.max && self.layout.parts.len() > 1 {
            let handed = |part: &&Part| {
                let own = |stored: &&Stored| stored.position.partition() == part.index;
                read.records[before..].iter().filter(own).count()
            };
            let full: Vec<&Part> = self.layout.parts.iter().filter(|part| handed(part) >= share).collect();
            if full.is_empty() || self.max - read.records.len() < full.len() {
                return;
            }
            before = read.records.len();
            share = (self.max - before) / full.len();
            // What was handed out already is answer enough where this fails.
            let Ok(jobs) = jobs(nodes, &full).await else { return };
            let Ok(more) = self.round(nodes, jobs, self.way(), None, share).await else { return };
            if !more.skipped.is_empty() {
                read.before = std::mem::take(&mut read.records);
            }
            read.skipped = more.skipped;
            read.records.extend(more.records);
            read.replies.extend(more.replies);
        }
    }

    /// Takes what comes first of what was read; the rest is held for the next read.
    fn take(&self, mut read: Read) -> Result<Found, Fault> {
        read.replies.iter_mut().for_each(Replies::taken);
        lock(&self.groups.skipped).extend(read.skipped);
        if !read.before.is_empty() {
            self.groups.hold(self.consumer, read.records);
            return Ok(Found::Records(read.before));
        }
        if let Some(trimmed) = self.groups.trimmed() {
            self.groups.hold(self.consumer, read.records);
            return trimmed;
        }
        if read.records.len() > self.max {
            self.groups.hold(self.consumer, read.records.split_off(self.max));
        }
        Ok(Found::Records(read.records))
    }

    /// Reads what is there.
    async fn at_once<N: Nodes>(&self, nodes: &N) -> Result<Read, Fault> {
        match self.each_at_once(nodes).await {
            // Redis 7.0 takes no transaction then, and who consumes may be who makes room.
            Err(fault) if fault.code == Some(Code::Full) => self.each_at_once(nodes).await,
            read => read,
        }
    }

    async fn each_at_once<N: Nodes>(&self, nodes: &N) -> Result<Read, Fault> {
        let all = self.layout.parts.len();
        let scarce = self.max < all;
        // Another partition comes first each time.
        let parts = self.layout.parts.iter().cycle().skip(self.groups.turn() % all).take(all);
        if scarce && !N::APART {
            let node = nodes.owner(self.layout.parts[0].slot).await?;
            return self.round(nodes, vec![(node, vec![parts.collect()])], Way::Script, None, self.max).await;
        }
        // Fewer than there are partitions are read from as many partitions at a time, so that nothing is left over.
        let parts: Vec<&Part> = parts.collect();
        for parts in parts.chunks(if scarce { self.max } else { all }) {
            let read = self.round(nodes, jobs(nodes, parts).await?, self.way(), None, self.share()).await?;
            if read.moved.is_some() || read.is_something() {
                return Ok(read);
            }
        }
        Ok(Read::default())
    }

    /// How to read at once.
    fn way(&self) -> Way {
        let full = lock(&self.groups.full).is_some_and(|since| since.elapsed() < FULL);
        if full { Way::Script } else { Way::Transaction }
    }

    /// Asks with these commands on these nodes, all at once, and to wait so many milliseconds.
    async fn round<N: Nodes>(
        &self,
        nodes: &N,
        jobs: Vec<(Arc<Node>, Vec<Vec<&Part>>)>,
        way: Way,
        wait: Option<(u64, Permit)>,
        share: usize,
    ) -> Result<Read, Fault> {
        let (block, permit) = match wait {
            Some((block, permit)) => (Some(block), permit),
            None => (None, permit(nodes, false).await?),
        };
        let patience = block.map_or(nodes.host().limits().timeout, |block| Duration::from_millis(block) + GRACE);
        let mut running = Vec::with_capacity(jobs.len());
        for (node, commands) in jobs {
            let mut job = (Vec::new(), Vec::with_capacity(commands.len()));
            for parts in commands {
                self.add(&mut job, &parts, way, share, block);
            }
            let ((bytes, words), unclaimed) = (job, Some(self.give_back(way)));
            let job = Job { bytes, words, enough: Instant::now() + patience, permit: permit.clone(), unclaimed };
            running.push((node.readers.start(job)?, node, None));
        }
        self.gather(nodes, running, way).await
    }

    /// Appends what reads these partitions of one slot: so many entries of each or, where a script has more partitions than
    /// it may hand out entries, so many in all.
    fn add(&self, job: &mut (Vec<u8>, Vec<&'static str>), parts: &[&Part], way: Way, share: usize, block: Option<u64>) {
        let (group, share_text) = (&**self.group.name(), share.to_string());
        let logs: Vec<&[u8]> = parts.iter().map(|part| part.log.as_bytes()).collect();
        let mut commands = Vec::with_capacity(4);
        if way == Way::Script {
            let most = self.max.min(share.saturating_mul(parts.len())).to_string();
            let arguments = [group, self.consumer, &share_text, &most].map(str::as_bytes);
            commands.push(READ_NEW.call(true, &logs, &arguments));
        } else {
            let block = block.map(|block| block.to_string());
            let mut words = vec!["GROUP", group, self.consumer, "COUNT", &share_text];
            if let Some(block) = &block {
                words.extend(["BLOCK", block]);
            }
            words.push("STREAMS");
            words.extend(parts.iter().map(|part| &*part.log));
            words.extend(parts.iter().map(|_| ">"));
            let read = packed("XREADGROUP", &words);
            let look = LOOK.call(way != Way::Wait, &logs, &[group.as_bytes()]);
            if way == Way::Wait {
                commands.extend([look, read]);
            } else {
                commands.extend([packed("MULTI", &[]), look, read, packed("EXEC", &[])]);
            }
        }
        for Packed { word, bytes } in commands {
            job.1.push(word);
            if job.0.is_empty() { job.0 = bytes } else { job.0.extend(bytes) }
        }
    }

    /// Awaits all, and returns what they handed out.
    async fn gather<N: Nodes>(&self, nodes: &N, mut running: Vec<Asked>, way: Way) -> Result<Read, Fault> {
        // The first that has something ends the others' wait, and what they hand out meanwhile comes along.
        std::future::poll_fn(|cx| {
            let mut enough = false;
            for (running, _, answer) in &mut running {
                if answer.is_none()
                    && let Poll::Ready(ready) = running.poll(cx)
                {
                    enough |=
                        way == Way::Wait && !ready.as_ref().is_ok_and(|replies| replies.get().iter().all(is_empty));
                    *answer = Some(ready);
                }
            }
            if enough {
                for (running, ..) in &mut running {
                    running.stop_waiting();
                }
            }
            if running.iter().all(|(.., answer)| answer.is_some()) { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
        let (mut skipped, mut records) = (Vec::new(), Vec::new());
        let (mut unlooked, mut moved, mut failed) = (None, None, None);
        let mut taken: Vec<Replies> = Vec::new();
        for (_, node, answer) in running {
            let mut fail = |fault: Fault| {
                self.state.learn(&fault);
                if way == Way::Transaction && fault.code == Some(Code::Full) {
                    *lock(&self.groups.full) = Some(Instant::now());
                }
                let elsewhere = nodes.redirected(&fault, &node).is_some();
                if elsewhere { &mut moved } else { &mut failed }.get_or_insert(fault);
            };
            match answer {
                Some(Ok(replies)) => {
                    for Answer { refused, looked, read } in answers(replies.get(), way) {
                        let looked = looked.map(|reply| each_skipped(&reply?, self.layout, &mut skipped));
                        if let Some(fault) = refused.or(looked.and_then(Result::err)) {
                            unlooked.get_or_insert(fault);
                        }
                        let read = read.and_then(|reply| self.parse(&reply, &mut records));
                        read.unwrap_or_else(&mut fail);
                    }
                    taken.push(replies);
                }
                Some(Err(fault)) => fail(fault),
                None => {}
            }
        }
        match failed {
            Some(fault) if records.is_empty() && moved.is_none() => return Err(fault),
            _ => {}
        }
        skipped.extend(unlooked.map(Err));
        Ok(Read { before: Vec::new(), skipped, records, replies: taken, moved })
    }

    /// What gives back entries that nobody took. One that its consumer has found in its history meanwhile stays there.
    fn give_back(&self, way: Way) -> Unclaimed {
        let (group, consumer) = (self.group.name().clone(), self.consumer.to_owned());
        let (layout, untold) = (self.layout.clone(), self.groups.skipped.clone());
        let commands = move |replies: &[Result<Bytes, Fault>]| {
            let mut commands = Vec::new();
            for Answer { refused, looked, read } in answers(replies, way) {
                let before = commands.len();
                // What can't be read can't be given back either.
                if let Ok(read) = read {
                    let _ = each_log(&read, |log, entries| {
                        let ids = ids(entries)?;
                        if !ids.is_empty() {
                            let mut arguments = vec![group.as_bytes(), consumer.as_bytes(), b"new"];
                            arguments.extend(&ids);
                            commands.push(RELEASE.call(true, &[log], &arguments));
                        }
                        Ok(())
                    });
                }
                let mut skipped = Vec::new();
                let looked = looked.map(|reply| each_skipped(&reply?, &layout, &mut skipped));
                let unlooked = refused.or(looked.and_then(Result::err)).filter(|_| commands.len() > before);
                skipped.extend(unlooked.map(Err));
                lock(&untold).extend(skipped);
            }
            commands
        };
        let returning = Arc::new(Returning::new(self.groups.returning.clone()));
        Unclaimed { commands: Box::new(commands), returning }
    }

    fn parse(&self, reply: &Bytes, records: &mut Vec<Stored>) -> Result<(), Fault> {
        each_log(reply, |log, entries| {
            let part = self.layout.parts.iter().find(|part| part.log.as_bytes() == log);
            let index = part.ok_or_else(Fault::malformed)?.index;
            read_entries(entries, &self.state.known, index, records, &mut Vec::new())
        })
    }
}

/// What one read was answered, and the look before it, if there was one.
struct Answer {
    /// Why they weren't in one transaction.
    refused: Option<Fault>,
    looked: Option<Result<Bytes, Fault>>,
    read: Result<Bytes, Fault>,
}

/// The answers of a job.
fn answers(replies: &[Result<Bytes, Fault>], way: Way) -> Vec<Answer> {
    let of_both = |reply: Result<&Bytes, Fault>| {
        reply.and_then(both).unwrap_or_else(|fault| Answer { refused: None, looked: None, read: Err(fault) })
    };
    let apart = |refused: Option<&Fault>, look: &Result<Bytes, Fault>, read: &Result<Bytes, Fault>| Answer {
        refused: refused.cloned(),
        looked: Some(look.clone()).filter(|look| !is_unknown(look)),
        read: read.clone(),
    };
    match way {
        Way::Wait => replies.as_chunks::<2>().0.iter().map(|[look, read]| apart(None, look, read)).collect(),
        Way::Script => replies.iter().map(|reply| of_both(reply.as_ref().map_err(Clone::clone))).collect(),
        Way::Transaction => {
            let transactions = replies.as_chunks::<4>().0.iter();
            transactions
                .map(|[begun, look, read, done]| match (begun, done) {
                    // What was to be in it has been carried out all the same.
                    (Err(refused), _) => apart(Some(refused), look, read),
                    (_, Ok(done)) => of_both(Ok(done)),
                    // What was refused at first says why all of it was.
                    (_, Err(aborted)) => of_both(Err([look, read]
                        .into_iter()
                        .find_map(|reply| reply.as_ref().err())
                        .unwrap_or(aborted)
                        .clone())),
                })
                .collect()
        }
    }
}

/// Whether the server didn't know the script. It does where a read at once has just been, but may have forgotten.
fn is_unknown(reply: &Result<Bytes, Fault>) -> bool {
    reply.as_ref().is_err_and(|fault| fault.code == Some(Code::UnknownScript))
}

/// What the reply of a transaction or a script holds.
fn both(done: &Bytes) -> Result<Answer, Fault> {
    let mut cursor = Cursor::new(done);
    if cursor.list()? != Some(2) {
        return Err(Fault::malformed());
    }
    let told = |reply: Bytes, word| match reply.first() {
        Some(b'-' | b'!') => Err(Fault::refused(&reply, word)),
        _ => Ok(reply),
    };
    // What was read is long, and the rest.
    Ok(Answer { refused: None, looked: Some(told(cursor.frame()?, "EVAL")), read: told(cursor.rest(), "XREADGROUP") })
}

/// Goes over what a look has found.
fn each_skipped(reply: &Bytes, layout: &Layout, skipped: &mut Vec<Result<Skipped, Fault>>) -> Result<(), Fault> {
    let mut reply = Cursor::new(reply);
    for _ in 0..reply.list()?.unwrap_or(0) / 4 {
        let log = reply.text()?;
        let part = layout.parts.iter().find(|part| part.log.as_bytes() == log).ok_or_else(Fault::malformed)?;
        let (high, low) = reply.id()?;
        let id = Position::of_halves(part.index, high, low);
        // Where nothing is left, the next record comes first, after the last there was.
        let first = if reply.number()? == 0 { Position::new(part.index, id.offset().saturating_add(1)) } else { id };
        skipped.push(Ok(Skipped { first, certain: reply.number()? == 1 }));
    }
    Ok(())
}

fn is_empty(reply: &Result<Bytes, Fault>) -> bool {
    is_unknown(reply) || reply.as_ref().is_ok_and(|reply| matches!(Cursor::new(reply).list(), Ok(None | Some(0))))
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
