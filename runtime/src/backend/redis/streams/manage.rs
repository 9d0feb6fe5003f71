//! Making and removing streams, and what is looked up in them.

use std::time::{Duration, SystemTime};

use super::super::cluster::slot;
use super::super::fault::Fault;
use super::super::pipeline::Packed;
use super::super::resp::{Cursor, Value};
use super::layout::{self, Layout, Part, meta, state};
use super::node::Node;
use super::scripts::{ENSURE, REMOVE_CONSUMER, TRIM};
use super::send::{Call, run, run_all, send_all, together};
use super::{Nodes, packed};
use crate::capability::{GroupAddress, StreamAddress};
use crate::error::{ErrorKind, Outcome};
use crate::stream::{PENDING_WITHOUT_HEIR, Position, Positions, Start, StreamSettings, TRIMMED_WHILE_PENDING};

pub(in super::super) async fn ensure<N: Nodes>(
    nodes: &N,
    stream: &StreamAddress,
    settings: &StreamSettings,
) -> Result<(), Fault> {
    let unsupported = |text: &'static str| Fault::new(ErrorKind::Unsupported, Outcome::NotApplied, text);
    if settings.replicas.is_some() {
        return Err(unsupported("Redis has no copies of a stream of its own; leave `replicas` out"));
    }
    if settings.storage.is_some() {
        return Err(unsupported("Redis keeps a stream as it keeps everything; leave `storage` out"));
    }
    if stream.is_verbatim() && settings.partitions != 1 {
        return Err(unsupported("a stream at an address of its own is one key; leave `partitions` at 1"));
    }
    let state = state(stream);
    state.forget();
    let layout = Layout::new::<N>(stream, settings.clone());
    let meta = meta(stream);
    let fields = layout::fields(settings);
    let fields = fields.iter().flat_map(|(name, value)| [name.as_bytes(), value.as_bytes()]);
    let adopts: &[u8] = if stream.is_verbatim() { b"1" } else { b"0" };
    let mut arguments: Vec<&[u8]> = vec![b"1", adopts];
    arguments.extend(fields);
    let logs = || layout.parts.iter().map(|part| part.log.as_bytes());
    // A cluster has the partitions in other places than the settings, which are what racing calls agree on.
    let apart = N::APART && !stream.is_verbatim();
    let keys = std::iter::once(meta.as_bytes()).chain(logs().take(if apart { 0 } else { usize::MAX })).collect();
    let reply = run(nodes, |node| &node.control, &ENSURE, &Call { slot: slot(&meta), keys, arguments }).await?;
    let mut held = Cursor::new(&reply);
    if let Some(values) = held.list()? {
        // A stream of others' that has no settings is one with the default ones.
        let alike = values == 0 && *settings == StreamSettings::default();
        return if alike { Ok(()) } else { Err(differs(&mut held, values, settings, &meta)?) };
    }
    if apart {
        let calls: Vec<Call<'_>> = layout
            .parts
            .iter()
            .map(|part| Call { slot: part.slot, keys: vec![part.log.as_bytes()], arguments: vec![b"0", b"0"] })
            .collect();
        for reply in run_all(nodes, |node| &node.control, &ENSURE, &calls).await {
            reply.map_err(|fault| fault.sent())?;
        }
    }
    Ok(())
}

/// Says which settings differ, and how those that can be changed are.
fn differs(held: &mut Cursor<'_>, values: usize, settings: &StreamSettings, meta: &str) -> Result<Fault, Fault> {
    let asked = layout::fields(settings);
    let mut differences = Vec::new();
    let mut changes = format!("change them by `HSET {meta}`, ");
    for _ in 0..values / 2 {
        let (name, value) = (held.text()?, held.text()?);
        let wanted = asked.iter().find(|(field, _)| field.as_bytes() == name);
        if let Some((field, wanted)) = wanted.filter(|(_, wanted)| wanted.as_bytes() != value) {
            let shown = |text: &str| if text.is_empty() { "not set".to_owned() } else { text.to_owned() };
            let there = shown(&String::from_utf8_lossy(value));
            // The records lie by these.
            if matches!(*field, "layout" | "partitions") {
                changes.clear();
            }
            differences.push(format!("`{field}` is {there} there and {} here", shown(wanted)));
        }
    }
    let what = if differences.is_empty() {
        "the stream was made by others, with no settings; ensure it with the default ones".to_owned()
    } else {
        format!("{}; ensure it with the same settings, {changes}or delete it first", differences.join(", "))
    };
    Ok(Fault::new(ErrorKind::Conflict, Outcome::NotApplied, what))
}

