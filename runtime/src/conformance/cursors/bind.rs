use tokio::time::Instant;

use super::steps::{AWHILE, SECOND};
use crate::capability::Cursors;
use crate::conformance::rule::Rule;
use crate::conformance::{PATIENCE, Streams};
use crate::error::{Error, ErrorKind};
use crate::stream::{DurableOwner, DurableSettings, StreamSettings};

/// `cursor-bind-only`: a missing durable or stream is `Absent`, at once, to everything but the durable's ensure, and
/// nothing makes one.
pub async fn cursor_bind_only<S: Streams<Backend: Cursors>>(subject: S) {
    const RULE: Rule = Rule("cursor-bind-only");
    let stream = RULE.bound(&subject);
    let durable = RULE.durable(&stream, "d");
    let began = Instant::now();
    let absent = |what: &str, error: &Error| {
        RULE.refused(what, error, ErrorKind::Absent);
        RULE.that(began.elapsed() < PATIENCE / 2, &format!("{what}: at once"));
    };
    for _ in 0..2 {
        absent("creating without a stream", &RULE.fails("creating", durable.ensure(DurableSettings::new())).await);
        absent("changing without a stream", &RULE.fails("changing", durable.update(DurableSettings::new())).await);
        absent("binding without a stream", &RULE.fails("binding", durable.cursor()).await);
        absent("asking without a stream", &RULE.fails("asking", durable.info()).await);
        absent("removing without a stream", &RULE.fails("removing", durable.delete()).await);
        RULE.same("there is no stream afterwards", RULE.ok("removing", stream.delete()).await, false);
    }
    RULE.ok("creating the stream", stream.ensure(StreamSettings::new())).await;
    RULE.fill(&stream, 0..2).await;
    for far in [durable.clone(), RULE.far(&subject, "d")] {
        absent("binding without a durable", &RULE.fails("binding", far.cursor()).await);
        absent("binding without a durable", &RULE.fails("binding", stream.cursor(&RULE.module("d"))).await);
        absent("changing without a durable", &RULE.fails("changing", far.update(DurableSettings::new())).await);
        absent("asking without a durable", &RULE.fails("asking", far.info()).await);
        RULE.same("removing without a durable", RULE.ok("removing", far.delete()).await, false);
    }
    let created = RULE.ok("creating", durable.ensure(DurableSettings::new())).await;
    RULE.that(created, "the control: ensure creates it");
    let mut cursor = RULE.ok("binding", stream.cursor(&RULE.module("d"))).await;
    RULE.done("the control: a durable", &mut cursor, 0..2).await;
}

/// `cursor-bind-only`: a durable is its owner's alone: an agent's and a module's of one id are two, and so are those of
/// two streams.
pub async fn cursor_owners<S: Streams<Backend: Cursors>>(subject: S) {
    const RULE: Rule = Rule("cursor-bind-only");
    let stream = RULE.entries(&subject).await;
    RULE.fill(&stream, 0..3).await;
    let longest = format!("0{}", "z_-9".repeat(15)) + "ab";
    RULE.same("the longest id", longest.len(), 63);
    let owner = |named: Result<DurableOwner, _>| named.unwrap_or_else(|_| panic!("{}: a good id", RULE.0));
    let owners = [
        (owner(DurableOwner::agent("a")), "c_a".to_owned()),
        (owner(DurableOwner::module("a")), "m_a".to_owned()),
        (owner(DurableOwner::agent("a-")), "c_a-".to_owned()),
        (owner(DurableOwner::agent("a_")), "c_a_".to_owned()),
        (owner(DurableOwner::module(&longest)), format!("m_{longest}")),
    ];
    for (index, (owner, name)) in owners.iter().enumerate() {
        let durable = RULE.unwrap("looking up", stream.durable(owner));
        RULE.same("its name", durable.name(), name);
        RULE.refused("not there yet", &RULE.fails("binding", durable.cursor()).await, ErrorKind::Absent);
        RULE.that(RULE.ok("creating", durable.ensure(DurableSettings::new())).await, "it is created");
        let mut cursor = RULE.cursor(&durable).await;
        RULE.done("each goes its own way", &mut cursor, 0..index as u64 % 3).await;
    }
    for (index, (owner, _)) in owners.iter().enumerate() {
        let mut cursor = RULE.ok("binding", RULE.bound(&subject).cursor(owner)).await;
        RULE.done("each went its own way", &mut cursor, index as u64 % 3..3).await;
    }
    // The same name on another stream.
    let other = RULE.unwrap("binding", crate::conformance::streams::entries::Other::stream(stream.broker()));
    RULE.ok("creating the stream", other.ensure(StreamSettings::new())).await;
    let there = RULE.fails("binding on another stream", other.cursor(&owners[0].0)).await;
    RULE.refused("on another stream", &there, ErrorKind::Absent);
    let durable = RULE.unwrap("looking up", stream.durable(&owners[0].0));
    RULE.that(RULE.ok("removing", durable.delete()).await, "it was there");
    RULE.same("removing again", RULE.ok("removing", durable.delete()).await, false);
    let kept = RULE.unwrap("looking up", stream.durable(&owners[1].0));
    RULE.ok("the control: the module's stays", kept.info()).await;
}

/// `cursor-bind-only`: a durable outlives its brokers: the next that is bound goes on where it was.
pub async fn cursor_kept<S: Streams<Backend: Cursors>>(subject: S) {
    const RULE: Rule = Rule("cursor-bind-only");
    let stream = RULE.entries(&subject).await;
    let told = RULE.fill(&stream, 0..3).await;
    let settings = DurableSettings::new().ack_wait(2 * SECOND);
    let durable = RULE.created(&stream, "d", settings.clone()).await;
    for round in 0..3 {
        let far = RULE.far(&subject, "d");
        let mut cursor = RULE.cursor(&far).await;
        let attempt = if round == 0 { 1 } else { 2 };
        let held = RULE.hands("where it was", &mut cursor, round, attempt).await;
        RULE.ok("acknowledging", held.ack()).await;
        if round < 2 {
            // What is held when its broker goes isn't settled by that.
            drop(RULE.hands("the next", &mut cursor, round + 1, 1).await);
            RULE.stands("what is held", &durable, (1 - round, 1), told[usize::from(round > 0)]).await;
        }
        drop(cursor);
        RULE.ok("closing", far.stream().broker().close(PATIENCE)).await;
    }
    RULE.stands("all is settled", &durable, (0, 0), told[2]).await;
    RULE.same("creating it again", RULE.ok("creating", durable.ensure(settings)).await, false);
    let mut cursor = RULE.cursor(&durable).await;
    RULE.hands_nothing("nothing comes again", &mut cursor, AWHILE).await;
}
