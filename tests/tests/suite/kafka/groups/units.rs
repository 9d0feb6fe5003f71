//! Units on Kafka.

use rdkafka::config::ClientConfig;
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use tidings::{ErrorKind, Outcome, Position, Positions};
use tidings_tests::harness::{Kafka, KafkaOptions};

use super::*;

on_every_way! {
    a_unit_is_there_whole,
    a_unit_of_a_member_that_lost_a_partition_records_nothing,
    f19_a_replaced_client_is_fenced,
    a_transaction_s_marker_is_no_lag,
    an_open_unit_is_not_seen,
    of_a_unit_that_fails_nothing_is_seen,
    units_that_are_given_up_are_few,
}

#[stream_spec(name = "shop.totals", version = 1, key = u64)]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Total {
    orders: u64,
}

/// Of an operation.
const TIMEOUT: Duration = Duration::from_secs(2);

type Totals = Stream<Total, backend::Kafka>;

async fn totals(broker: &Broker<backend::Kafka>) -> Totals {
    let totals = Total::stream(broker).unwrap();
    totals.ensure(StreamSettings::new()).await.unwrap();
    totals
}

/// What a reader sees.
async fn seen(totals: &Totals) -> Vec<u64> {
    let read = totals.read(Positions::new(), 100, Duration::from_millis(500)).await.unwrap();
    read.iter().map(|delivery| delivery.value().unwrap().orders).collect()
}

async fn a_unit_is_there_whole(way: Way) {
    let (broker, orders) = shared(way, 1).await;
    let totals = totals(&broker).await;
    let group = group(&orders, Start::Earliest).await;
    append(&orders, 0..10).await;
    let member = group.join(MemberSettings::new()).await.unwrap();
    let deliveries = read(&member, 10).await;
    let since = Instant::now();
    let unit = broker.unit().append(&totals, (&1, &Total { orders: 10 })).append(&totals, (&2, &Total { orders: 20 }));
    let receipts = unit.commit(&member, deliveries[..6].iter().map(Delivery::position)).record().await.unwrap();
    eprintln!("{way:?}: the first unit took {:?}", since.elapsed());
    assert_eq!(
        receipts.iter().map(|receipt| receipt.position).collect::<Vec<_>>(),
        [Some(Position::new(0, 0)), Some(Position::new(0, 1))]
    );
    assert_eq!(seen(&totals).await, [10, 20]);
    assert_eq!(group.committed().await.unwrap().get(0), Some(Position::new(0, 5)));
    // A commit afterwards doesn't go back, and one after that goes on.
    commit(&member, &deliveries[..3]).await;
    assert_eq!(group.committed().await.unwrap().get(0), Some(Position::new(0, 5)));
    commit(&member, &deliveries).await;
    let since = Instant::now();
    for _ in 0..20 {
        broker.unit().append(&totals, (&1, &Total { orders: 30 })).record().await.unwrap();
    }
    eprintln!("{way:?}: a unit takes {:?}", since.elapsed() / 20);
    assert_eq!(seen(&totals).await.len(), 22);
    drop(member);
    broker.close(Duration::from_secs(10)).await.expect("everything ends");
}

async fn a_unit_of_a_member_that_lost_a_partition_records_nothing(way: Way) {
    let (broker, orders) = shared(way, 2).await;
    let totals = totals(&broker).await;
    let group = group(&orders, Start::Earliest).await;
    append(&orders, 0..40).await;
    let first = group.join(MemberSettings::new()).await.unwrap();
    let deliveries = read(&first, 40).await;
    let second = group.join(MemberSettings::new()).await.unwrap();
    within("a partition moves", async {
        while second.assigned().is_empty() {
            look(&first).await;
            look(&second).await;
        }
    })
    .await;
    let unit = broker.unit().append(&totals, (&1, &Total { orders: 40 }));
    let refused = unit.commit(&first, deliveries.iter().map(Delivery::position)).record().await.unwrap_err();
    assert_eq!((refused.kind(), refused.outcome()), (ErrorKind::Revoked, Outcome::NotApplied), "{refused}");
    assert!(group.committed().await.unwrap().is_empty());
    // What it still has, it can commit.
    let own =
        deliveries.iter().map(Delivery::position).filter(|position| first.assigned().contains(&position.partition()));
    broker.unit().append(&totals, (&1, &Total { orders: 20 })).commit(&first, own).record().await.unwrap();
    assert_eq!(seen(&totals).await, [20]);
}

async fn f19_a_replaced_client_is_fenced(way: Way) {
    let server = Kafka::shared(way.kind).await;
    let namespace = namespace();
    let id = format!("{namespace}.relay");
    let make = || broker(way.backend(&server.address()).transactional_id(&id), &namespace);
    let (old, new) = (make(), make());
    let (old_totals, new_totals) = (totals(&old).await, totals(&new).await);
    old.unit().append(&old_totals, (&1, &Total { orders: 1 })).record().await.unwrap();
    new.unit().append(&new_totals, (&1, &Total { orders: 2 })).record().await.unwrap();
    let fenced = old.unit().append(&old_totals, (&1, &Total { orders: 3 })).record().await.unwrap_err();
    assert_eq!((fenced.kind(), fenced.outcome()), (ErrorKind::Fenced, Outcome::NotApplied), "{fenced}");
    assert_eq!(seen(&new_totals).await, [1, 2]);
    // Who starts anew replaces the other.
    old.unit().append(&old_totals, (&1, &Total { orders: 4 })).record().await.unwrap();
    assert_eq!(seen(&new_totals).await, [1, 2, 4]);
}