pub(in super::super) async fn delete<N: Nodes>(nodes: &N, stream: &StreamAddress) -> Result<bool, Fault> {
    state(stream).forget();
    let Some(layout) = layout::read(nodes, stream).await? else { return Ok(false) };
    let meta = meta(stream);
    let mut keys: Vec<(u16, &str)> = Vec::new();
    for part in &layout.parts {
        keys.extend([&part.log, &part.ids, &part.times].map(|key| (slot(key), &**key)));
    }
    // The settings go last, so that what is broken off can be repeated.
    keys.push((slot(&meta), &meta));
    keys.dedup();
    let commands: Vec<(u16, Packed)> = if N::APART {
        keys.iter().map(|(slot, key)| (*slot, packed("UNLINK", &[key]))).collect()
    } else {
        let keys: Vec<&str> = keys.iter().map(|(_, key)| *key).collect();
        vec![(0, packed("UNLINK", &keys))]
    };
    let lane = |node: &Node| node.control.clone();
    let (last, rest) = commands.split_last().ok_or_else(Fault::malformed)?;
    let mut removed = 0;
    for commands in [rest, std::slice::from_ref(last)] {
        let replies = together(send_all(nodes, lane, commands).await);
        for reply in replies.map_err(|fault| if removed > 0 { fault.sent() } else { fault })? {
            removed += Cursor::new(&reply).number()?;
        }
    }
    Ok(removed > 0)
}

/// The settings' window.
pub(in super::super) async fn window<N: Nodes>(nodes: &N, stream: &StreamAddress) -> Result<Duration, Fault> {
    let layout = layout::read(nodes, stream).await?.ok_or_else(layout::absent)?;
    // A stream at an address of its own may have no settings; its log tells whether it is there.
    if stream.is_verbatim() {
        infos(nodes, &layout).await?;
    }
    Ok(layout.settings.dedup_window)
}

pub(in super::super) async fn start<N: Nodes>(
    nodes: &N,
    stream: &StreamAddress,
    start: &Start,
) -> Result<Positions, Fault> {
    if let Start::After(positions) = start {
        return Ok(positions.clone());
    }
    let state = state(stream);
    let layout = state.layout(nodes, stream).await?;
    let infos = infos(nodes, &layout).await.inspect_err(|fault| state.learn(fault))?;
    let position = |part: &Part, id: (u64, u64)| Position::of_halves(part.index, id.0, id.1);
    let after = layout.parts.iter().zip(infos).filter_map(|(part, info)| match start {
        Start::Latest => (info.last != (0, 0)).then(|| position(part, info.last)),
        Start::At(time) => {
            let before = before(*time)?;
            // Where all there is comes later, or nothing has come yet, it is read from the first record, and nothing was
            // missed.
            let earlier = info.first.map_or(info.last != (0, 0), |first| first <= before);
            // A time to come is the end, as it is on other brokers: whose clock is ahead mustn't wait in silence.
            earlier.then(|| position(part, before.min(info.last)))
        }
        _ => None,
    });
    Ok(after.collect())
}

/// The last id before a time. `None` before there were any.
pub(super) fn before(time: SystemTime) -> Option<(u64, u64)> {
    let since = time.duration_since(SystemTime::UNIX_EPOCH).ok()?;
    // A record of this very millisecond may be a little older than the time, which can't be told.
    let millis = since.as_nanos().div_ceil(1_000_000);
    Some((u64::try_from(millis).ok()?.checked_sub(1)?, u64::MAX))
}

/// What the server says of a log.
pub(super) struct Info {
    pub(super) last: (u64, u64),
    pub(super) first: Option<(u64, u64)>,
    /// How many entries there ever were, and are.
    pub(super) added: u64,
    pub(super) length: u64,
}

