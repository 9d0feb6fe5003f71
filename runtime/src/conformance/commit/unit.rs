use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;

use super::steps::{AWHILE, SOON, last, nth, total};
use crate::broker::{Broker, lock};
use crate::capability::{AckGroups, CommitGroups, Transactions};
use crate::conformance::rule::{Rule, limits};
use crate::conformance::streams::entries::{Entry, Other};
use crate::conformance::streams::steps::{ALL, all, give_up, places};
use crate::conformance::{PATIENCE, Streams, Subject};
use crate::error::{ErrorKind, Operation, Outcome};
use crate::stream::{MemberSettings, Position, Positions, Start, Stream, StreamSettings};

const RULE: Rule = Rule("unit-atomic");

/// Where the units of these properties append.
type Outputs<S> = Stream<Other, <S as Subject>::Backend>;

impl Rule {
    async fn outputs<S: Streams>(self, broker: &Broker<S::Backend>) -> Outputs<S> {
        let outputs = self.unwrap("binding", Other::stream(broker));
        self.ok("creating the outputs", outputs.ensure(StreamSettings::new())).await;
        outputs
    }

    /// The numbers in the outputs, in order. Kafka shows what a unit recorded a moment after it has returned.
    async fn put_out<S: Streams>(self, outputs: &Outputs<S>) -> Vec<u64> {
        let mut read = self.look(outputs, Start::Earliest, Duration::ZERO).await;
        loop {
            if S::PAUSED {
                break;
            }
            let after: Positions = read.iter().map(crate::Delivery::position).collect();
            let more = self.look(outputs, after, AWHILE).await;
            if more.is_empty() {
                break;
            }
            read.extend(more);
        }
        let number = |delivery: &crate::Delivery<Other>| delivery.value().map(|other| other.n);
        read.iter().map(|delivery| number(delivery).expect("what a unit appends decodes")).collect()
    }

    /// Reads the outputs. A connection that was broken may be told once more.
    async fn look<B: crate::capability::Log>(
        self,
        outputs: &Stream<Other, B>,
        from: impl Into<Start>,
        wait: Duration,
    ) -> Vec<crate::Delivery<Other>> {
        let from = from.into();
        self.within("reading the outputs", async {
            loop {
                match outputs.read(from.clone(), ALL, wait).await {
                    Ok(read) => return read,
                    Err(error) if error.is_transient() => tokio::time::sleep(Duration::from_millis(2)).await,
                    Err(error) => panic!("{}: reading the outputs: {error:?}", self.0),
                }
            }
        })
        .await
    }
}

