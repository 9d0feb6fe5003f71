//! Creating and removing streams, and where reading begins.

use std::time::{Duration, SystemTime};

use async_nats::jetstream::ErrorCode;
use jiff::Timestamp;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::super::api;
use super::super::client::NatsClient;
use super::super::fault::Fault;
use super::consumer::Consumer;
use super::{Config, StreamState, state, unchanged};
use crate::capability::{BackendError, StreamAddress};
use crate::error::{ErrorKind, Outcome};
use crate::stream::{Position, Positions, Start, Storage, StreamSettings};

/// As many copies as JetStream keeps.
const MOST_COPIES: u32 = 5;

pub(in super::super) async fn ensure(
    client: &NatsClient,
    stream: &StreamAddress,
    settings: &StreamSettings,
) -> Result<(), BackendError> {
    if let Some(problem) = problem(settings) {
        return Err(Fault::new(ErrorKind::Unsupported, Outcome::NotApplied, problem).into());
    }
    let state = state(stream);
    let by = client.deadline();
    let creating = async {
        match state.info(client, by).await.map_err(unchanged) {
            Ok(info) => return compare(stream, state, &info.config, settings),
            Err(fault) if fault.code == ErrorCode::STREAM_NOT_FOUND => {}
            Err(fault) => return Err(fault),
        }
        match create(client, by, state, settings).await {
            // Someone else was quicker, perhaps with the same settings.
            Err(fault) if fault.code == ErrorCode::STREAM_NAME_EXIST => {
                let info = state.info(client, by).await?;
                compare(stream, state, &info.config, settings)
            }
            Err(fault) if fault.code == ErrorCode::STREAM_SUBJECT_OVERLAP => {
                Err(overlap(client, by, state, fault).await)
            }
            created => created,
        }
    };
    Ok(creating.await?)
}

/// What no JetStream can have.
fn problem(settings: &StreamSettings) -> Option<String> {
    if settings.partitions > 1 {
        let asked = settings.partitions;
        return Some(format!("`partitions` is {asked}; a stream of JetStream is one, so leave it at 1"));
    }
    if let Some(asked) = settings.replicas.filter(|asked| *asked > MOST_COPIES) {
        return Some(format!("`replicas` is {asked}; JetStream keeps at most {MOST_COPIES}"));
    }
    let (window, age) = (settings.dedup_window, settings.max_age?);
    (window > age).then(|| {
        format!("`dedup_window` is {window:?} and `max_age` {age:?}; JetStream remembers no id longer, so give a shorter window")
    })
}

async fn create(client: &NatsClient, by: Instant, state: &StreamState, settings: &StreamSettings) -> Result<(), Fault> {
    let StreamState { name, address, .. } = state;
    let mut config = json!({
        "name": &**name,
        "subjects": [&**address, &format!("{address}.>")],
        "retention": "limits",
        "discard": "old",
        "storage": stored(settings.storage.unwrap_or(Storage::File)),
        "num_replicas": settings.replicas.unwrap_or(1),
        "max_consumers": -1,
        "max_bytes": -1,
        "max_msg_size": -1,
        "max_msgs_per_subject": -1,
    });
    for (name, value) in limits(settings) {
        config[name] = value;
    }
    api::call::<IgnoredAny>(client, by, &format!("STREAM.CREATE.{name}"), &config).await.map(|_| ())
}

