//! What a user may do on Apache Kafka, and what an error says of what it may not.

use std::fmt::Debug;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tidings::backend;
use tidings::{
    Broker, Config, Delivery, Error, ErrorKind, Limits, MemberSettings, Namespace, Outcome, Start, Stream,
    StreamSettings, stream_spec,
};
use tidings_tests::harness::KafkaResource::{Group, Topic, Transactions};
use tidings_tests::harness::KafkaRight::{Create, Delete, Describe, DescribeConfigs, Read, Write};
use tidings_tests::harness::{Kafka, KafkaKind, KafkaOptions, within};

/// More than a page of any test.
const ALL: usize = 100;

#[stream_spec(name = "shop.parcels", version = 1, key = u64, requires(commit_groups, transactions))]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Parcel {
    n: u64,
}

#[stream_spec(name = "shop.labels", version = 1, key = u64)]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Label {
    n: u64,
}

type Parcels = Stream<Parcel, backend::Kafka>;

macro_rules! on_every_kind {
    ($($case:ident),* $(,)?) => {
        mod kafka_4_0 {
            use tidings_tests::harness::KafkaKind;
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $case() { super::$case(KafkaKind::Kafka40).await; })*
        }
        mod kafka_4_4 {
            use tidings_tests::harness::KafkaKind;
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $case() { super::$case(KafkaKind::Kafka44).await; })*
        }
    };
}

on_every_kind! {
    who_may_nothing_is_refused_everything,
    each_right_that_lacks_is_named,
    the_rights_that_the_docs_name_suffice,
}

/// Alice's stream on a server where she may do only what is granted.
async fn restricted(kind: KafkaKind) -> (Kafka, Parcels) {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let server = Kafka::start(kind, KafkaOptions::default().restricted_user("alice", "secret")).await;
    let url = format!("kafka://alice:secret@{}", server.address());
    let kafka = backend::Kafka::new(url).expect("the URL is good").transactional_id("parcels");
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let namespace = Namespace::new("shop", format!("r{number}")).expect("the names are good");
    let limits = Limits::default().timeout(Duration::from_secs(5));
    let broker = Broker::new(kafka, Config::new(namespace).limits(limits)).expect("the settings are good");
    let parcels = Parcel::stream(&broker).expect("it is bound once");
    (server, parcels)
}

/// The name of its group on the wire.
fn group_of(parcels: &Parcels) -> String {
    format!("{}.crew", parcels.address())
}

/// Sees that something is forbidden and wasn't done, and that the error says which of these rights to grant.
async fn forbidden<T: Debug>(what: &str, rights: &[&str], operation: impl Future<Output = Result<T, Error>>) {
    let error = within(what, operation).await.expect_err(what);
    assert_eq!((error.kind(), error.outcome()), (ErrorKind::Forbidden, Outcome::NotApplied), "{what}: {error:?}");
    assert!(!error.is_transient(), "{what}: {error:?}");
    let text = format!("{error:?}");
    assert!(text.contains("grant it") && rights.iter().all(|right| text.contains(right)), "{what}: {text}");
    assert!(!text.contains("secret") && !text.contains("alice"), "{what}: {text}");
}

/// Sees that something is allowed: a server may take a moment to go by what was granted.
async fn allowed<T>(what: &str, mut operation: impl AsyncFnMut() -> Result<T, Error>) -> T {
    within(what, async {
        loop {
            match operation().await {
                Ok(done) => return done,
                Err(error) => assert_eq!(error.kind(), ErrorKind::Forbidden, "{what}: {error:?}"),
            }
        }
    })
    .await
}

async fn who_may_nothing_is_refused_everything(kind: KafkaKind) {
    let (server, parcels) = restricted(kind).await;
    server.create_topic(parcels.address(), 1, &[]).await;
    let (broker, parcel, group) =
        (parcels.broker(), Parcel { n: 1 }, parcels.commit_group("crew").expect("it is good"));
    forbidden("ensuring", &["topic"], parcels.ensure(StreamSettings::new())).await;
    forbidden("appending", &["topic"], parcels.append(&1, &parcel)).await;
    forbidden("reading", &["topic"], parcels.read(Start::Earliest, 1, Duration::ZERO)).await;
    forbidden("looking at the end", &["topic"], parcels.read(Start::Latest, 1, Duration::ZERO)).await;
    forbidden("tailing", &["topic"], parcels.tail(Start::Earliest).receive()).await;
    forbidden("removing", &["topic"], parcels.delete()).await;
    forbidden("a unit", &["topic"], broker.unit().append(&parcels, (&1, &parcel)).record()).await;
    forbidden("joining", &["topic"], group.join(MemberSettings::new())).await;
    forbidden("ensuring a group", &["topic"], group.ensure(Start::Earliest)).await;
    forbidden("looking at a group", &["topic"], group.committed()).await;
    let checked = within("checking", broker.check(Duration::from_secs(5))).await.expect("the user may log in");
    assert!(checked.problems.iter().any(|problem| problem.contains("grant it")), "{checked:?}");
}

