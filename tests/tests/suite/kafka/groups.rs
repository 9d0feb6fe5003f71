//! Commit groups and units on Apache Kafka, with both ways in which members agree.

mod cases;
mod faults;
mod members;
mod outage;
mod units;

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use tidings::backend::{self, GroupProtocol};
use tidings::{
    Broker, CommitGroup, Config, Delivery, Limits, Member, MemberSettings, Namespace, Start, Stream, StreamSettings,
    stream_spec,
};
use tidings_tests::harness::{KafkaKind, within};

/// Long enough for anything on loopback to arrive: the wait for something that mustn't.
const A_MOMENT: Duration = Duration::from_millis(300);
const PAGE: usize = 100;

#[stream_spec(name = "shop.orders", version = 1, key = u64, requires(commit_groups, transactions))]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Order {
    number: u64,
}

type Orders = Stream<Order, backend::Kafka>;
type Group = CommitGroup<Order, backend::Kafka>;
type Joined = Member<Order, backend::Kafka>;

/// A server's kind and how members agree there.
#[derive(Clone, Copy, Debug)]
struct Way {
    kind: KafkaKind,
    protocol: GroupProtocol,
}

/// Makes a test of each case on each kind of server and with each protocol.
macro_rules! on_every_way {
    ($($case:ident),* $(,)?) => {
        $(mod $case {
            use tidings::backend::GroupProtocol;
            use tidings_tests::harness::KafkaKind;
            use super::super::Way;

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn classic_4_0() {
                super::$case(Way { kind: KafkaKind::Kafka40, protocol: GroupProtocol::Classic }).await;
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn classic_4_4() {
                super::$case(Way { kind: KafkaKind::Kafka44, protocol: GroupProtocol::Classic }).await;
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn consumer_4_0() {
                super::$case(Way { kind: KafkaKind::Kafka40, protocol: GroupProtocol::Consumer }).await;
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn consumer_4_4() {
                super::$case(Way { kind: KafkaKind::Kafka44, protocol: GroupProtocol::Consumer }).await;
            }
        })*
    };
}
use on_every_way;

impl Way {
    fn backend(self, address: &str) -> backend::Kafka {
        let kafka = backend::Kafka::new(format!("kafka://{address}")).expect("the URL is good");
        kafka.group_protocol(self.protocol).session_timeout(Duration::from_secs(6))
    }
}

/// A namespace that nobody else has.
fn namespace() -> Namespace {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    Namespace::new("shop", format!("t{}-{number}", std::process::id())).expect("the names are good")
}

fn broker(backend: backend::Kafka, namespace: &Namespace) -> Broker<backend::Kafka> {
    Broker::new(backend, Config::new(namespace.clone())).expect("the settings are good")
}

fn broker_with(backend: backend::Kafka, namespace: &Namespace, limits: Limits) -> Broker<backend::Kafka> {
    Broker::new(backend, Config::new(namespace.clone()).limits(limits)).expect("the settings are good")
}

/// A stream of so many partitions on the server that the tests share, and its broker.
async fn shared(way: Way, partitions: u32) -> (Broker<backend::Kafka>, Orders) {
    let server = tidings_tests::harness::Kafka::shared(way.kind).await;
    let broker = broker(way.backend(&server.address()), &namespace());
    let orders = Order::stream(&broker).expect("it is bound once");
    orders.ensure(StreamSettings::new().partitions(partitions)).await.expect("the stream is made");
    (broker, orders)
}

async fn group(orders: &Orders, start: impl Into<Start>) -> Group {
    let group = orders.commit_group("reports").expect("the name is good");
    assert!(group.ensure(start).await.expect("the group is made"));
    group
}

async fn append(orders: &Orders, numbers: impl IntoIterator<Item = u64>) {
    let orders_and: Vec<_> = numbers.into_iter().map(|number| (number, Order { number })).collect();
    for page in orders_and.chunks(1_000) {
        let appended = orders.append_all(page.iter().map(|(key, order)| (key, order))).await.expect("they are sent");
        assert!(appended.iter().all(Result::is_ok), "{appended:?}");
    }
}

fn number(delivery: &Delivery<Order>) -> u64 {
    delivery.value().expect("it decodes").number
}

/// Reads until so many records have come.
async fn read(member: &Joined, count: usize) -> Vec<Delivery<Order>> {
    within(format!("{count} records come"), async {
        let mut all = Vec::new();
        while all.len() < count {
            all.extend(
                member.read((count - all.len()).min(PAGE), Duration::from_secs(1)).await.expect("it is a member"),
            );
        }
        all
    })
    .await
}

async fn commit(member: &Joined, deliveries: &[Delivery<Order>]) {
    member.commit(deliveries.iter().map(Delivery::position)).await.expect("they are the member's");
}

/// Reads without waiting long, so that what happened takes its course.
async fn look(member: &Joined) -> Vec<Delivery<Order>> {
    member.read(PAGE, Duration::from_millis(20)).await.expect("it is a member")
}

/// Waits until the members have so many partitions each, in any order.
async fn spread(members: &[&Joined], wanted: &[usize]) {
    let since = Instant::now();
    loop {
        for member in members {
            // Nothing is to be read here; it lets go what it has to.
            assert!(look(member).await.is_empty());
        }
        let mut have: Vec<_> = members.iter().map(|member| member.assigned().len()).collect();
        have.sort_unstable();
        if have == wanted {
            let all: BTreeSet<_> = members.iter().flat_map(|member| member.assigned()).collect();
            assert_eq!(all.len(), wanted.iter().sum::<usize>(), "two have the same");
            return;
        }
        assert!(since.elapsed() < Duration::from_secs(30), "the members have {have:?}");
    }
}