/// `unit-atomic`: a unit of appends and a commit is recorded whole, with a receipt for each append, or not at all.
pub async fn unit_atomic<S: Streams<Backend: CommitGroups + Transactions>>(subject: S) {
    let stream = RULE.entries(&subject).await;
    let broker = stream.broker();
    let outputs = RULE.outputs::<S>(broker).await;
    let group = RULE.commits(&stream, "g").await;
    let told = RULE.fill(&stream, 0..6).await;
    let one = RULE.joins(&group).await;
    RULE.gives("reading", &one, 0..6).await;

    let other = |n| Other { n };
    let unit = broker.unit().append(&outputs, (&1, &other(10))).append(&stream, (&1, &Entry { n: 6 }));
    let unit = unit.append(&outputs, (&1, &other(11))).commit(&one, [told[2], told[0]]);
    let receipts = RULE.ok("recording", unit.record()).await;
    RULE.same("a receipt for each append", receipts.len(), 3);
    let stand: Vec<Position> = receipts.iter().map(|receipt| RULE.stored("recording", *receipt)).collect();
    // Elsewhere, too.
    let far = RULE.elsewhere(&subject, "g");
    RULE.committed_is("the commit", &far, 0, told[2]).await;
    let there = RULE.unwrap("binding", Other::stream(far.stream().broker()));
    RULE.same("the outputs", RULE.put_out::<S>(&there).await, [10, 11]);
    let read = RULE.ok("reading", there.read(Start::Earliest, ALL, Duration::ZERO)).await;
    RULE.same("where they stand", places(&read), [stand[0], stand[2]]);
    RULE.eventually("the other stream", async || !RULE.read("reading", far.stream(), told[5]).await.is_empty()).await;
    let read = RULE.read("reading", far.stream(), told[5]).await;
    RULE.same("the other stream", (RULE.numbers("reading", &read), places(&read)), (vec![6], vec![stand[1]]));
    RULE.gives("what a unit appends comes to members as well", &one, [6]).await;

    // Appends alone, a commit alone, nothing at all.
    RULE.ok("appends alone", broker.unit().append(&outputs, (&1, &other(12))).record()).await;
    RULE.committed_is("appends alone", &far, 0, told[2]).await;
    RULE.same("a commit alone", RULE.ok("a commit alone", broker.unit().commit(&one, [told[3]]).record()).await, []);
    RULE.committed_is("a commit alone", &far, 0, told[3]).await;
    RULE.same("nothing", RULE.ok("nothing", broker.unit().record()).await, []);
    // Never backwards, as every commit.
    let back = broker.unit().append(&outputs, (&1, &other(13))).commit(&one, [told[1]]);
    RULE.ok("an old position", back.record()).await;
    RULE.committed_is("never backwards", &far, 0, told[3]).await;
    RULE.same("the outputs", RULE.put_out::<S>(&there).await, [10, 11, 12, 13]);

    // What can't be part of it has nothing of it recorded.
    let elsewhere = RULE.broker(&subject);
    let strange = RULE.unwrap("binding", Other::stream(&elsewhere));
    let more = RULE.fill(&stream, [7]).await;
    let narrow = RULE.broker_with(&subject, limits().batch_messages(2));
    let narrow_outputs = RULE.unwrap("binding", Other::stream(&narrow));
    let mut many = narrow.unit();
    for n in 0..3 {
        many = many.append(&narrow_outputs, (&1, &other(n)));
    }
    let refused = [
        RULE.fails(
            "another broker's",
            broker.unit().append(&outputs, (&1, &other(0))).append(&strange, (&1, &other(0))).record(),
        )
        .await,
        RULE.fails("too many", many.record()).await,
        RULE.fails(
            "beyond what was read",
            broker.unit().append(&outputs, (&1, &other(0))).commit(&one, [more[0]]).record(),
        )
        .await,
    ];
    for error in refused {
        RULE.refused("what can't be part of it", &error, ErrorKind::Invalid);
    }
    RULE.same("nothing of it is there", RULE.put_out::<S>(&there).await, [10, 11, 12, 13]);
    RULE.committed_is("nothing of it is there", &far, 0, told[3]).await;
    RULE.same("operations that are left", broker.stats().operations, 0);

    // A reader sees all of a unit or nothing.
    let recording = async {
        for n in 100..130 {
            let unit = broker.unit().append(&outputs, (&1, &other(n))).append(&outputs, (&1, &other(n)));
            RULE.ok("recording", unit.append(&stream, (&1, &Entry { n })).record()).await;
            tokio::task::yield_now().await;
        }
    };
    let reading = async {
        let mut seen = 0;
        while seen < 60 {
            let out = RULE.put_out::<S>(&there).await;
            seen = out.iter().filter(|n| **n >= 100).count();
            if <S as Subject>::PAUSED {
                RULE.that(seen.is_multiple_of(2), "a reader sees all of a unit's appends or none");
                let read = RULE.read("reading", far.stream(), more[0]).await.len();
                RULE.that(2 * read >= seen, "a reader sees all of a unit's streams or none");
            }
            tokio::task::yield_now().await;
        }
    };
    RULE.within("reading while units are recorded", async { tokio::join!(recording, reading) }).await;
    let out = RULE.put_out::<S>(&there).await;
    let expected: Vec<u64> = [10, 11, 12, 13].into_iter().chain((100..130).flat_map(|n| [n, n])).collect();
    RULE.same("every unit, in order", out, expected);
}

