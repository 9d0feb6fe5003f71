//! Appending.

use bytes::{Buf as _, BytesMut};
use tokio::time::Instant;

use super::super::fault::{Code, Fault};
use super::super::link::header;
use super::super::pipeline::{Answer, Command};
use super::super::resp::{self, Cursor};
use super::layout::{Layout, Part, StreamState, absent, millis, state, word};
use super::node::{Doubt, Node};
use super::record;
use super::scripts::{APPEND_ONCE, Script};
use super::send::{by, send_all, send_by};
use super::{Nodes, packed};
use crate::capability::{Record, StreamAddress};
use crate::error::Outcome;
use crate::stream::{Durability, Position, Receipt};

/// What an append is answered with, or what stands behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Appended {
    At(u64, u64),
    /// Its id was there already.
    Duplicate(Position),
    /// There is no stream.
    Absent,
    /// How many entries were trimmed, or how many copies there are.
    Count(u64),
}

impl Answer for Appended {
    fn take(unread: &mut BytesMut, length: usize) -> Result<Self, Fault> {
        let reply = &unread[..length];
        let taken = match reply[0] {
            b'$' => {
                let start = reply.iter().position(|byte| *byte == b'\n').ok_or_else(Fault::malformed)? + 1;
                let text = reply.get(start..length - 2).ok_or_else(Fault::malformed)?;
                match text.strip_prefix(b"=") {
                    None => resp::id(text).map(|(high, low)| Self::At(high, low)),
                    Some(first) => duplicate(first),
                }
            }
            b'_' => Some(Self::Absent),
            b':' => resp::signed(&reply[1..length - 2]).map(|count| Self::Count(u64::try_from(count).unwrap_or(0))),
            // `WAITAOF` says how many disks of its own, then of others, have it.
            b'*' => {
                let reply = bytes::Bytes::copy_from_slice(reply);
                let mut counts = Cursor::new(&reply);
                counts.list()?;
                Some(Self::Count(u64::try_from(counts.number()?).unwrap_or(0)))
            }
            _ => None,
        };
        unread.advance(length);
        taken.ok_or_else(Fault::malformed)
    }
}

fn duplicate(first: &[u8]) -> Option<Appended> {
    let (partition, id) = std::str::from_utf8(first).ok()?.split_once(' ')?;
    let (high, low) = resp::id(id.as_bytes())?;
    Some(Appended::Duplicate(Position::of_halves(partition.parse().ok()?, high, low)))
}

/// One append, or what goes with it.
struct Append<'a> {
    state: &'a StreamState,
    layout: &'a Layout,
    part: &'a Part,
    record: &'a Record,
    /// The lowest id that is to stay, in milliseconds.
    oldest: Option<u64>,
    /// Whether a script goes out as a whole.
    whole: bool,
}

impl Append<'_> {
    fn is_once(&self) -> bool {
        self.record.once && self.record.id.is_some()
    }
}

impl Command for Append<'_> {
    fn word(&self) -> &'static str {
        if self.is_once() { Script::word(self.whole) } else { "XADD" }
    }

    fn write(&self, out: &mut Vec<u8>) {
        let fields = record::fields(&self.state.known, self.record);
        let trim = match (self.layout.settings.max_len, self.oldest) {
            // One of the two is all that the command takes; the other follows it now and then.
            (Some(most), _) => Some(("MAXLEN", most)),
            (None, Some(oldest)) => Some(("MINID", oldest)),
            (None, None) => None,
        };
        let words = 2 + if trim.is_some() { 3 } else { 0 } + 2 * fields;
        if self.is_once() {
            header(out, b'*', 9 + words);
            for text in APPEND_ONCE.words(self.whole) {
                word(out, text);
            }
            word(out, b"3");
            for key in [&self.part.log, &self.part.ids, &self.part.times] {
                word(out, key.as_bytes());
            }
            if let Some(id) = &self.record.id {
                id.with_text(|id| word(out, id.as_bytes()));
            }
            word(out, millis(self.layout.settings.dedup_window).to_string().as_bytes());
            word(out, self.part.index.to_string().as_bytes());
        } else {
            header(out, b'*', 2 + words);
            word(out, b"XADD");
            word(out, self.part.log.as_bytes());
        }
        word(out, b"NOMKSTREAM");
        if let Some((how, bound)) = trim {
            word(out, how.as_bytes());
            word(out, b"~");
            word(out, bound.to_string().as_bytes());
        }
        word(out, b"*");
        record::write(out, &self.state.known, self.record);
    }
}

