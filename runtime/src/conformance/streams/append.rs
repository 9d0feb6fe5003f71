use std::collections::BTreeSet;
use std::time::Duration;

use tokio::time::Instant;

use super::Streams;
use super::entries::{Booking, Entry, Page};
use super::steps::{all, behind, parted, places};
use crate::conformance::Network;
use crate::conformance::rule::{Rule, limits};
use crate::error::{ErrorKind, Outcome};
use crate::stream::{Append, Durability, Start, StreamSettings};

/// `append-recorded`: an append returns when the record is there, with its position, and recorded as durably as asked or
/// refused.
pub async fn append_recorded<S: Streams>(subject: S) {
    const RULE: Rule = Rule("append-recorded");
    let stream = RULE.entries(&subject).await;
    let other = RULE.bound(&subject);
    let mut last = None;
    for n in 0..50 {
        let receipt = RULE.ok("appending", stream.append(&1, &Entry { n })).await;
        let position = RULE.stored("an append", receipt);
        RULE.that(last < Some(position), &format!("positions must rise, but {position} came after {last:?}"));
        RULE.reads("what was appended is there for others", &other, behind(last), [n]).await;
        last = Some(position);
    }
    let same = Entry { n: 0 };
    let (one, two) = tokio::join!(stream.append(&1, &same), other.append(&1, &same));
    let positions = [one, two].map(|receipt| RULE.stored("equal entries", RULE.unwrap("appending", receipt)));
    RULE.that(positions[0] != positions[1], "equal entries without ids are two records");
    RULE.same("all that were appended", RULE.read("reading", &other, Start::Earliest).await.len(), 52);

    for (durability, possible) in [
        (Durability::Primary, true),
        (Durability::Fsync, true),
        (Durability::Replicas(1), S::REPLICAS >= 1),
        (Durability::Replicas(64), S::REPLICAS >= 64),
    ] {
        // What can't come is waited for only briefly.
        let primary = durability == Durability::Primary;
        let limits = if primary { limits() } else { limits().timeout(Duration::from_millis(300)) };
        let writer = RULE.bound_with(&subject, limits);
        let before = RULE.read("reading", &other, Start::Earliest).await.len();
        let appended = match writer.with_durability(durability) {
            Ok(durable) => RULE.within("a durable append", durable.append(&1, &Entry { n: 99 })).await,
            Err(error) => Err(error),
        };
        let after = RULE.read("reading", &other, Start::Earliest).await.len();
        match appended {
            Ok(_) => {
                RULE.that(possible, &format!("{durability:?} was promised where it isn't possible"));
                RULE.same("a durable append", after, before + 1);
            }
            Err(error) => {
                RULE.that(!primary, &format!("the control: the primary's record is always possible, but {error}"));
                let refused = matches!(error.kind(), ErrorKind::Unsupported | ErrorKind::Timeout);
                RULE.that(refused, &format!("{durability:?} failed by {error}"));
                RULE.that(error.outcome() == Outcome::Unknown || after == before, "what wasn't applied is there");
            }
        }
    }
    for wrong in [0, 65] {
        let refused = RULE.unwrap_err("so many replicas", stream.with_durability(Durability::Replicas(wrong)));
        RULE.refused("so many replicas", &refused, ErrorKind::Invalid);
    }
}