/// `unit-atomic`: of a unit for a partition that isn't the member's any longer, or for what isn't there, nothing is
/// recorded.
pub async fn unit_refused<S: Streams<Backend: CommitGroups + Transactions>>(subject: S) {
    let stream = RULE.entries_of(&subject, StreamSettings::new().partitions(2)).await;
    let broker = stream.broker();
    let group = RULE.commits(&stream, "g").await;
    let spread = RULE.spread::<S>(&stream, 2, 4).await;
    let one = RULE.joins(&group).await;
    RULE.gathers("reading", &one, total(&spread)).await;
    let other = Other { n: 1 };
    let before = RULE.read("reading", &stream, Start::Earliest).await.len();
    let unchanged = async |what: &str| {
        let read = RULE.read(what, &stream, Start::Earliest).await.len();
        RULE.same(what, (read, RULE.committed(&group).await.is_empty()), (before, true));
    };

    // A stream that isn't there: nothing of the unit is, and nothing creates it.
    let outputs = RULE.unwrap("binding", Other::stream(broker));
    let unit = || {
        let unit = broker.unit().append(&stream, (&1, &Entry { n: 1_000 })).append(&outputs, (&1, &other));
        unit.commit(&one, nth(&spread, &[0], 1))
    };
    let failed = RULE.fails("a stream that isn't there", unit().record()).await;
    RULE.refused("a stream that isn't there", &failed, ErrorKind::Absent);
    RULE.same("the operation", failed.operation(), Operation::Record);
    let failed = RULE.fails("no stream afterwards", outputs.read(Start::Earliest, 1, Duration::ZERO)).await;
    RULE.refused("no stream afterwards", &failed, ErrorKind::Absent);
    unchanged("a stream that isn't there").await;
    RULE.ok("creating it", outputs.ensure(StreamSettings::new())).await;

    // A partition that has moved: nothing, also of the other partition.
    let two = RULE.joins(&RULE.elsewhere(&subject, "g")).await;
    RULE.drive("moving", &[&one, &two], |_| one.assigned().len() == 1 && two.assigned().len() == 1).await;
    let (stay, moved) = (one.assigned(), two.assigned());
    for partitions in [&moved[..], &[0, 1]] {
        let unit = broker.unit().append(&outputs, (&1, &other)).append(&stream, (&1, &Entry { n: 1_000 }));
        let failed = RULE.fails("a moved partition", unit.commit(&one, nth(&spread, partitions, 2)).record()).await;
        RULE.refused("a moved partition", &failed, ErrorKind::Revoked);
        RULE.same("nothing of it is there", RULE.put_out::<S>(&outputs).await, [0_u64; 0]);
        unchanged("a moved partition").await;
    }
    let unit = broker.unit().append(&outputs, (&1, &other)).commit(&one, nth(&spread, &stay, 2));
    RULE.ok("the control: a partition that is its own", unit.record()).await;
    RULE.same("the control: it is there", RULE.put_out::<S>(&outputs).await, [1]);
    RULE.committed_is("the control: it is there", &group, stay[0], spread[&stay[0]][2].1).await;
    RULE.committed_is("the other's is as it was", &group, moved[0], None).await;

    // Out of reach nothing is recorded, and in reach again everything works as before.
    subject.refuse(true).await;
    let unit = broker.unit().append(&outputs, (&1, &other)).commit(&one, last(&spread, &stay));
    let failed = RULE.fails("out of reach", unit.record()).await;
    RULE.that(failed.is_transient(), &format!("out of reach must be transient, not {failed}"));
    subject.refuse(false).await;
    if failed.outcome() == Outcome::NotApplied {
        RULE.eventually("in reach again", async || {
            let read = outputs.read(Start::Earliest, 1, Duration::ZERO).await;
            read.is_ok() && group.committed().await.is_ok()
        })
        .await;
        RULE.same("nothing of it is there", RULE.put_out::<S>(&outputs).await, [1]);
    }
    RULE.eventually("the control: in reach", async || {
        let unit = broker.unit().append(&outputs, (&1, &Other { n: 2 })).commit(&one, last(&spread, &stay));
        unit.record().await.is_ok()
    })
    .await;
    RULE.committed_is("the control: in reach", &group, stay[0], last(&spread, &stay)[0]).await;
    RULE.that(RULE.put_out::<S>(&outputs).await.ends_with(&[2]), "the control: in reach");
    let unit = broker.unit().append(&outputs, (&1, &other)).commit(&one, last(&spread, &stay));
    RULE.ok("closing", broker.close(PATIENCE)).await;
    let closed = RULE.fails("after a close", unit.record()).await;
    RULE.refused("after a close", &closed, ErrorKind::Closed);
}

