//! A durable's settings as JetStream has them.

use std::time::{Duration, SystemTime};

use async_nats::jetstream::ErrorCode;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::super::fault::Fault;
use crate::capability::GroupAddress;
use crate::error::{ErrorKind, Outcome};
use crate::stream::{DurableInfo, DurableSettings, Position, Positions, Start};

/// Asks for a consumer.
#[derive(Serialize)]
pub(super) struct Request<'a, C> {
    pub(super) stream_name: &'a str,
    /// `create` fails where it exists otherwise, `update` where it doesn't.
    pub(super) action: &'static str,
    pub(super) config: C,
}

#[derive(Serialize)]
pub(super) struct Wanted<'a> {
    durable_name: &'a str,
    name: &'a str,
    #[serde(flatten)]
    from: From,
    ack_policy: &'static str,
    ack_wait: u64,
    max_deliver: i64,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    backoff: Vec<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) filter_subject: Option<String>,
    max_ack_pending: u32,
    replay_policy: &'static str,
    metadata: Metadata,
}

/// Where it begins. It can't be changed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
struct From {
    deliver_policy: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    opt_start_seq: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    opt_start_time: Option<String>,
}

/// Tells who has created it, so that of two who do at once only one is told so.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
struct Metadata {
    #[serde(default, rename = "tidings.created", skip_serializing_if = "Option::is_none")]
    created: Option<String>,
}

/// What the server says of a consumer.
#[derive(Deserialize)]
pub(super) struct Info {
    created: String,
    config: Held,
    delivered: Sequences,
    ack_floor: Sequences,
    num_ack_pending: u64,
    num_pending: u64,
}

#[derive(Deserialize)]
struct Sequences {
    consumer_seq: u64,
    stream_seq: u64,
}

#[derive(Deserialize)]
struct Held {
    #[serde(default)]
    deliver_subject: Option<String>,
    #[serde(default)]
    ack_policy: String,
    #[serde(flatten)]
    from: From,
    #[serde(default)]
    ack_wait: u64,
    #[serde(default)]
    max_deliver: i64,
    #[serde(default)]
    backoff: Vec<u64>,
    #[serde(default)]
    filter_subject: Option<String>,
    #[serde(default)]
    filter_subjects: Vec<String>,
    #[serde(default)]
    headers_only: bool,
    #[serde(default)]
    priority_groups: Vec<String>,
    #[serde(default)]
    max_ack_pending: i64,
    #[serde(default)]
    metadata: Metadata,
}

