//! What a server says of the bound streams: rights, and whether it may drop them.

use redis::Value;

use super::super::check::{allowed, text};
use super::super::fault::Fault;
use super::super::link::Link;
use super::Nodes;
use super::layout::{Layout, meta};
use crate::capability::{Checked, StreamAddress};
use crate::stream::StreamSettings;

/// What is done with a stream, and with which commands.
struct Use {
    what: &'static str,
    /// Each with the key that it is asked about, and what goes with that.
    commands: &'static [(&'static str, Key, &'static [&'static str])],
}

#[derive(Clone, Copy)]
enum Key {
    None,
    Log,
    Ids,
    Meta,
    /// Behind a script and the number of keys.
    Script,
    /// Behind the words of a read.
    Read(&'static [&'static str]),
}

const USES: [Use; 5] = [
    Use {
        what: "append on",
        commands: &[
            ("HGETALL", Key::Meta, &[]),
            ("XADD", Key::Log, &["NOMKSTREAM", "*", "f", "v"]),
            ("XTRIM", Key::Log, &["MINID", "~", "0"]),
            ("EVALSHA", Key::Script, &[]),
            ("EVAL", Key::Script, &[]),
            ("EXISTS", Key::Log, &[]),
            ("TIME", Key::None, &[]),
            ("ZSCORE", Key::Ids, &["m"]),
            ("ZADD", Key::Ids, &["0", "m"]),
            ("ZRANGEBYSCORE", Key::Ids, &["0", "0"]),
            ("ZREM", Key::Ids, &["m"]),
            ("HSET", Key::Ids, &["f", "v"]),
            ("HGET", Key::Ids, &["f"]),
            ("HDEL", Key::Ids, &["f"]),
        ],
    },
    Use {
        what: "read on",
        commands: &[
            ("HGETALL", Key::Meta, &[]),
            ("XRANGE", Key::Log, &["-", "+"]),
            ("XREAD", Key::Read(&["STREAMS"]), &["0"]),
            ("XINFO STREAM", Key::Log, &[]),
            ("CLIENT UNBLOCK", Key::None, &["0"]),
            ("EVALSHA", Key::Script, &[]),
            ("EVAL", Key::Script, &[]),
        ],
    },
    Use {
        what: "consume in a group on",
        commands: &[
            ("MULTI", Key::None, &[]),
            ("EXEC", Key::None, &[]),
            ("XLEN", Key::Log, &[]),
            ("XREADGROUP", Key::Read(&["GROUP", "g", "c", "STREAMS"]), &[">"]),
            ("XACK", Key::Log, &["g", "0-1"]),
            ("XPENDING", Key::Log, &["g"]),
            ("XCLAIM", Key::Log, &["g", "c", "0", "0-1"]),
            ("XAUTOCLAIM", Key::Log, &["g", "c", "0", "0"]),
            ("XREVRANGE", Key::Log, &["+", "-"]),
            ("XINFO GROUPS", Key::Log, &[]),
            ("XGROUP SETID", Key::Log, &["g", "0"]),
            ("TIME", Key::None, &[]),
        ],
    },
    Use {
        what: "ensure or delete a group, remove a consumer or trim on",
        commands: &[
            ("XGROUP CREATE", Key::Log, &["g", "0"]),
            ("XGROUP DESTROY", Key::Log, &["g"]),
            ("XGROUP DELCONSUMER", Key::Log, &["g", "c"]),
            ("XTRIM", Key::Log, &["MAXLEN", "0"]),
        ],
    },
    Use {
        what: "ensure or delete",
        commands: &[
            ("HGETALL", Key::Meta, &[]),
            ("EVALSHA", Key::Script, &[]),
            ("EVAL", Key::Script, &[]),
            ("TYPE", Key::Log, &[]),
            ("EXISTS", Key::Log, &[]),
            ("HSET", Key::Meta, &["f", "v"]),
            ("XGROUP CREATE", Key::Log, &["g", "0"]),
            ("XGROUP DESTROY", Key::Log, &["g"]),
            ("UNLINK", Key::Log, &[]),
        ],
    },
];

/// Asks for each stream what the user may not do. Says no where that can't be asked.
pub(in super::super) async fn rights<N: Nodes>(
    link: &mut Link,
    user: &str,
    streams: &[std::sync::Arc<StreamAddress>],
    problems: &mut Vec<String>,
) -> Result<bool, Fault> {
    for stream in streams {
        let layout = Layout::new::<N>(stream, StreamSettings::default());
        let (part, meta) = (&layout.parts[0], meta(stream));
        for Use { what, commands } in &USES {
            let mut missing: Vec<String> = Vec::new();
            for (command, key, rest) in *commands {
                let mut words = vec!["ACL", "DRYRUN", user];
                words.extend(command.split(' '));
                match key {
                    Key::None => {}
                    Key::Log => words.push(&part.log),
                    Key::Ids => words.push(&part.ids),
                    Key::Meta => words.push(&meta),
                    Key::Script => words.extend(["x", "1", &part.log]),
                    Key::Read(before) => {
                        words.extend(*before);
                        words.push(&part.log);
                    }
                }
                words.extend(*rest);
                match allowed(link.ask(&words).await)? {
                    None => return Ok(false),
                    Some(Value::Okay) => {}
                    Some(_) => missing.push(format!("+{}", command.to_lowercase().replace(' ', "|"))),
                }
            }
            if !missing.is_empty() {
                let address = stream.text();
                let keys = if stream.is_verbatim() {
                    format!("~{address} ~{{{address}}}:*")
                } else {
                    format!("~{{{address}.p* ~{{{address}}}:*")
                };
                let rights = missing.join(" ");
                problems.push(format!("the user may not {what} the stream `{address}`; grant it `{rights} {keys}`"));
            }
        }
    }
    Ok(true)
}

/// Looks whether the server may drop a stream to make room.
pub(in super::super) async fn eviction(link: &mut Link, checked: &mut Checked) -> Result<(), Fault> {
    let mut settings = Vec::new();
    for setting in ["maxmemory", "maxmemory-policy"] {
        match allowed(link.ask(&["CONFIG", "GET", setting]).await)? {
            Some(Value::Map(pairs)) => settings.extend(pairs.first().map(|(_, value)| text(value))),
            _ => break,
        }
    }
    match &settings[..] {
        [limit, policy] if limit != "0" && policy.starts_with("allkeys-") => checked.problems.push(format!(
            "the server drops streams with their groups when its memory is full (`maxmemory-policy` is {policy}); set \
             it to `noeviction` or to a `volatile-` policy"
        )),
        [_, _] => {}
        _ => checked.unchecked.push("whether streams may be dropped; grant `+config|get`".to_owned()),
    }
    Ok(())
}
