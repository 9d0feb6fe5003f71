//! A stream's keys and settings, and what a client keeps of them.

use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use tokio::time::Instant;

use super::super::cluster::slot;
use super::super::fault::Fault;
use super::super::pipeline::Packed;
use super::super::resp::Cursor;
use super::record::Known;
use super::send::send;
use super::{Nodes, packed};
use crate::broker::lock;
use crate::capability::{Stored, StreamAddress, partition_of};
use crate::error::{ErrorKind, Outcome};
use crate::stream::StreamSettings;

/// The layout that this code writes and reads.
const VERSION: &str = "1";
/// A layout is used for so long before it is read again.
const FRESH: Duration = Duration::from_secs(5);
/// So many partitions may a stream have, which is what its settings allow.
const MOST_PARTITIONS: u32 = 1_024;

/// A stream as it stands on the server.
pub(super) struct Layout {
    pub(super) settings: StreamSettings,
    pub(super) parts: Vec<Part>,
}

/// One partition's keys.
pub(super) struct Part {
    pub(super) index: u32,
    pub(super) slot: u16,
    pub(super) log: String,
    /// The ids of appends, and when they were stored.
    pub(super) ids: String,
    pub(super) times: String,
}

/// What a client keeps of one stream.
pub(super) struct StreamState {
    pub(super) known: Known,
    /// The layout and when it was read.
    layout: Mutex<Option<(Arc<Layout>, Instant)>>,
    turn: AtomicU32,
    appended: AtomicUsize,
    pub(super) clock: ServerClock,
}

/// The server's clock, by the ids that it gives, so that records age by one clock.
pub(super) struct ServerClock {
    since: Instant,
    /// Milliseconds that the server's clock showed at `since`. 0 while nothing is known.
    at_since: AtomicU64,
}

impl ServerClock {
    /// Learns from an id that was just given.
    pub(super) fn learn(&self, id: (u64, u64)) {
        self.at_since.store(id.0.saturating_sub(self.passed()), Ordering::Relaxed);
    }

    /// What the clock shows now, in milliseconds.
    fn now(&self) -> Option<u64> {
        match self.at_since.load(Ordering::Relaxed) {
            0 => None,
            at_since => Some(at_since.saturating_add(self.passed())),
        }
    }

    fn passed(&self) -> u64 {
        millis(self.since.elapsed())
    }
}

/// Whole milliseconds, at most as many as there can be.
pub(super) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

pub(super) fn state(stream: &StreamAddress) -> &StreamState {
    stream.state(|| StreamState {
        known: Known::new(stream.origin()),
        layout: Mutex::default(),
        turn: AtomicU32::new(0),
        appended: AtomicUsize::new(0),
        clock: ServerClock { since: Instant::now(), at_since: AtomicU64::new(0) },
    })
}

impl StreamState {
    /// The layout, read from the server where it isn't known.
    pub(super) async fn layout<N: Nodes>(&self, nodes: &N, stream: &StreamAddress) -> Result<Arc<Layout>, Fault> {
        if let Some(layout) = self.held() {
            return Ok(layout);
        }
        // In a box: it is large and rare, and would be part of every operation.
        let layout = Arc::new(Box::pin(read(nodes, stream)).await?.ok_or_else(absent)?);
        *lock(&self.layout) = Some((layout.clone(), Instant::now()));
        Ok(layout)
    }

    /// The layout as it was read of late. Now and then one who asks is to read it again, since another process may have
    /// removed the stream and made it anew.
    pub(super) fn held(&self) -> Option<Arc<Layout>> {
        let mut held = lock(&self.layout);
        let (layout, since) = held.as_mut()?;
        let now = Instant::now();
        if now.duration_since(*since) >= FRESH {
            *since = now;
            return None;
        }
        Some(layout.clone())
    }

    /// Forgets the layout where the stream turned out not to be there, since it may come back with another.
    pub(super) fn learn(&self, fault: &Fault) {
        if fault.kind == ErrorKind::Absent {
            self.forget();
        }
    }

    pub(super) fn forget(&self) {
        *lock(&self.layout) = None;
    }