async fn each_right_that_lacks_is_named(kind: KafkaKind) {
    let (server, parcels) = restricted(kind).await;
    let (broker, parcel) = (parcels.broker(), Parcel { n: 1 });
    let group = parcels.commit_group("crew").expect("the name is good");
    let join = || group.join(MemberSettings::new());
    let topic = Topic(parcels.address());
    let id = group_of(&parcels);

    // It isn't there, and she may only see that.
    server.grant("alice", topic, &[Describe]).await;
    forbidden("making", &["Create"], parcels.ensure(StreamSettings::new())).await;
    server.create_topic(parcels.address(), 1, &[]).await;
    forbidden("comparing", &["DescribeConfigs"], parcels.ensure(StreamSettings::new())).await;
    forbidden("removing", &["Delete"], parcels.delete()).await;

    // Who may write nowhere is no producer: that takes Write on any topic, or IdempotentWrite.
    let labels = Label::stream(broker).expect("it is bound once");
    forbidden("appending", &["Write"], parcels.append(&1, &parcel)).await;
    forbidden("appending again", &["Write"], parcels.append(&1, &parcel)).await;
    server.create_topic(labels.address(), 1, &[]).await;
    server.grant("alice", Topic(labels.address()), &[Write]).await;
    allowed("the control", || labels.append(&1, &Label { n: 1 })).await;
    forbidden("appending elsewhere", &["Write"], parcels.append(&1, &parcel)).await;
    within("the producer is as good as before", labels.append(&1, &Label { n: 2 })).await.expect("she may");
    server.grant("alice", topic, &[Write]).await;
    allowed("the control", || parcels.append(&1, &parcel)).await;
    forbidden("a unit", &["transactional id", "Write"], broker.unit().append(&parcels, (&1, &parcel)).record()).await;

    forbidden("reading", &["Read"], parcels.read(Start::Earliest, 1, Duration::ZERO)).await;
    forbidden("tailing", &["Read"], parcels.tail(Start::Earliest).receive()).await;
    forbidden("joining", &["group", "Read"], join()).await;
    forbidden("looking at a group", &["group", "Read"], group.committed()).await;
    forbidden("ensuring a group", &["group", "Read"], group.ensure(Start::Earliest)).await;
    server.grant("alice", Group(&id), &[Read]).await;
    // A member has to read the topic, too; so has who records up to where it was read.
    forbidden("ensuring a group", &["topic", "Read"], group.ensure(Start::Earliest)).await;
    server.grant("alice", topic, &[Read]).await;
    allowed("the control", || group.ensure(Start::Earliest)).await;
    let member = allowed("the control", join).await;
    let read = within("the control", member.read(1, Duration::from_secs(20))).await.expect("she may");
    assert_eq!(read.len(), 1);
    within("leaving", member.leave()).await;
    forbidden("removing a group", &["Delete"], group.delete()).await;
}

async fn the_rights_that_the_docs_name_suffice(kind: KafkaKind) {
    let (server, parcels) = restricted(kind).await;
    let broker = parcels.broker();
    let topic = Topic(parcels.address());
    let id = group_of(&parcels);
    let group = parcels.commit_group("crew").expect("the name is good");

    server.grant("alice", topic, &[Create, Delete, Describe, DescribeConfigs]).await;
    within("making", parcels.ensure(StreamSettings::new())).await.expect("she may");
    within("comparing", parcels.ensure(StreamSettings::new())).await.expect("she may");
    server.grant("alice", topic, &[Write]).await;
    for n in 0..3 {
        within("appending", parcels.append(&1, &Parcel { n })).await.expect("she may");
    }
    server.grant("alice", topic, &[Read]).await;
    let read = within("reading", parcels.read(Start::Earliest, ALL, Duration::ZERO)).await.expect("she may");
    assert_eq!(read.len(), 3);
    server.grant("alice", Group(&id), &[Read]).await;
    within("ensuring a group", group.ensure(Start::Earliest)).await.expect("she may");
    let member = within("joining", group.join(MemberSettings::new())).await.expect("she may");
    let mut read: Vec<Delivery<Parcel>> = Vec::new();
    while read.len() < 3 {
        read.extend(within("reading", member.read(ALL, Duration::from_secs(1))).await.expect("she may"));
    }
    within("committing", member.commit([read[0].position()])).await.expect("she may");
    server.grant("alice", Transactions("parcels"), &[Describe, Write]).await;
    let unit = broker.unit().append(&parcels, (&1, &Parcel { n: 3 })).commit(&member, [read[2].position()]);
    within("a unit", unit.record()).await.expect("she may");
    let committed = within("looking at the group", group.committed()).await.expect("she may");
    assert_eq!(committed.get(0), Some(read[2].position()));
    within("leaving", member.leave()).await;
    server.grant("alice", Group(&id), &[Delete]).await;
    assert!(within("removing the group", group.delete()).await.expect("she may"));
    assert!(within("removing", parcels.delete()).await.expect("she may"));
}