/// Appends one record.
pub(in super::super) async fn append<N: Nodes>(
    nodes: &N,
    stream: &StreamAddress,
    record: Record,
    durability: Durability,
) -> Result<Receipt, Fault> {
    let doubt = Doubt::new(nodes);
    let deadline = Instant::now() + nodes.host().limits().timeout;
    let state = state(stream);
    // With the settings known, the connection keeps the time.
    let (layout, anew) = match state.held() {
        Some(layout) => (layout, false),
        None => (Box::pin(by(deadline, Outcome::NotApplied, state.layout(nodes, stream))).await?, true),
    };
    let part = state.part(&layout, record.key.as_ref());
    let oldest = state.oldest(&layout);
    let mut command = Append { state, layout: &layout, part, record: &record, oldest, whole: false };
    let lane = |node: &Node| node.appends(durability);
    // What is large and rare is in a box: it would be part of every append.
    let mut reply = if anew {
        Box::pin(by(deadline, Outcome::Unknown, send_by(nodes, part.slot, lane, &command))).await
    } else {
        send_by(nodes, part.slot, lane, &command).await
    };
    if matches!(&reply, Err(fault) if fault.code == Some(Code::UnknownScript)) {
        command.whole = true;
        reply = Box::pin(by(deadline, Outcome::Unknown, send_by(nodes, part.slot, lane, &command))).await;
    }
    let appended = receipt(state, part, reply);
    if appended.is_ok() {
        age(nodes, state, &layout, [part].into_iter());
    }
    doubt.dispel();
    appended
}

/// Appends several records, those of a partition in order.
pub(in super::super) async fn append_all<N: Nodes>(
    nodes: &N,
    stream: &StreamAddress,
    records: &[Record],
    durability: Durability,
) -> Vec<Result<Receipt, Fault>> {
    let state = state(stream);
    let layout = match state.layout(nodes, stream).await {
        Ok(layout) => layout,
        Err(fault) => return records.iter().map(|_| Err(fault.clone())).collect(),
    };
    let oldest = state.oldest(&layout);
    // The first of each slot that needs it brings the script along, so that none behind it is refused for want of it and
    // overtaken.
    let mut brought: Vec<u16> = Vec::new();
    let commands: Vec<(u16, Append<'_>)> = records
        .iter()
        .map(|record| {
            let part = state.part(&layout, record.key.as_ref());
            let mut command = Append { state, layout: &layout, part, record, oldest, whole: false };
            if command.is_once() && !brought.contains(&part.slot) {
                command.whole = true;
                brought.push(part.slot);
            }
            (part.slot, command)
        })
        .collect();
    let replies = send_all(nodes, |node| node.appends(durability), &commands).await;
    age(nodes, state, &layout, commands.iter().map(|(_, command)| command.part));
    commands.iter().zip(replies).map(|((_, command), reply)| receipt(state, command.part, reply)).collect()
}

/// Removes what is too old, now and then, where records are counted too: an append can do only one of the two.
fn age<'a, N: Nodes>(nodes: &N, state: &StreamState, layout: &Layout, parts: impl Iterator<Item = &'a Part>) {
    /// The server goes over whole nodes of this many records.
    const EVERY: usize = 64;
    let (Some(_), Some(oldest)) = (layout.settings.max_len, state.oldest(layout)) else { return };
    for part in parts {
        if state.appended().is_multiple_of(EVERY)
            && let Ok(Some(node)) = nodes.known(part.slot)
        {
            // Nobody waits for it: what isn't removed now is removed later.
            node.control.post(&packed("XTRIM", &[&part.log, "MINID", "~", &oldest.to_string()]));
        }
    }
}

fn receipt(state: &StreamState, part: &Part, reply: Result<Appended, Fault>) -> Result<Receipt, Fault> {
    match reply {
        Ok(Appended::At(high, low)) => {
            state.clock.learn((high, low));
            Ok(Receipt::new(Some(Position::of_halves(part.index, high, low)), false))
        }
        Ok(Appended::Duplicate(position)) => Ok(Receipt::new(Some(position), true)),
        Ok(Appended::Absent) => {
            state.forget();
            Err(absent())
        }
        Ok(Appended::Count(_)) => Err(Fault::malformed().sent()),
        Err(fault) => Err(fault),
    }
}
