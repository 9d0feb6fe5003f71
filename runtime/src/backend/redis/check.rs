//! What a server says of itself.

use redis::Value;

use super::fault::Fault;
use super::link::Link;
use super::settings::Settings;
use super::streams::{self, Nodes};
use super::url::Endpoint;
use crate::capability::{Checked, Host, Wanted};
use crate::error::ErrorKind;

/// The oldest version with everything that is needed.
const OLDEST: u32 = 7;

/// The commands that a backend needs.
pub(super) struct Needs {
    publish: &'static str,
    subscriptions: &'static [Subscribing],
}

/// A command that subscribes, and the one that takes it back.
struct Subscribing {
    subscribe: &'static str,
    unsubscribe: &'static str,
}

const PATTERNS: &str = "PSUBSCRIBE";

pub(super) const SHARDED: Needs = Needs {
    publish: "SPUBLISH",
    subscriptions: &[Subscribing { subscribe: "SSUBSCRIBE", unsubscribe: "SUNSUBSCRIBE" }],
};
pub(super) const PLAIN: Needs = Needs {
    publish: "PUBLISH",
    subscriptions: &[
        Subscribing { subscribe: "SUBSCRIBE", unsubscribe: "UNSUBSCRIBE" },
        Subscribing { subscribe: PATTERNS, unsubscribe: "PUNSUBSCRIBE" },
    ],
};

pub(super) async fn check<N: Nodes>(
    settings: &Settings,
    endpoint: &Endpoint,
    host: &Host,
    wanted: &Wanted,
    needs: &Needs,
) -> Result<Checked, Fault> {
    let mut link = Link::connect(settings, endpoint, host.limits().timeout).await?;
    let info = allowed(link.ask(&["INFO", "server"]).await)?.map(|info| text(&info)).unwrap_or_default();
    let (product, version) = server(&info);
    let mut checked = Checked::new(format!("{product} {}", version.unwrap_or("of unknown version")));
    match version.map(|version| (version, version.split('.').next().and_then(|major| major.parse::<u32>().ok()))) {
        Some((version, Some(major))) if major < OLDEST => {
            checked.problems.push(format!("the server is {product} {version}; use Redis 7.0 or later, or Valkey"));
        }
        Some((_, Some(_))) => {}
        _ => checked.unchecked.push("the version; grant `+info`".to_owned()),
    }
    if needs.publish == SHARDED.publish {
        match link.ask(&["CLUSTER", "SLOTS"]).await {
            Ok(_) => {}
            Err(fault) if fault.kind == ErrorKind::Forbidden => {
                checked.problems.push("the user may not CLUSTER SLOTS; grant it `+cluster|slots`".to_owned());
            }
            Err(fault) => return Err(fault),
        }
    }
    if !rights::<N>(&mut link, wanted, needs, &mut checked.problems).await? {
        checked.unchecked.push("the rights; grant `+acl|whoami +acl|dryrun`".to_owned());
    }
    sizes(&mut link, host, wanted, &mut checked).await?;
    if !wanted.streams.is_empty() {
        streams::check::eviction(&mut link, &mut checked).await?;
    }
    Ok(checked)
}

/// What the user may not ask for, or the server doesn't know, is unknown.
pub(super) fn allowed(answer: Result<Value, Fault>) -> Result<Option<Value>, Fault> {
    match answer {
        Ok(value) => Ok(Some(value)),
        Err(fault) if matches!(fault.kind, ErrorKind::Refused | ErrorKind::Forbidden) => Ok(None),
        Err(fault) => Err(fault),
    }
}

fn server(info: &str) -> (&'static str, Option<&str>) {
    let field = |name: &str| {
        info.lines()
            .find_map(|line| line.split_once(':').filter(|(key, _)| *key == name).map(|(_, value)| value.trim()))
    };
    match field("valkey_version") {
        Some(version) => ("valkey", Some(version)),
        None => ("redis", field("redis_version")),
    }
}