/// Changes what is set here, and keeps what others have set beside it.
pub(in super::super) async fn update(
    client: &NatsClient,
    stream: &StreamAddress,
    settings: &StreamSettings,
) -> Result<(), BackendError> {
    if let Some(problem) = problem(settings) {
        return Err(Fault::new(ErrorKind::Unsupported, Outcome::NotApplied, problem).into());
    }
    let state = state(stream);
    let (by, name) = (client.deadline(), &state.name);
    let updating = async {
        let info: Raw = api::call(client, by, &format!("STREAM.INFO.{name}"), &()).await.map_err(unchanged)?;
        let mut config = info.config;
        if let (Some(asked), Some(Value::String(has))) = (settings.storage, config.get("storage"))
            && has != stored(asked)
        {
            let text = format!("`storage` is {has} and stays so; delete the stream to have it otherwise");
            return Err(Fault::new(ErrorKind::Conflict, Outcome::NotApplied, text));
        }
        for (name, value) in limits(settings) {
            config.insert(name.to_owned(), value);
        }
        if let Some(replicas) = settings.replicas {
            config.insert("num_replicas".to_owned(), replicas.into());
        }
        api::call::<IgnoredAny>(client, by, &format!("STREAM.UPDATE.{name}"), &config).await?;
        state.forget();
        Ok(())
    };
    Ok(updating.await?)
}

/// A stream's settings as JetStream says them.
#[derive(Deserialize)]
struct Raw {
    config: serde_json::Map<String, Value>,
}

/// What a stream keeps.
fn limits(settings: &StreamSettings) -> [(&'static str, Value); 3] {
    [
        ("max_msgs", settings.max_len.map_or(-1, signed).into()),
        ("max_age", settings.max_age.map_or(0, nanos).into()),
        ("duplicate_window", nanos(settings.dedup_window).into()),
    ]
}

fn stored(storage: Storage) -> &'static str {
    match storage {
        Storage::File => "file",
        Storage::Memory => "memory",
    }
}

fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn nanos(duration: Duration) -> i64 {
    i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX)
}

/// Says where a stream that is there differs from what is asked for. Others may have made it, with more settings.
fn compare(
    stream: &StreamAddress,
    state: &StreamState,
    there: &Config,
    settings: &StreamSettings,
) -> Result<(), Fault> {
    let mut differences = Vec::new();
    let mut differs = |what: &str, has: String, asked: String| {
        if has != asked {
            differences.push(format!("`{what}` is {has}, not {asked}"));
        }
    };
    let limit = |number: i64| if number > 0 { number.to_string() } else { "none".to_owned() };
    let age = |nanos: i64| u64::try_from(nanos).ok().filter(|nanos| *nanos > 0).map(Duration::from_nanos);
    let shown = |duration: Option<Duration>| duration.map_or_else(|| "none".to_owned(), |it| format!("{it:?}"));
    differs("max_len", limit(there.max_msgs), settings.max_len.map_or_else(|| limit(0), |len| limit(signed(len))));
    differs("max_age", shown(age(there.max_age)), shown(settings.max_age));
    let window = Duration::from_nanos(there.duplicate_window);
    differs("dedup_window", shown(Some(window)), shown(Some(settings.dedup_window)));
    if let Some(replicas) = settings.replicas {
        differs("replicas", there.num_replicas.max(1).to_string(), replicas.to_string());
    }
    if let Some(storage) = settings.storage {
        differs("storage", there.storage.clone(), stored(storage).to_owned());
    }
    differs("retention", there.retention.clone(), "limits".to_owned());
    let address = &*state.address;
    let has = |subject: &str| there.subjects.iter().any(|have| have == subject);
    let foreign = stream.is_verbatim() && there.subjects.iter().any(|have| have.starts_with(address));
    let covers = has(address) && has(&format!("{address}.>"));
    if !(covers || foreign) {
        differences.push(format!("it doesn't take the subjects `{address}` and `{address}.>`"));
    }
    if differences.is_empty() {
        return Ok(());
    }
    let stays = settings.storage.is_some_and(|asked| there.storage != stored(asked)) || there.retention != "limits";
    let fixed = stays || !(covers || foreign);
    // What `update` can't change isn't worth a try.
    let update = if fixed { "" } else { "update it, " };
    let text = format!(
        "the stream `{}` is there otherwise: {}; {update}ask for that, or delete it first",
        state.name,
        differences.join(", ")
    );
    Err(Fault::new(ErrorKind::Conflict, Outcome::NotApplied, text))
}