pub(super) async fn infos<N: Nodes>(nodes: &N, layout: &Layout) -> Result<Vec<Info>, Fault> {
    let commands: Vec<(u16, Packed)> =
        layout.parts.iter().map(|part| (part.slot, packed("XINFO STREAM", &[&part.log]))).collect();
    let replies = send_all(nodes, |node: &Node| node.reads.clone(), &commands).await;
    let info = |reply: bytes::Bytes| {
        let info = Cursor::new(&reply).value()?;
        let field = |name| info.field(name).ok_or_else(Fault::malformed);
        let last = field("last-generated-id")?.id()?;
        let first = match info.field("first-entry") {
            Some(Value::List(entry)) => entry.first().map(Value::id).transpose()?,
            _ => None,
        };
        Ok(Info { last, first, added: field("entries-added")?.number()?, length: field("length")?.number()? })
    };
    replies.into_iter().map(|reply| info(reply?)).collect()
}

pub(in super::super) async fn trim_acknowledged<N: Nodes>(nodes: &N, stream: &StreamAddress) -> Result<u64, Fault> {
    let state = state(stream);
    let layout = state.layout(nodes, stream).await?;
    let calls: Vec<Call<'_>> = layout
        .parts
        .iter()
        .map(|part| Call { slot: part.slot, keys: vec![part.log.as_bytes()], arguments: Vec::new() })
        .collect();
    let mut removed = 0;
    let replies = run_all(nodes, |node| &node.control, &TRIM, &calls).await;
    for reply in together(replies).inspect_err(|fault| state.learn(fault))? {
        removed += u64::try_from(Cursor::new(&reply).number()?).unwrap_or(0);
    }
    Ok(removed)
}

pub(in super::super) async fn remove_consumer<N: Nodes>(
    nodes: &N,
    group: &GroupAddress,
    consumer: &str,
    heir: Option<&str>,
) -> Result<u64, Fault> {
    const STEP: &str = "256";
    let state = state(group.stream());
    let layout = state.layout(nodes, group.stream()).await?;
    let conflict = |text: &'static str| Fault::new(ErrorKind::Conflict, Outcome::NotApplied, text);
    if heir.is_none() {
        // Looked at everywhere first, so that it is refused as a whole where that can be.
        let pending: Vec<(u16, Packed)> = layout
            .parts
            .iter()
            .map(|part| (part.slot, packed("XPENDING", &[&part.log, group.name(), "-", "+", "1", consumer])))
            .collect();
        for reply in send_all(nodes, |node: &Node| node.control.clone(), &pending).await {
            let reply = reply.inspect_err(|fault| state.learn(fault))?;
            if Cursor::new(&reply).list()?.unwrap_or(0) > 0 {
                return Err(conflict(PENDING_WITHOUT_HEIR));
            }
        }
    }
    let (mut handed, mut begun) = (0, false);
    // What was done before a failure stays so.
    let partly = |fault: Fault, begun: bool| if begun { fault.sent() } else { fault };
    for part in &layout.parts {
        let arguments = [Some(&**group.name()), Some(consumer), Some(STEP), heir].into_iter().flatten();
        let arguments = arguments.map(str::as_bytes).collect();
        let call = Call { slot: part.slot, keys: vec![part.log.as_bytes()], arguments };
        loop {
            let reply = run(nodes, |node| &node.control, &REMOVE_CONSUMER, &call).await;
            let reply = reply.inspect_err(|fault| state.learn(fault)).map_err(|fault| partly(fault, begun))?;
            let mut reply = Cursor::new(&reply);
            reply.list()?;
            handed += u64::try_from(reply.number()?).unwrap_or(0);
            let step = reply.number()?;
            match step {
                0 | 1 => begun = true,
                -1 => return Err(partly(conflict(PENDING_WITHOUT_HEIR), begun)),
                _ => return Err(partly(conflict(TRIMMED_WHILE_PENDING), begun)),
            }
            if step == 1 {
                break;
            }
        }
    }
    Ok(handed)
}