async fn a_transaction_s_marker_is_no_lag(way: Way) {
    let (broker, orders) = shared(way, 1).await;
    let group = group(&orders, Start::Earliest).await;
    for number in 0..3 {
        broker.unit().append(&orders, (&number, &Order { number })).record().await.unwrap();
    }
    let member = group.join(MemberSettings::new()).await.unwrap();
    let deliveries = read(&member, 3).await;
    commit(&member, &deliveries[..2]).await;
    assert!(group.lag().await.unwrap()[0].records > 0);
    commit(&member, &deliveries).await;
    // Behind the last record stands its transaction's marker, which nobody reads.
    assert_eq!(group.lag().await.unwrap()[0].records, 0);
    broker.unit().append(&orders, (&3, &Order { number: 3 })).record().await.unwrap();
    assert!(group.lag().await.unwrap()[0].records > 0);
    assert_eq!(read(&member, 1).await.iter().map(number).collect::<Vec<_>>(), [3]);
}

async fn an_open_unit_is_not_seen(way: Way) {
    let (broker, orders) = shared(way, 1).await;
    let totals = totals(&broker).await;
    let group = group(&orders, Start::Earliest).await;
    let member = group.join(MemberSettings::new()).await.unwrap();
    let (address, topics) =
        (Kafka::shared(way.kind).await.address(), [orders.address().to_owned(), totals.address().to_owned()]);
    let patience = Duration::from_secs(20);
    let open = tokio::task::spawn_blocking(move || {
        let producer: BaseProducer = ClientConfig::new()
            .set("bootstrap.servers", address)
            .set("transactional.id", &topics[0])
            .create()
            .expect("the settings are good");
        producer.init_transactions(patience).expect("the server is up");
        producer.begin_transaction().expect("none is open");
        for (topic, data) in topics.iter().zip([r#"{"number":1}"#, r#"{"orders":1}"#]) {
            producer.send(BaseRecord::<(), _>::to(topic).payload(data)).expect("there is room");
        }
        producer.flush(patience).expect("the server is up");
        producer
    });
    let producer = open.await.unwrap();
    // What comes behind it isn't seen before it has ended either.
    broker.unit().append(&totals, (&2, &Total { orders: 2 })).record().await.unwrap();
    assert_eq!(seen(&totals).await, [0_u64; 0]);
    assert!(look(&member).await.is_empty());
    let commit = move || {
        producer.commit_transaction(patience).expect("the server is up");
    };
    tokio::task::spawn_blocking(commit).await.unwrap();
    assert_eq!(read(&member, 1).await.iter().map(number).collect::<Vec<_>>(), [1]);
    assert_eq!(seen(&totals).await, [1, 2]);
}

async fn of_a_unit_that_fails_nothing_is_seen(way: Way) {
    #[stream_spec(name = "shop.notes", version = 1, key = u64)]
    #[derive(Serialize, Deserialize)]
    struct Note {
        text: String,
    }
    let (broker, orders) = shared(way, 1).await;
    let totals = totals(&broker).await;
    let group = group(&orders, Start::Earliest).await;
    append(&orders, 0..4).await;
    let member = group.join(MemberSettings::new()).await.unwrap();
    let deliveries = read(&member, 4).await;
    let notes = Note::stream(&broker).unwrap();
    let server = Kafka::shared(way.kind).await;
    server.create_topic(notes.address(), 1, &[("max.message.bytes", "1000")]).await;
    let note = |bytes| Note { text: "x".repeat(bytes) };
    let unit = |orders, bytes| {
        let unit = broker.unit().append(&totals, (&1, &Total { orders })).append(&notes, (&1, &note(bytes)));
        unit.commit(&member, deliveries.iter().map(Delivery::position))
    };
    let since = Instant::now();
    let failed = unit(1, 5_000).record().await.unwrap_err();
    assert_eq!((failed.kind(), failed.outcome()), (ErrorKind::TooLarge, Outcome::NotApplied), "{failed}");
    // It is undone at once, so that there is time to try again.
    assert!(since.elapsed() < Duration::from_secs(4), "{:?}", since.elapsed());
    assert_eq!(seen(&totals).await, [0_u64; 0]);
    assert!(group.committed().await.unwrap().is_empty());
    unit(2, 500).record().await.unwrap();
    assert_eq!(seen(&totals).await, [2]);
    assert_eq!(group.committed().await.unwrap().get(0), Some(Position::new(0, 3)));
}

/// Who gives a unit up leaves a producer behind that is at it, and the next units wait for its place.
async fn units_that_are_given_up_are_few(way: Way) {
    const MOST_TASKS: usize = 16;
    let server = Kafka::start(way.kind, KafkaOptions::default()).await;
    let broker = broker_with(way.backend(&server.address()), &namespace(), Limits::default().timeout(TIMEOUT));
    let totals = totals(&broker).await;
    let unit = |orders| broker.unit().append(&totals, (&1, &Total { orders })).record();
    within("a unit goes through", async { while unit(0).await.is_err() {} }).await;
    let mut most = 0;
    for is_paused in [true, false] {
        if is_paused {
            server.pause().await;
        }
        for orders in 0..100 {
            let _ = tokio::time::timeout(Duration::from_millis(5), unit(orders)).await;
            most = most.max(broker.stats().tasks);
        }
        server.resume().await;
        within("a unit goes through", async { while unit(1_000).await.is_err() {} }).await;
    }
    assert!(most <= MOST_TASKS, "{way:?}: {most} tasks at once");
    let since = Instant::now();
    broker.close(Duration::from_secs(20)).await.expect("everything ends");
    eprintln!("{way:?}: {most} tasks at once, closed after {:?}", since.elapsed());
}
