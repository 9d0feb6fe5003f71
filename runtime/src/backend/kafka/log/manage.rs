//! Making and removing streams, and what is looked up in them.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use rdkafka::TopicPartitionList;
use rdkafka::admin::{AdminClient, AdminOptions, ConfigResource, NewTopic, ResourceSpecifier, TopicReplication};
use rdkafka::consumer::Consumer as _;
use rdkafka::metadata::MetadataTopic;
use rdkafka::topic_partition_list::Offset;
use rdkafka::types::RDKafkaErrorCode as Code;
use tokio::time::Instant;

use super::super::client::{Clients, News, wait};
use super::super::fault::Fault;
use super::super::settings::millis;
use super::{AGAIN, StreamState, by, once_heard, partitions_of, state};
use crate::capability::{BackendError, StreamAddress};
use crate::error::{ErrorKind, Outcome};
use crate::stream::{Position, Positions, Start, Storage, StreamSettings};

const RETENTION: &str = "retention.ms";
const RETENTION_BYTES: &str = "retention.bytes";
const CLEANUP: &str = "cleanup.policy";
const SEGMENT: &str = "segment.ms";
const TIMESTAMPS: &str = "message.timestamp.type";
/// As Kafka has it where nothing else is said.
const LONGEST_SEGMENT: Duration = Duration::from_hours(24 * 7);

/// The rights to a topic that making or comparing one takes.
const TO_ENSURE: &str = "Create, Describe and DescribeConfigs";
/// Those that removing one takes.
const TO_DELETE: &str = "Describe and Delete";

/// What the topic is to be made with.
struct Wanted {
    topic: Arc<str>,
    partitions: u32,
    replicas: Option<u32>,
    retention: String,
    segment: Option<String>,
}

impl Wanted {
    fn new(stream: &StreamAddress, settings: &StreamSettings) -> Result<Self, Fault> {
        let mut lacking = Vec::new();
        if settings.max_len.is_some() {
            lacking.push("Kafka counts no records; leave `max_len` out, and bound them by `max_age`");
        }
        if settings.dedup_window != StreamSettings::default().dedup_window {
            lacking.push("Kafka remembers no ids of appends; leave `dedup_window` at its default");
        }
        if settings.storage == Some(Storage::Memory) {
            lacking.push("Kafka keeps records in files; leave `storage` out");
        }
        if !lacking.is_empty() {
            return Err(Fault::unsupported(lacking.join("; ")));
        }
        Ok(Self {
            topic: stream.text().clone(),
            partitions: settings.partitions,
            replicas: settings.replicas,
            retention: settings.max_age.map_or_else(|| "-1".to_owned(), |age| millis(age).to_string()),
            segment: settings.max_age.map(|age| millis(age.min(LONGEST_SEGMENT)).to_string()),
        })
    }
}

pub(in super::super) async fn ensure(
    clients: &Arc<Clients>,
    stream: &StreamAddress,
    settings: &StreamSettings,
) -> Result<(), BackendError> {
    let wanted = Arc::new(Wanted::new(stream, settings)?);
    let state = state(stream).clone();
    state.forget();
    let host = &clients.host;
    let until = Instant::now() + host.limits().timeout;
    let looking = wanted.clone();
    let look = clients.call("kafka ensure", move |clients| {
        // Where it was removed of late, only who creates it knows.
        if clients.recent.is_removed(&looking.topic) || partitions_of(clients, &looking.topic)?.is_none() {
            return Ok(false);
        }
        match compare(clients, &looking) {
            // The next server that was asked doesn't know it.
            Err(fault) if fault.kind == ErrorKind::Absent => return Ok(false),
            compared => compared?,
        }
        clients.recent.note(&looking.topic, true);
        Ok(true)
    });
    let look = async { look.await.map_err(|fault| fault.needs(TO_ENSURE)) };
    if by(host, until, Outcome::NotApplied, look).await? {
        return Ok(());
    }
    let make = clients.call("kafka ensure", move |clients| {
        let admin = admin(clients)?;
        match create(&admin, &wanted, until) {
            Ok(()) => {
                clients.recent.note(&wanted.topic, true);
                settle(clients, &wanted.topic, until, true)?;
            }
            // Another was quicker.
            Err(fault) if fault.code == Some(Code::TopicAlreadyExists) => {
                clients.recent.note(&wanted.topic, true);
                settle(clients, &wanted.topic, until, true)?;
                once_heard(clients, &wanted.topic, || compare(clients, &wanted))?;
            }
            Err(fault) => return Err(fault),
        }
        state.forget();
        Ok(())
    });
    let make = async { make.await.map_err(|fault| fault.needs(TO_ENSURE)) };
    by(host, until, Outcome::Unknown, make).await
}

type Admin = AdminClient<News>;