/// `unit-atomic`: units that are dropped at any step are recorded whole or not at all, so that what members put out while
/// they come and go stands there once for each record.
pub async fn unit_once<S: Streams<Backend: CommitGroups + Transactions>>(subject: S) {
    const COUNT: u64 = 150;
    let stream = RULE.entries_of(&subject, StreamSettings::new().partitions(3)).await;
    let outputs = RULE.outputs::<S>(stream.broker()).await;
    let group = RULE.commits(&stream, "g").await;
    for n in 0..COUNT {
        RULE.ok("appending", stream.append(&n, &Entry { n })).await;
    }
    let brokers: Vec<_> = (0..3).map(|_| RULE.bound(&subject)).collect();
    let dropped = Mutex::new(0);
    let working = brokers.iter().zip(0..).map(|(stream, index)| {
        let dropped = &dropped;
        async move {
            let outputs = RULE.unwrap("binding", Other::stream(stream.broker()));
            let group = RULE.unwrap("looking up", stream.commit_group("g"));
            for stay in 0..4_u64 {
                let settings = MemberSettings::new().hand_over(Duration::from_secs(20));
                let member = RULE.ok("joining", group.join(settings)).await;
                for turn in 0..4 + index {
                    let read = RULE.ok("reading", member.read(4, SOON)).await;
                    for delivery in read {
                        let n = RULE.number("reading", &delivery);
                        let unit = stream.broker().unit().append(&outputs, (&1, &Other { n }));
                        let record = unit.commit(&member, [delivery.position()]).record();
                        // Every so often it is dropped midway, and whether it was recorded is looked up.
                        if (n + stay + turn).is_multiple_of(3) {
                            if let Some(done) = give_up(record, n % 9).await {
                                RULE.unwrap("recording", done);
                                continue;
                            }
                            *lock(dropped) += 1;
                            RULE.ok("going back", member.seek_to_committed()).await;
                            break;
                        }
                        match RULE.within("recording", record).await {
                            Ok(_) => {}
                            Err(error) if error.kind() == ErrorKind::Revoked => {
                                RULE.refused("a unit that fails", &error, ErrorKind::Revoked);
                                break;
                            }
                            // A busy server may take too long; that is looked up as well.
                            Err(error) => {
                                RULE.that(error.is_transient(), &format!("a unit may take too long, but {error:?}"));
                                RULE.ok("going back", member.seek_to_committed()).await;
                                break;
                            }
                        }
                    }
                }
                // Nobody leaves while a unit that was dropped may be on its way.
                RULE.within("leaving", member.leave()).await;
            }
        }
    });
    tokio::time::timeout(Duration::from_mins(2), all(working))
        .await
        .expect("unit-atomic: hung: members that come and go");
    let rest = RULE.joins(&group).await;
    let finishing = async {
        while RULE.behind_by(&group).await.iter().sum::<u64>() > 0 {
            let read = RULE.ok("reading", rest.read(ALL, SOON)).await;
            for delivery in read {
                let n = RULE.number("reading", &delivery);
                let unit = stream.broker().unit().append(&outputs, (&1, &Other { n }));
                let recorded = RULE.within("recording", unit.commit(&rest, [delivery.position()]).record()).await;
                if let Err(error) = recorded {
                    RULE.that(error.is_transient(), &format!("a unit may take too long, but {error:?}"));
                    RULE.ok("going back", rest.seek_to_committed()).await;
                    break;
                }
            }
        }
    };
    tokio::time::timeout(Duration::from_mins(1), finishing).await.expect("unit-atomic: hung: the rest");
    let mut times: BTreeMap<u64, u32> = BTreeMap::new();
    for n in RULE.put_out::<S>(&outputs).await {
        *times.entry(n).or_default() += 1;
    }
    let expected: BTreeMap<u64, u32> = (0..COUNT).map(|n| (n, 1)).collect();
    RULE.same("one output for each record", times, expected);
    RULE.that(*lock(&dropped) > 0, "some units were dropped midway");
}

/// `unit-atomic`: a unit of appends and acknowledgements is recorded whole or not at all.
pub async fn unit_acks<S: Streams<Backend: AckGroups + Transactions>>(subject: S) {
    let stream = RULE.entries(&subject).await;
    let broker = stream.broker();
    let group = RULE.group::<S>(&stream, "g").await;
    let one = RULE.consumer(&group, "one");
    let told = RULE.fill(&stream, 0..6).await;
    RULE.takes("reading", &one, 10, 0..6).await;
    let outputs = RULE.unwrap("binding", Other::stream(broker));
    let unit = || broker.unit().append(&outputs, (&1, &Other { n: 1 })).ack(&group, [told[1], told[3], told[1]]);
    let pending = async || {
        let pending = RULE.ok("listing", group.pending(None, ALL)).await;
        pending.iter().map(|entry| entry.position).collect::<Vec<_>>()
    };
    let failed = RULE.fails("a stream that isn't there", unit().record()).await;
    RULE.refused("a stream that isn't there", &failed, ErrorKind::Absent);
    RULE.same("nothing is acknowledged", pending().await, &told[..]);
    RULE.ok("creating", outputs.ensure(StreamSettings::new())).await;
    let nobody = RULE.unwrap("looking up", stream.ack_group("nobody"));
    let failed = RULE.fails("a group that isn't there", unit().ack(&nobody, [told[0]]).record()).await;
    RULE.refused("a group that isn't there", &failed, ErrorKind::Absent);
    RULE.same("nothing is acknowledged", pending().await, &told[..]);
    RULE.same("nothing is there", RULE.put_out::<S>(&outputs).await, [0_u64; 0]);
    RULE.same("a receipt for each append", RULE.ok("recording", unit().record()).await.len(), 1);
    RULE.same("what is acknowledged", pending().await, [told[0], told[2], told[4], told[5]]);
    RULE.same("what is there", RULE.put_out::<S>(&outputs).await, [1]);
}
