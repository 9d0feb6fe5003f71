use std::future::poll_fn;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use super::{Attributes, Counts, Raw, Streams, Subject, Tap, Topics};
use crate::address::Namespace;
use crate::backend::Memory;
use crate::broker::{Broker, Config};
use crate::capability::{Log, Origin, Outgoing, PubSub, Read, Record, StreamAddress};
use crate::stream::{Durability, MessageId, Position, Positions, Storage};
use crate::topic::{FeedLimits, Inbox, feed};

/// [`Memory`] as a subject.
#[derive(Clone, Debug)]
pub struct InMemory {
    memory: Memory,
    /// Works past the brokers under test.
    past: Broker<Memory>,
}

/// Hears one channel of [`InMemory`].
#[derive(Debug)]
pub struct InMemoryTap {
    inbox: Inbox,
    _held: <Memory as PubSub>::Subscription,
}

impl Subject for InMemory {
    type Backend = Memory;

    const PAUSED: bool = true;

    async fn start() -> Self {
        let memory = Memory::new();
        let namespace = Namespace::new("conformance", "past").expect("the suite's namespaces are good");
        let past = Broker::new(memory.clone(), Config::new(namespace)).expect("the limits are good");
        Self { memory, past }
    }

    fn backend(&self) -> Memory {
        self.memory.clone()
    }

    async fn interrupt(&self) {
        self.memory.disconnect();
    }

    async fn refuse(&self, refuse: bool) {
        self.memory.refuse(refuse);
    }
}

impl Topics for InMemory {
    type Tap = InMemoryTap;

    const COUNTS: Counts = Counts::Subscriptions;

    async fn publish_raw(&self, channel: &str, payload: &[u8]) {
        let message = Outgoing { channel: channel.to_owned(), payload: payload.to_vec().into() };
        Memory::publish(&self.past.inner.client, message).await.expect("the system is in reach");
    }

    async fn tap(&self, channel: &str) -> InMemoryTap {
        let (feed, inbox) = feed(FeedLimits { messages: 65_536, bytes: 64 << 20, one: 1 << 20, keyed: false });
        let held = Memory::subscribe(&self.past.inner.client, vec![channel.into()], feed)
            .await
            .expect("the system is in reach");
        InMemoryTap { inbox, _held: held }
    }
}

impl Tap for InMemoryTap {
    async fn next(&mut self) -> Vec<u8> {
        poll_fn(|cx| self.inbox.poll(cx)).await.expect("the tap is not interrupted").payload.to_vec()
    }
}

impl Streams for InMemory {
    const TRIMS_FOR_SURE: bool = true;
    const STORAGES: &'static [Storage] = &[Storage::Memory];
    const UPDATES: bool = true;

    async fn append_raw(&self, stream: &str, partition: u32, record: Raw) {
        let record = record_of(record);
        let appended = Memory::append(&self.past.inner.client, &address(stream), record, Durability::Primary).await;
        let position = appended.ok().and_then(|receipt| receipt.position);
        assert_eq!(position.map(Position::partition), Some(partition), "the stream takes the record there");
    }

    async fn read_raw(&self, stream: &str, partition: u32) -> Vec<Raw> {
        let (address, after) = (address(stream), Positions::new());
        let read = Memory::read(&self.past.inner.client, &address, &after, 65_536, Duration::ZERO).await;
        let Ok(Read::Records(records)) = read else { panic!("the stream is there: {read:?}") };
        let own = records.into_iter().filter(|stored| stored.position.partition() == partition);
        own.map(|stored| raw_of(stored.record)).collect()
    }
}

fn address(stream: &str) -> StreamAddress {
    StreamAddress::new(stream.into(), false, Arc::default())
}