/// A client that creates and removes. To be dropped on a thread that may block.
fn admin(clients: &Clients) -> Result<Admin, Fault> {
    let config = clients.settings.admin(clients.host.limits());
    config.create_with_context(clients.news()).map_err(|error| Fault::of(&error))
}

fn options(until: Instant) -> AdminOptions {
    let left = until.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
    AdminOptions::new().request_timeout(Some(left)).operation_timeout(Some(left))
}

fn create(admin: &Admin, wanted: &Wanted, until: Instant) -> Result<(), Fault> {
    let partitions = i32::try_from(wanted.partitions).unwrap_or(i32::MAX);
    // Without a number, the server's own.
    let replicas = wanted.replicas.map_or(-1, |replicas| i32::try_from(replicas).unwrap_or(i32::MAX));
    let mut topic = NewTopic::new(&wanted.topic, partitions, TopicReplication::Fixed(replicas))
        .set(CLEANUP, "delete")
        .set(RETENTION, &wanted.retention)
        .set(RETENTION_BYTES, "-1")
        // Records are found by the time at which the server got them.
        .set(TIMESTAMPS, "LogAppendTime");
    if let Some(segment) = &wanted.segment {
        topic = topic.set(SEGMENT, segment);
    }
    let answer = wait(admin.create_topics([&topic], &options(until)));
    one(answer.map_err(|error| Fault::of_sent(&error))?)
}

/// The answer for the one topic that was asked for.
fn one(answers: Vec<Result<String, (String, Code)>>) -> Result<(), Fault> {
    match answers.into_iter().next() {
        Some(Ok(_)) => Ok(()),
        Some(Err((_, code))) => Err(Fault::of_code(code, Outcome::Unknown)),
        None => Err(Fault::timeout(Outcome::Unknown)),
    }
}

/// Waits until the servers that are asked know that the topic is there and led, or that it isn't.
fn settle(clients: &Clients, topic: &str, until: Instant, there: bool) -> Result<(), Fault> {
    loop {
        let settled = match partitions_of(clients, topic) {
            Ok(partitions) => partitions.is_some() == there && (!there || is_led(clients, topic)),
            Err(fault) if fault.kind == ErrorKind::Unavailable => false,
            Err(fault) => return Err(Fault { outcome: Outcome::Unknown, ..fault }),
        };
        if settled {
            return Ok(());
        }
        if Instant::now() >= until || clients.stopped() {
            return Err(Fault::timeout(Outcome::Unknown));
        }
        std::thread::park_timeout(AGAIN);
    }
}

fn is_led(clients: &Clients, topic: &str) -> bool {
    let metadata = clients.metadata(topic);
    metadata.is_ok_and(|metadata| {
        let found = metadata.topics().iter().find(|found| found.name() == topic);
        found.is_some_and(|found| {
            !found.partitions().is_empty() && found.partitions().iter().all(|partition| partition.leader() >= 0)
        })
    })
}

/// Says which settings of a topic that is there differ.
fn compare(clients: &Clients, wanted: &Wanted) -> Result<(), Fault> {
    let mut differences = Vec::new();
    let metadata = clients.metadata(&wanted.topic)?;
    // A server that hasn't heard of it tells of no partitions.
    let there = |found: &&MetadataTopic| found.name() == &*wanted.topic && !found.partitions().is_empty();
    let found = metadata.topics().iter().find(there).ok_or_else(Fault::absent)?;
    let mut differs = |name: &str, there: &str, here: &str| {
        if there != here {
            differences.push(format!("`{name}` is {there} there and {here} here"));
        }
    };
    differs("partitions", &found.partitions().len().to_string(), &wanted.partitions.to_string());
    if let Some(replicas) = wanted.replicas
        && let Some(partition) = found.partitions().first()
    {
        differs("replicas", &partition.replicas().len().to_string(), &replicas.to_string());
    }
    let config = configuration(clients, &wanted.topic)?;
    let there = |name: &str| config.get(name).and_then(|entry| entry.value.as_deref()).unwrap_or("not known");
    differs(RETENTION, there(RETENTION), &wanted.retention);
    differs(RETENTION_BYTES, there(RETENTION_BYTES), "-1");
    if there(CLEANUP) != "delete" {
        differs(CLEANUP, there(CLEANUP), "delete");
    }
    if differences.is_empty() {
        return Ok(());
    }
    let text = format!("{}; ensure it with the same settings, or delete it first", differences.join(", "));
    Err(Fault::new(ErrorKind::Conflict, Outcome::NotApplied, text))
}