/// Names the streams that take some of the subjects already.
async fn overlap(client: &NatsClient, by: Instant, state: &StreamState, refused: Fault) -> Fault {
    #[derive(Deserialize)]
    struct Names {
        #[serde(default)]
        streams: Option<Vec<String>>,
    }
    let StreamState { name, address, .. } = state;
    let mut others = std::collections::BTreeSet::new();
    for subject in [address.to_string(), format!("{address}.>")] {
        if let Ok(found) = api::call::<Names>(client, by, "STREAM.NAMES", &json!({ "subject": subject })).await {
            others.extend(found.streams.unwrap_or_default());
        }
    }
    if others.is_empty() {
        return refused;
    }
    let others: Vec<_> = others.iter().map(|other| format!("`{other}`")).collect();
    let text = format!(
        "the stream `{name}` can't be made, since {} takes subjects of `{address}`; change its subjects, or delete it",
        others.join(", ")
    );
    Fault { text: text.into(), ..refused }
}

pub(in super::super) async fn delete(client: &NatsClient, stream: &StreamAddress) -> Result<bool, BackendError> {
    let state = state(stream);
    match api::call::<IgnoredAny>(client, client.deadline(), &format!("STREAM.DELETE.{}", state.name), &()).await {
        Ok(_) => Ok(true),
        Err(fault) if fault.code == ErrorCode::STREAM_NOT_FOUND => Ok(false),
        Err(fault) => Err(fault.into()),
    }
}

pub(in super::super) async fn window(client: &NatsClient, stream: &StreamAddress) -> Result<Duration, BackendError> {
    let info = state(stream).info(client, client.deadline()).await.map_err(unchanged)?;
    Ok(Duration::from_nanos(info.config.duplicate_window))
}

pub(in super::super) async fn start(
    client: &NatsClient,
    stream: &StreamAddress,
    start: &Start,
) -> Result<Positions, BackendError> {
    let state = state(stream);
    let after = match start {
        Start::Earliest => return Ok(Positions::new()),
        Start::After(positions) => return Ok(positions.clone()),
        Start::Latest => state.info(client, client.deadline()).await.map_err(unchanged)?.state.last_seq,
        Start::At(time) => at(client, state, *time).await.map_err(unchanged)?,
    };
    let position = (after > 0).then(|| Position::new(0, u128::from(after)));
    Ok(position.into_iter().collect())
}

/// The sequence before the first record stored at this time or later.
async fn at(client: &NatsClient, state: &StreamState, time: SystemTime) -> Result<u64, Fault> {
    let time = Timestamp::try_from(time).unwrap_or(Timestamp::UNIX_EPOCH).max(Timestamp::UNIX_EPOCH);
    let policy = json!({ "deliver_policy": "by_start_time", "opt_start_time": time.to_string() });
    let consumer = Consumer::create(client, state, policy).await?;
    Ok(consumer.before)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn a_stream_that_is_there_otherwise_is_to_be_updated_where_it_can_be() {
        let stream = StreamAddress::new("a.b".into(), false, Arc::default());
        let there = json!({
            "subjects": ["a.b", "a.b.>"], "max_msgs": 10, "duplicate_window": 120_000_000_000_u64, "storage": "file",
            "retention": "limits",
        });
        let there: Config = serde_json::from_value(there).unwrap();
        let said = |settings: StreamSettings| {
            let fault = compare(&stream, state(&stream), &there, &settings).unwrap_err();
            BackendError::from(fault).source.unwrap().to_string()
        };
        let text = "the stream `a_b` is there otherwise: `max_len` is 10, not none; update it, ask for that, or delete it first";
        assert_eq!(said(StreamSettings::new()), text);
        let fixed = said(StreamSettings::new().storage(Storage::Memory));
        assert!(fixed.contains("`storage` is file, not memory; ask for that, or delete it first"), "{fixed}");
    }
}