/// Asks for each topic and each stream what the user may not do. Says no where that can't be asked.
async fn rights<N: Nodes>(
    link: &mut Link,
    wanted: &Wanted,
    needs: &Needs,
    problems: &mut Vec<String>,
) -> Result<bool, Fault> {
    let Some(user) = allowed(link.ask(&["ACL", "WHOAMI"]).await)?.map(|user| text(&user)) else { return Ok(false) };
    // What has to be granted besides, where a problem with subscribing doesn't say so already.
    let mut besides: Vec<&str> = Vec::new();
    for topic in &wanted.topics {
        // With a key or without: a rule for one of the two may be all there is.
        let keyed = format!("{topic}.x");
        let Some(granted) = may(link, &user, needs.publish, &[topic, &keyed], &["x"]).await? else { return Ok(false) };
        if !granted {
            let right = needs.publish.to_lowercase();
            problems.push(format!(
                "the user may not {} on `{topic}`; grant it `+{right} &{topic} &{topic}.*`",
                needs.publish
            ));
        }
        for Subscribing { subscribe, unsubscribe } in needs.subscriptions {
            let below = format!("{topic}.*");
            // A cluster's sharded channels have no patterns.
            let channels: &[&str] = if *subscribe == PATTERNS { &[&below] } else { &[topic, &keyed] };
            let Some(granted) = may(link, &user, subscribe, channels, &[]).await? else { return Ok(false) };
            if granted {
                besides.extend([*unsubscribe, "PING"]);
                continue;
            }
            let rights = format!("+{} +{} +ping", subscribe.to_lowercase(), unsubscribe.to_lowercase());
            problems.push(if *subscribe == PATTERNS {
                format!(
                    "the user may not {subscribe} on `{below}`; grant it `{rights} &{below}` to subscribe to every \
                     key; to subscribe under a prefix, each prefix needs its own `&{topic}.prefix.*`, or `allchannels`"
                )
            } else {
                format!("the user may not {subscribe} on `{topic}`; grant it `{rights} &{topic} &{below}`")
            });
        }
    }
    besides.sort_unstable();
    besides.dedup();
    for command in besides {
        let channel: &[&str] = if command == "PING" { &[] } else { &["x"] };
        let Some(granted) = may(link, &user, command, &[], channel).await? else { return Ok(false) };
        if !granted {
            problems.push(format!("the user may not {command}; grant it `+{}`", command.to_lowercase()));
        }
    }
    streams::check::rights::<N>(link, &user, &wanted.streams, problems).await
}

/// Asks whether the user may do this on one of the channels at least, or at all. `None` where that can't be asked.
async fn may(
    link: &mut Link,
    user: &str,
    command: &str,
    channels: &[&str],
    more: &[&str],
) -> Result<Option<bool>, Fault> {
    let mut ways: Vec<&[&str]> = channels.chunks(1).collect();
    if ways.is_empty() {
        ways.push(&[]);
    }
    for way in ways {
        let words = [&["ACL", "DRYRUN", user, command], way, more].concat();
        match allowed(link.ask(&words).await)? {
            None => return Ok(None),
            Some(Value::Okay) => return Ok(Some(true)),
            Some(_) => {}
        }
    }
    Ok(Some(false))
}

/// Compares what may be published with what the server takes.
async fn sizes(link: &mut Link, host: &Host, wanted: &Wanted, checked: &mut Checked) -> Result<(), Fault> {
    const SETTING: &str = "proto-max-bulk-len";
    let value = match allowed(link.ask(&["CONFIG", "GET", SETTING]).await)? {
        Some(Value::Map(pairs)) => pairs.first().map(|(_, value)| text(value)),
        _ => None,
    };
    let Some(largest) = value.and_then(|value| value.parse::<usize>().ok()) else {
        checked.unchecked.push("the largest payload; grant `+config|get`".to_owned());
        return Ok(());
    };
    let limits = host.limits();
    let appended = ("append_bytes", limits.append_bytes, !wanted.streams.is_empty());
    for (name, most, _) in [("publish_bytes", limits.publish_bytes, true), appended].iter().filter(|(.., used)| *used) {
        if largest < *most {
            checked.problems.push(format!(
                "the server takes {largest} bytes and `{name}` is {most}; raise `{SETTING}` or lower the limit"
            ));
        }
    }
    Ok(())
}

pub(super) fn text(value: &Value) -> String {
    match value {
        Value::BulkString(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        Value::SimpleString(text) | Value::VerbatimString { text, .. } => text.clone(),
        _ => String::new(),
    }
}