fn configuration(clients: &Clients, topic: &str) -> Result<ConfigResource, Fault> {
    let until = Instant::now() + clients.host.limits().timeout;
    let admin = admin(clients)?;
    let asked = [ResourceSpecifier::Topic(topic)];
    let answers = wait(admin.describe_configs(asked.iter(), &options(until)));
    match answers.map_err(|error| Fault::of(&error))?.into_iter().next() {
        // The crate keeps the server's error to itself: the topic is gone, or the user may not see how it is set.
        Some(Ok(config)) if config.entries.is_empty() => Err(match partitions_of(clients, topic)? {
            Some(_) => Fault::of_code(Code::TopicAuthorizationFailed, Outcome::NotApplied),
            None => Fault::absent(),
        }),
        Some(Ok(config)) => Ok(config),
        Some(Err(code)) => Err(Fault::of_code(code, Outcome::NotApplied)),
        None => Err(Fault::timeout(Outcome::NotApplied)),
    }
}

pub(in super::super) async fn delete(clients: &Arc<Clients>, stream: &StreamAddress) -> Result<bool, BackendError> {
    let state = state(stream).clone();
    state.forget();
    let host = &clients.host;
    let until = Instant::now() + host.limits().timeout;
    let looking = state.clone();
    let look = clients.call("kafka delete", move |clients| match looking.look(clients) {
        Err(fault) if fault.kind == ErrorKind::Absent => Ok(false),
        looked => looked.map(|_| true),
    });
    let look = async { look.await.map_err(|fault| fault.needs(TO_DELETE)) };
    if !by(host, until, Outcome::NotApplied, look).await? {
        return Ok(false);
    }
    let remove = clients.call("kafka delete", move |clients| {
        let admin = admin(clients)?;
        let answer = wait(admin.delete_topics(&[&state.topic], &options(until)));
        match one(answer.map_err(|error| Fault::of_sent(&error))?) {
            Ok(()) => {
                clients.recent.note(&state.topic, false);
                settle(clients, &state.topic, until, false)?;
            }
            Err(fault) if fault.kind == ErrorKind::Absent => return Ok(false),
            Err(fault) => return Err(fault),
        }
        state.forget();
        Ok(true)
    });
    let remove = async { remove.await.map_err(|fault| fault.needs(TO_DELETE)) };
    by(host, until, Outcome::Unknown, remove).await
}

pub(in super::super) async fn start(
    clients: &Arc<Clients>,
    stream: &StreamAddress,
    start: &Start,
) -> Result<Positions, Fault> {
    let state = state(stream).clone();
    let asked = match start {
        Start::After(positions) => return Ok(positions.clone()),
        Start::Earliest => {
            state.layout(clients).await?;
            return Ok(Positions::new());
        }
        Start::Latest => None,
        Start::At(time) => Some(since_epoch(*time)),
    };
    clients
        .call("kafka offsets", move |clients| {
            let partitions = state.look(clients)?;
            let ends = offsets(clients, &state, partitions, Offset::End)?;
            let before = |partition: u32, offset: i64| {
                Some(Position::new(partition, u128::try_from(offset.checked_sub(1)?).ok()?))
            };
            let Some(time) = asked else {
                return Ok((0..).zip(ends).filter_map(|(partition, end)| before(partition, end)).collect());
            };
            let found = offsets(clients, &state, partitions, Offset::Offset(time))?;
            // Where no record is as young, the next one is.
            let first = found.into_iter().zip(ends).map(|(found, end)| if found < 0 { end } else { found });
            Ok((0..).zip(first).filter_map(|(partition, first)| before(partition, first)).collect())
        })
        .await
}

/// Milliseconds since the epoch, rounded up: a record of an earlier part of a millisecond can't be told apart.
fn since_epoch(time: SystemTime) -> i64 {
    let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_nanos().div_ceil(1_000_000)).unwrap_or(i64::MAX)
}

/// Asks for an offset of each partition: the first, the one behind the last that is committed, or the first of a time,
/// which is negative where there is none. To be called on a thread that may block.
pub(super) fn offsets(
    clients: &Clients,
    state: &StreamState,
    partitions: u32,
    which: Offset,
) -> Result<Vec<i64>, Fault> {
    let mut asked = TopicPartitionList::with_capacity(partitions as usize);
    for partition in 0..partitions {
        let partition = i32::try_from(partition).unwrap_or(i32::MAX);
        asked.add_partition_offset(&state.topic, partition, which).map_err(|error| Fault::of(&error))?;
    }
    let until = Instant::now() + clients.patience();
    let ask = || {
        let answered = clients.ask_by(until, |asker, most| asker.offsets_for_times(asked.clone(), most))?;
        answered.elements().iter().try_for_each(|element| element.error().map_err(|error| Fault::of(&error)))?;
        Ok(answered)
    };
    let answered = once_heard(clients, &state.topic, ask).inspect_err(|fault| state.learn(fault))?;
    let mut found = vec![-1; partitions as usize];
    for element in answered.elements() {
        let place = usize::try_from(element.partition()).ok().and_then(|partition| found.get_mut(partition));
        if let (Some(place), Offset::Offset(offset)) = (place, element.offset()) {
            *place = offset;
        }
    }
    Ok(found)
}