/// A consumer with settings that no durable of this library has.
fn foreign(what: &str) -> Fault {
    let text = format!(
        "the consumer of this name {what}, so it is no durable of this library; remove it, or take another owner"
    );
    Fault::new(ErrorKind::Conflict, Outcome::NotApplied, text)
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

impl<'a> Wanted<'a> {
    pub(super) fn new(durable: &'a GroupAddress, settings: &DurableSettings, created: String) -> Self {
        Self {
            durable_name: durable.name(),
            name: durable.name(),
            from: From::of(&settings.start),
            ack_policy: "explicit",
            ack_wait: nanos(settings.wait_of(1)),
            max_deliver: settings.max_deliver.map_or(-1, i64::from),
            backoff: settings.backoff.iter().copied().map(nanos).collect(),
            filter_subject: settings.prefix.as_ref().map(|prefix| format!("{}.{prefix}.>", durable.stream().text())),
            max_ack_pending: settings.in_flight,
            replay_policy: "instant",
            metadata: Metadata { created: Some(created) },
        }
    }

    /// Sets in a consumer's settings what can be changed here, and keeps what others have set beside it.
    pub(super) fn set_in(self, config: &mut Map<String, Value>) {
        config.remove("filter_subjects");
        for (name, value) in [
            ("ack_wait", Some(self.ack_wait.into())),
            ("max_deliver", Some(self.max_deliver.into())),
            ("backoff", Some(self.backoff).filter(|waits| !waits.is_empty()).map(Value::from)),
            ("filter_subject", self.filter_subject.map(Value::from)),
            ("max_ack_pending", Some(self.max_ack_pending.into())),
        ] {
            match value {
                Some(value) => drop(config.insert(name.to_owned(), value)),
                None => drop(config.remove(name)),
            }
        }
    }
}

impl From {
    fn of(start: &Start) -> Self {
        let policy = |policy: &str| Self { deliver_policy: policy.to_owned(), ..Self::default() };
        match start {
            Start::Latest => policy("new"),
            Start::At(time) => {
                let time = jiff::Timestamp::try_from(*time).unwrap_or(jiff::Timestamp::UNIX_EPOCH);
                Self { opt_start_time: Some(time.to_string()), ..policy("by_start_time") }
            }
            Start::After(positions) => match positions.get(0) {
                None => policy("all"),
                Some(at) => {
                    let next = u64::try_from(at.offset()).unwrap_or(u64::MAX).saturating_add(1);
                    Self { opt_start_seq: Some(next), ..policy("by_start_sequence") }
                }
            },
            _ => policy("all"),
        }
    }

    fn start(&self) -> Start {
        match (&*self.deliver_policy, self.opt_start_seq, &self.opt_start_time) {
            ("new", ..) => Start::Latest,
            ("by_start_sequence", Some(next), _) => match next.checked_sub(1).filter(|last| *last > 0) {
                None => Start::Earliest,
                Some(last) => Start::from(Position::new(0, u128::from(last))),
            },
            ("by_start_time", _, Some(time)) => {
                let time = time.parse::<jiff::Timestamp>().ok();
                time.map_or(Start::Earliest, |time| Start::At(SystemTime::from(time)))
            }
            _ => Start::Earliest,
        }
    }
}

impl Info {
    /// How it is set up and how far it is, in the library's words.
    pub(super) fn read(&self, durable: &GroupAddress) -> Result<DurableInfo, Fault> {
        let held = &self.config;
        if held.deliver_subject.is_some() {
            return Err(foreign("pushes"));
        }
        if held.ack_policy != "explicit" {
            return Err(foreign("wants no settlement of each delivery"));
        }
        if held.headers_only {
            return Err(foreign("hands out headers only"));
        }
        if !held.priority_groups.is_empty() {
            return Err(foreign("has priority groups"));
        }
        let mut settings = DurableSettings::new().start(held.from.start());
        settings.in_flight = u32::try_from(held.max_ack_pending).map_err(|_| foreign("bounds nothing in flight"))?;
        settings.max_deliver = u32::try_from(held.max_deliver).ok().filter(|most| *most > 0);
        settings.backoff = held.backoff.iter().copied().map(Duration::from_nanos).collect();
        if settings.backoff.is_empty() {
            settings.ack_wait = Duration::from_nanos(held.ack_wait);
        }
        let filters = held.filter_subject.iter().filter(|one| !one.is_empty()).chain(&held.filter_subjects);
        let filters: Vec<_> = filters.collect();
        settings.prefix = match &filters[..] {
            [] => None,
            [one] => {
                let below = one.strip_prefix(&**durable.stream().text()).and_then(|rest| rest.strip_prefix('.'));
                let prefix = below.and_then(|rest| rest.strip_suffix(".>"));
                Some(prefix.ok_or_else(|| foreign("has a filter of another kind"))?.to_owned())
            }
            _ => return Err(foreign("has several filters")),
        };
        // What was exhausted may not move the floor.
        let floor = self.ack_floor.stream_seq;
        let floor = if self.num_ack_pending == 0 { floor.max(self.delivered.stream_seq) } else { floor };
        let settled = Some(floor).filter(|last| *last > 0).map(|last| Position::new(0, u128::from(last)));
        let settled: Positions = settled.into_iter().collect();
        Ok(DurableInfo::new(settings, self.num_pending, self.num_ack_pending, settled))
    }

    /// Tells it from one of its name that was there before or comes after. The server's own time of creation changes when
    /// NATS 2.10 recovers.
    pub(super) fn identity(&self) -> &str {
        self.config.metadata.created.as_ref().unwrap_or(&self.created)
    }

    /// What who made it wrote into it to tell it by.
    pub(super) fn made(&self) -> Option<&str> {
        self.config.metadata.created.as_deref()
    }

    /// The last record that it was given to hand out.
    pub(super) fn delivered(&self) -> u64 {
        self.delivered.stream_seq
    }

    /// Behind which record and up to which some of what it handed out isn't settled.
    pub(super) fn unsettled(&self) -> Option<(u64, u64)> {
        (self.num_ack_pending > 0).then_some((self.ack_floor.stream_seq, self.delivered.stream_seq))
    }

    /// How many deliveries it has made, and the last record of them.
    pub(super) fn reached(&self) -> (u64, u64) {
        (self.delivered.consumer_seq, self.delivered.stream_seq)
    }

    /// Whether it hands out only some of the records.
    pub(super) fn is_filtered(&self) -> bool {
        let one = self.config.filter_subject.iter().any(|filter| !filter.is_empty());
        one || !self.config.filter_subjects.is_empty()
    }
}

/// A consumer of the name exists, with other settings.
pub(super) const EXISTS: ErrorCode = ErrorCode::CONSUMER_ALREADY_EXISTS;