/// `append-all`: a batch keeps its order, is one operation, and answers for each record.
pub async fn append_all<S: Streams>(subject: S) {
    const RULE: Rule = Rule("append-all");
    const SIZE: u64 = 100;
    let broker = RULE.broker_with(&subject, limits().operations(1).batch_messages(100).append_bytes(64));
    let stream = RULE.unwrap("binding", Entry::stream(&broker));
    RULE.ok("creating the stream", stream.ensure(parted::<S>(3))).await;
    let entries: Vec<_> = (0..SIZE).map(|n| (n % 7, Entry { n })).collect();
    // One place is enough for all of them.
    let outcomes = RULE.ok("a batch", stream.append_all(entries.iter().map(|(key, entry)| (key, entry)))).await;
    let told: Vec<_> =
        outcomes.into_iter().map(|outcome| RULE.stored("a record", RULE.unwrap("a record", outcome))).collect();
    RULE.same("the outcomes of a batch", told.len(), entries.len());
    let read = RULE.read("reading a batch", &stream, Start::Earliest).await;
    RULE.same("a batch, each once", read.len(), entries.len());
    for delivery in &read {
        let n = RULE.number("a record of a batch", delivery);
        let index = usize::try_from(n).unwrap_or(usize::MAX);
        RULE.same("the position that was told", delivery.position(), told[index]);
        RULE.same("the key of a record", delivery.key().ok(), Some(entries[index].0));
    }
    for pair in read.windows(2) {
        let numbers = RULE.numbers("a record of a batch", pair);
        let same = pair[0].position().partition() == pair[1].position().partition();
        RULE.that(!same || numbers[0] < numbers[1], "a batch keeps its order within a partition");
    }

    // One that can't be encoded fails alone, in its place.
    let pages = RULE.unwrap("binding", Page::stream(&broker));
    RULE.ok("creating the stream", pages.ensure(StreamSettings::new())).await;
    let batch = [Page::of(1), Page::of(100), Page::of(2)];
    let outcomes = RULE.ok("a batch", pages.append_all(batch.iter().map(|page| (&1, page)))).await;
    let kinds: Vec<_> = outcomes.iter().map(|outcome| outcome.as_ref().err().map(crate::Error::kind)).collect();
    RULE.same("a batch with one too large", kinds, [None, Some(ErrorKind::TooLarge), None]);
    let read = RULE.ok("reading", pages.read(Start::Earliest, 10, Duration::ZERO)).await;
    let told: Vec<_> =
        outcomes.into_iter().filter_map(|outcome| Some(RULE.stored("a neighbour", outcome.ok()?))).collect();
    RULE.same("its neighbours", places(&read), told);

    let bookings = RULE.unwrap("binding", Booking::stream(&broker));
    RULE.ok("creating the stream", bookings.ensure(StreamSettings::new())).await;
    let booking = Booking { tenant: "a".to_owned(), room: 1 };
    let outcomes = RULE.ok("a batch of those with their keys", bookings.append_all([&booking, &booking])).await;
    RULE.that(outcomes.len() == 2 && outcomes.iter().all(Result::is_ok), "a batch of those with their keys");

    let none: [(&u64, &Entry); 0] = [];
    RULE.same("an empty batch", RULE.ok("an empty batch", stream.append_all(none)).await.len(), 0);
    let too_many: Vec<_> = (0..=SIZE).map(|_| (&1, &Entry { n: 0 })).collect();
    let refused = RULE.fails("a batch too large", stream.append_all(too_many)).await;
    RULE.refused("a batch too large", &refused, ErrorKind::Invalid);

    // Out of reach, each fails by itself; the control is above.
    let fresh = RULE.bound(&subject);
    subject.refuse(true).await;
    let pair = [(&1, &Entry { n: 0 }), (&2, &Entry { n: 1 })];
    for outcome in RULE.ok("a batch out of reach", fresh.append_all(pair)).await {
        let failed = RULE.unwrap_err("a record out of reach", outcome);
        RULE.same("its outcome", failed.outcome(), Outcome::NotApplied);
    }
    subject.refuse(false).await;
    let left = RULE.read("reading again", &RULE.bound(&subject), Start::Earliest).await;
    RULE.same("what wasn't applied isn't there", left.len(), entries.len());
}

/// `append-id`: every record has an id; a generated one is unique and a UUID of version 7, a caller's is kept.
pub async fn append_id<S: Streams>(subject: S) {
    const RULE: Rule = Rule("append-id");
    const EACH: u64 = 200;
    let here = RULE.entries(&subject).await;
    let there = RULE.bound(&subject);
    let appends = (0..EACH).flat_map(|n| [&here, &there].map(|stream| stream.append(&n, &Entry { n })));
    for outcome in RULE.within("appending from two brokers", all(appends.collect::<Vec<_>>())).await {
        RULE.stored("appending", RULE.unwrap("appending", outcome));
    }
    let read = RULE.read("reading", &here, Start::Earliest).await;
    let ids: BTreeSet<_> = read.iter().filter_map(|delivery| delivery.id().map(ToString::to_string)).collect();
    RULE.same("ids, each once", ids.len(), read.len());
    RULE.same("records", read.len() as u64, 2 * EACH);
    for delivery in &read {
        let text = delivery.id().map(ToString::to_string).unwrap_or_default();
        let id = uuid::Uuid::try_parse(&text).ok().filter(|id| id.get_version_num() == 7);
        let Some(seconds) = id.and_then(|id| id.get_timestamp()).map(|time| time.to_unix()) else {
            panic!("append-id: `{text}` is no UUID of version 7")
        };
        let produced = delivery.produced_at().and_then(|time| time.duration_since(std::time::UNIX_EPOCH).ok());
        let produced = produced.map(|since| (since.as_secs(), since.subsec_millis()));
        RULE.same("the time in an id", Some((seconds.0, seconds.1 / 1_000_000)), produced);
    }

    for id in ["order-7", " ", "é", &"x".repeat(256), "0192D1E2-1111-7000-8000-000000000000"] {
        let after = RULE.read("reading", &here, Start::Earliest).await.last().map(crate::Delivery::position);
        let receipt = RULE.ok("appending", here.append_with(Append::new(&1, &Entry { n: 1 }).id(id))).await;
        RULE.stored("an id of the caller's", receipt);
        let read = RULE.read("reading", &here, behind(after)).await;
        let got: Vec<_> = read.iter().map(|delivery| delivery.id().map(ToString::to_string)).collect();
        RULE.same("a caller's id", got, [Some(id.to_owned())]);
    }
    let before = RULE.read("reading", &here, Start::Earliest).await.len();
    for id in ["", "a\nb", "\u{7f}", &"x".repeat(257), &"é".repeat(129)] {
        let refused = RULE.fails("a bad id", here.append_with(Append::new(&1, &Entry { n: 1 }).id(id))).await;
        RULE.refused("a bad id", &refused, ErrorKind::Invalid);
    }
    RULE.same("after bad ids", RULE.read("reading", &here, Start::Earliest).await.len(), before);
}

