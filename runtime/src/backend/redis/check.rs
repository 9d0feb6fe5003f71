//! What a server says of itself.

use redis::Value;

use super::fault::Fault;
use super::link::Link;
use super::settings::Settings;
use super::url::Endpoint;
use crate::capability::{Checked, Host, Wanted};
use crate::error::ErrorKind;

/// The oldest version with everything that is needed.
const OLDEST: u32 = 7;

/// The commands that a backend needs, each with its arguments around a channel.
pub(super) struct Needs {
    publish: &'static str,
    subscribe: &'static str,
    /// How many of publish, subscribe and pattern subscribe there are.
    commands: usize,
}

pub(super) const SHARDED: Needs = Needs { publish: "SPUBLISH", subscribe: "SSUBSCRIBE", commands: 2 };
pub(super) const PLAIN: Needs = Needs { publish: "PUBLISH", subscribe: "SUBSCRIBE", commands: 3 };

pub(super) async fn check(
    settings: &Settings,
    endpoint: &Endpoint,
    host: &Host,
    wanted: &Wanted,
    needs: &Needs,
) -> Result<Checked, Fault> {
    let mut link = Link::connect(settings, endpoint).await?;
    let info = match allowed(link.ask(&["INFO", "server"]).await)? {
        Some(info) => text(&info),
        None => String::new(),
    };
    let (product, version) = server(&info);
    let mut checked = Checked::new(format!("{product} {version}"));
    if version.split('.').next().and_then(|major| major.parse().ok()).is_some_and(|major: u32| major < OLDEST) {
        checked.problems.push(format!("the server is {product} {version}; use Redis 7.0 or later, or Valkey"));
    }
    if needs.publish == SHARDED.publish && allowed(link.ask(&["CLUSTER", "SLOTS"]).await)?.is_none() {
        checked.problems.push("the server isn't a cluster's node, or the user lacks `CLUSTER SLOTS`; use `Redis`, or grant `+cluster|slots`".to_owned());
    }
    rights(&mut link, wanted, needs, &mut checked.problems).await?;
    if let Some(problem) = sizes(&mut link, host).await? {
        checked.problems.push(problem);
    }
    Ok(checked)
}

/// What the user may not ask for is unknown, which is no problem.
fn allowed(answer: Result<Value, Fault>) -> Result<Option<Value>, Fault> {
    match answer {
        Ok(value) => Ok(Some(value)),
        Err(fault) if fault.kind == ErrorKind::Refused => Ok(None),
        Err(fault) => Err(fault),
    }
}

fn server(info: &str) -> (&'static str, &str) {
    let field = |name: &str| {
        info.lines()
            .find_map(|line| line.split_once(':').filter(|(key, _)| *key == name).map(|(_, value)| value.trim()))
    };
    match field("valkey_version") {
        Some(version) => ("valkey", version),
        None => ("redis", field("redis_version").unwrap_or("of unknown version")),
    }
}

/// Asks for each topic whether the user may publish and subscribe.
async fn rights(link: &mut Link, wanted: &Wanted, needs: &Needs, problems: &mut Vec<String>) -> Result<(), Fault> {
    let Some(user) = allowed(link.ask(&["ACL", "WHOAMI"]).await)?.map(|user| text(&user)) else { return Ok(()) };
    for topic in &wanted.topics {
        // With a key or without: a rule for one of the two may be all there is.
        let keyed = format!("{topic}.x");
        let below = format!("{topic}.*");
        let commands: [(&str, &[&str], &[&str]); 3] = [
            (needs.publish, &[topic, &keyed], &["x"]),
            (needs.subscribe, &[topic, &keyed], &[]),
            // For `subscribe_all` and `subscribe_under`; a cluster's sharded channels have no such thing.
            ("PSUBSCRIBE", &[&below], &[]),
        ];
        for (command, channels, more) in &commands[..needs.commands] {
            let mut granted = false;
            for channel in *channels {
                let mut words = vec!["ACL", "DRYRUN", &user, command, channel];
                words.extend(*more);
                let Some(answer) = allowed(link.ask(&words).await)? else { return Ok(()) };
                granted |= matches!(answer, Value::Okay);
            }
            if !granted {
                problems.push(format!(
                    "the user may not {command} on `{topic}`; grant it `+{} &{topic} &{topic}.*`",
                    command.to_lowercase()
                ));
            }
        }
    }
    Ok(())
}

/// Compares what may be published with what the server takes.
async fn sizes(link: &mut Link, host: &Host) -> Result<Option<String>, Fault> {
    const SETTING: &str = "proto-max-bulk-len";
    let Some(answer) = allowed(link.ask(&["CONFIG", "GET", SETTING]).await)? else { return Ok(None) };
    let value = match answer {
        Value::Map(pairs) => pairs.first().map(|(_, value)| text(value)),
        _ => None,
    };
    let largest = value.and_then(|value| value.parse::<usize>().ok());
    let wanted = host.limits().publish_bytes;
    Ok(largest.filter(|largest| *largest < wanted).map(|largest| {
        format!(
            "the server takes {largest} bytes and `publish_bytes` is {wanted}; raise `{SETTING}` or lower the limit"
        )
    }))
}

fn text(value: &Value) -> String {
    match value {
        Value::BulkString(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        Value::SimpleString(text) | Value::VerbatimString { text, .. } => text.clone(),
        _ => String::new(),
    }
}