    /// The partition of a record with this key.
    pub(super) fn part<'a>(&self, layout: &'a Layout, key: Option<&Bytes>) -> &'a Part {
        let count = u32::try_from(layout.parts.len()).unwrap_or(1);
        let index = match key {
            _ if count == 1 => 0,
            Some(key) => partition_of(key, count),
            None => self.turn.fetch_add(1, Ordering::Relaxed) % count,
        };
        &layout.parts[index as usize]
    }

    /// Counts appends.
    pub(super) fn appended(&self) -> usize {
        self.appended.fetch_add(1, Ordering::Relaxed)
    }

    /// A number that is another each time, so that no partition always comes first.
    pub(super) fn turn(&self) -> usize {
        self.turn.fetch_add(1, Ordering::Relaxed) as usize
    }

    /// At most so many of what was found in each partition, those of another partition first each time.
    pub(super) fn spread(&self, found: Vec<Vec<Stored>>, max: usize) -> Vec<Stored> {
        if let [_] = &found[..] {
            let mut records = found.into_iter().next().unwrap_or_default();
            records.truncate(max);
            return records;
        }
        let first = self.turn() % found.len();
        let (before, from) = found.split_at(first);
        from.iter().chain(before).flatten().take(max).cloned().collect()
    }

    /// The lowest id that is young enough to stay, where the stream's records age and the server's clock is known.
    pub(super) fn oldest(&self, layout: &Layout) -> Option<u64> {
        let age = layout.settings.max_age?;
        self.clock.now()?.checked_sub(millis(age))
    }
}

impl Layout {
    pub(super) fn new<N: Nodes>(stream: &StreamAddress, settings: StreamSettings) -> Self {
        let address = stream.text();
        let part = |index| {
            // Records of a cluster's stream lie with their partition; elsewhere ids are the whole stream's.
            let (log, beside) = if stream.is_verbatim() {
                (address.to_string(), format!("{{{address}}}"))
            } else {
                (format!("{{{address}.p{index}}}:log"), format!("{{{address}.p{index}}}"))
            };
            let beside = if N::APART { beside } else { format!("{{{address}}}") };
            let ids = format!("{beside}:ids");
            Part { index, slot: slot(&log), log, times: format!("{ids}:times"), ids }
        };
        Self { parts: (0..settings.partitions).map(part).collect(), settings }
    }

    pub(super) fn part(&self, partition: u32) -> Option<&Part> {
        self.parts.get(partition as usize)
    }
}

pub(super) fn meta(stream: &StreamAddress) -> String {
    format!("{{{}}}:meta", stream.text())
}

pub(super) fn absent() -> Fault {
    Fault::new(ErrorKind::Absent, Outcome::NotApplied, "the stream isn't there; `ensure` creates it")
}

/// The settings as fields and values, each of which is always there.
pub(super) fn fields(settings: &StreamSettings) -> [(&'static str, String); 5] {
    let or_none = |number: Option<u64>| number.map_or_else(String::new, |number| number.to_string());
    [
        ("layout", VERSION.to_owned()),
        ("partitions", settings.partitions.to_string()),
        ("max_len", or_none(settings.max_len)),
        ("max_age_ms", or_none(settings.max_age.map(millis))),
        ("dedup_window_ms", millis(settings.dedup_window).to_string()),
    ]
}

/// Reads the layout from the server. A stream at an address of its own may have no settings there, and then has those by
/// default.
pub(super) async fn read<N: Nodes>(nodes: &N, stream: &StreamAddress) -> Result<Option<Layout>, Fault> {
    let meta = meta(stream);
    let command: Packed = packed("HGETALL", &[&meta]);
    let reply = send(nodes, slot(&meta), |node| &node.control, &command).await?;
    let mut fields = Cursor::new(&reply);
    let values = fields.list()?.unwrap_or(0);
    if values == 0 {
        return Ok(stream.is_verbatim().then(|| Layout::new::<N>(stream, StreamSettings::default())));
    }
    let mut settings = StreamSettings::default();
    let mut version = None;
    for _ in 0..values / 2 {
        let (name, value) = (fields.text()?, std::str::from_utf8(fields.text()?).unwrap_or_default());
        match name {
            b"layout" => version = Some(value),
            b"partitions" => settings.partitions = value.parse().unwrap_or(0),
            b"max_len" => settings.max_len = value.parse().ok(),
            b"max_age_ms" => settings.max_age = value.parse().ok().map(Duration::from_millis),
            b"dedup_window_ms" => settings.dedup_window = Duration::from_millis(value.parse().unwrap_or(0)),
            _ => {}
        }
    }
    let partitions = 1..=if stream.is_verbatim() { 1 } else { MOST_PARTITIONS };
    if version != Some(VERSION) || !partitions.contains(&settings.partitions) {
        let text = "the stream's settings aren't of a layout that this version knows; upgrade the library";
        return Err(Fault::new(ErrorKind::Unsupported, Outcome::NotApplied, text));
    }
    Ok(Some(Layout::new::<N>(stream, settings)))
}

/// Appends a word of a command.
pub(super) fn word(out: &mut Vec<u8>, word: &[u8]) {
    super::super::link::header(out, b'$', word.len());
    out.extend_from_slice(word);
    out.extend_from_slice(b"\r\n");
}