/// `append-order`: appends awaited one after another for one key are read in that order, whatever others do at once.
pub async fn append_order<S: Streams>(subject: S) {
    const RULE: Rule = Rule("append-order");
    const EACH: u64 = 40;
    const KEYS: u64 = 8;
    let here = RULE.entries_of(&subject, parted::<S>(3)).await;
    let there = RULE.bound(&subject);
    let append = async |key: u64| {
        for n in 0..EACH {
            let stream = if key.is_multiple_of(2) { &here } else { &there };
            RULE.ok("appending", stream.append(&key, &Entry { n })).await;
        }
    };
    RULE.within("appending by many", all((0..KEYS).map(append))).await;
    let read = RULE.read("reading", &here, Start::Earliest).await;
    RULE.same("all records", read.len() as u64, EACH * KEYS);
    for key in 0..KEYS {
        let own: Vec<_> = read.iter().filter(|delivery| delivery.key().is_ok_and(|its| its == key)).collect();
        let partitions: BTreeSet<_> = own.iter().map(|delivery| delivery.position().partition()).collect();
        RULE.same("partitions of a key", partitions.len(), 1);
        let numbers: Vec<_> = own.iter().map(|delivery| RULE.number("reading", delivery)).collect();
        RULE.same("the order of a key", numbers, (0..EACH).collect::<Vec<_>>());
    }
    // The control: the other order of appending is the other order of reading.
    let after: crate::Positions = places(&read).into_iter().collect();
    RULE.fill(&here, [2, 1]).await;
    RULE.reads("the control", &there, after, [2, 1]).await;
}

/// `append-recorded`: an append whose reply is lost says `Unknown`, and nothing is appended twice.
pub async fn append_lost_reply<S: Streams + Network>(subject: S) {
    const RULE: Rule = Rule("append-recorded");
    RULE.entries(&subject).await;
    let stream = RULE.bound_with(&subject, limits().timeout(Duration::from_millis(500)));
    // The control: with replies it is told as done.
    RULE.fill(&stream, [0]).await;
    subject.lose_replies(true).await;
    let failed = RULE.fails("appending without a reply", stream.append(&1, &Entry { n: 1 })).await;
    RULE.same("the outcome of a lost reply", failed.outcome(), Outcome::Unknown);
    let pair = [Entry { n: 2 }, Entry { n: 3 }];
    let outcomes = RULE.ok("a batch without replies", stream.append_all(pair.iter().map(|entry| (&1, entry)))).await;
    RULE.same("a batch without replies", outcomes.len(), 2);
    for outcome in outcomes {
        let failed = RULE.unwrap_err("a record without a reply", outcome);
        RULE.that(failed.is_transient(), "a lost reply must be transient");
    }
    subject.lose_replies(false).await;
    RULE.eventually("appending works again", async || stream.append(&1, &Entry { n: 4 }).await.is_ok()).await;
    let read = RULE.numbers("reading", &RULE.read("reading", &RULE.bound(&subject), Start::Earliest).await);
    RULE.same("those known", &read[..2], [0, 1]);
    let count = |n| read.iter().filter(|seen| **seen == n).count();
    RULE.that([1, 2, 3].iter().all(|n| count(*n) <= 1), "nothing may be appended twice");
}

/// `append-recorded`: an error comes within the timeout, also from a system that says nothing.
pub async fn append_silent<S: Streams + Network>(subject: S) {
    const RULE: Rule = Rule("append-recorded");
    /// What a busy machine may add.
    const SLACK: Duration = Duration::from_secs(2);
    let timeout = Duration::from_millis(300);
    RULE.entries(&subject).await;
    let stream = RULE.bound_with(&subject, limits().timeout(timeout));
    RULE.fill(&stream, [0]).await;
    subject.silence(true).await;
    let began = Instant::now();
    let failed = RULE.fails("appending to silence", stream.append(&1, &Entry { n: 1 })).await;
    RULE.that(began.elapsed() < timeout + SLACK, "an append's error must come within the timeout");
    let in_time = matches!(failed.kind(), ErrorKind::Timeout | ErrorKind::Unavailable);
    RULE.that(in_time, &format!("an append to silence failed by {failed}"));
    let began = Instant::now();
    let wait = Duration::from_millis(200);
    RULE.fails("reading from silence", stream.read(Start::Earliest, 1, wait)).await;
    // It may connect, resolve its start and read, each within the timeout.
    RULE.that(began.elapsed() < wait + 3 * timeout + SLACK, "a read's error must come within wait and timeouts");
    subject.silence(false).await;
    RULE.eventually("the control: appending works again", async || stream.append(&1, &Entry { n: 2 }).await.is_ok())
        .await;
}