/// What stands in a record, as a system with a wire has it.
fn raw_of(record: Record) -> Raw {
    let mut attributes: Attributes =
        record.headers.iter().map(|(name, value)| (name.to_owned(), value.to_vec())).collect();
    let mut add = |name: &str, value: Option<Vec<u8>>| attributes.extend(value.map(|value| (name.to_owned(), value)));
    let origin = &record.origin;
    add("specversion", origin.event_type.is_some().then(|| b"1.0".to_vec()));
    add("id", record.id.map(|id| id.to_string().into_bytes()));
    add("source", origin.source.clone().map(String::into_bytes));
    add("type", origin.event_type.clone().map(String::into_bytes));
    add("datacontenttype", origin.content_type.clone().map(String::into_bytes));
    add("partitionkey", record.key.map(|key| key.to_vec()));
    add("time", record.time.map(|time| written(time).into_bytes()));
    Raw { attributes, data: record.data.to_vec() }
}

fn record_of(raw: Raw) -> Record {
    let mut attributes = raw.attributes;
    let mut text = |name: &str| attributes.remove(name).and_then(|value| String::from_utf8(value).ok());
    let origin = Origin { source: text("source"), event_type: text("type"), content_type: text("datacontenttype") };
    let (id, time) = (text("id"), text("time"));
    text("specversion");
    let key = attributes.remove("partitionkey");
    let mut record = Record::new(Arc::new(origin), raw.data.into());
    record.id = id.map(|id| MessageId::read(&id));
    record.time = time.and_then(|time| parsed(&time));
    record.key = key.map(Into::into);
    for (name, value) in attributes {
        record.headers.push(name, value);
    }
    record
}

const DAY: u64 = 24 * 60 * 60;

fn is_leap(year: u64) -> bool {
    year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
}

fn days_of(year: u64) -> [u64; 12] {
    [31, if is_leap(year) { 29 } else { 28 }, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31]
}

/// Writes a time since 1970 as RFC 3339 has it, in UTC and milliseconds.
fn written(time: SystemTime) -> String {
    let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let (mut days, seconds) = (since.as_secs() / DAY, since.as_secs() % DAY);
    let (mut year, mut month) = (1970, 0);
    while days >= days_of(year).iter().sum() {
        days -= days_of(year).iter().sum::<u64>();
        year += 1;
    }
    while days >= days_of(year)[month] {
        days -= days_of(year)[month];
        month += 1;
    }
    let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    let millis = since.subsec_millis();
    format!("{year:04}-{:02}-{:02}T{hour:02}:{minute:02}:{second:02}.{millis:03}Z", month + 1, days + 1)
}

/// Reads such a time, also with an offset.
fn parsed(text: &str) -> Option<SystemTime> {
    let (date, time) = text.split_once('T')?;
    let mut date = date.split('-').map(|part| part.parse::<u64>().ok());
    let (year, month, day) = (date.next()??, date.next()??, date.next()??);
    let days: u64 = (1970..year).map(|year| days_of(year).iter().sum::<u64>()).sum();
    let days = days + days_of(year).iter().take(usize::try_from(month).ok()?.checked_sub(1)?).sum::<u64>();
    let (clock, offset) = if let Some(clock) = time.strip_suffix('Z') {
        (clock, 0)
    } else {
        let (clock, offset) = time.split_at_checked(time.len().checked_sub(6)?)?;
        let (hours, minutes) = offset.get(1..)?.split_once(':')?;
        let minutes = hours.parse::<i64>().ok()? * 60 + minutes.parse::<i64>().ok()?;
        (clock, if offset.starts_with('+') { minutes } else { -minutes })
    };
    let mut clock = clock.splitn(3, ':');
    let (hour, minute) = (clock.next()?.parse::<u64>().ok()?, clock.next()?.parse::<u64>().ok()?);
    let second = clock.next()?;
    let (second, fraction) = second.split_once('.').unwrap_or((second, "0"));
    let millis = format!("{fraction:0<3}").get(..3)?.parse::<u64>().ok()?;
    let seconds = (days + day.checked_sub(1)?) * DAY + hour * 3600 + minute * 60 + second.parse::<u64>().ok()?;
    let seconds = seconds.checked_add_signed(-offset * 60)?;
    SystemTime::UNIX_EPOCH.checked_add(Duration::from_millis(seconds * 1_000 + millis))
}
