//! What a worker tells while its server is gone.

use std::sync::{Arc, Mutex};

use tidings::{Ended, HandlerError, Stop, SupervisePolicy, WorkerNotice};
use tidings_tests::harness::{Kafka, KafkaOptions};

use super::*;

on_every_way! {
    an_outage_is_told_once_and_over_when_the_server_is_back,
    a_group_that_lets_its_members_wait_is_no_trouble,
}

/// Longer than a member is waited for, so that it has lost its partitions by then.
const OUTAGE: Duration = Duration::from_secs(5);
const SESSION: Duration = Duration::from_secs(2);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Told {
    Ready,
    Interrupted,
    Failed(u32),
    Gap(u32),
    Assigned,
    Revoked(String),
}

#[derive(Clone, Default)]
struct Seen {
    told: Arc<Mutex<Vec<Told>>>,
    handled: Arc<Mutex<BTreeSet<u64>>>,
}

impl Seen {
    fn note(&self, notice: &WorkerNotice<'_>) {
        let told = match notice {
            WorkerNotice::Ready => Told::Ready,
            WorkerNotice::Interrupted { .. } => Told::Interrupted,
            WorkerNotice::Failed { attempts, .. } => Told::Failed(*attempts),
            WorkerNotice::Gap(gap) => Told::Gap(gap.attempts),
            WorkerNotice::Assigned { .. } => Told::Assigned,
            WorkerNotice::Revoked { .. } => Told::Revoked(notice.to_string()),
            _ => return,
        };
        self.told.lock().unwrap().push(told);
    }

    fn told(&self) -> Vec<Told> {
        self.told.lock().unwrap().clone()
    }

    fn count(&self, wanted: impl Fn(&Told) -> bool) -> usize {
        self.told().iter().filter(|told| wanted(told)).count()
    }

    async fn until(&self, what: &str, wanted: impl Fn(&Self) -> bool) {
        within(what, async {
            while !wanted(self) {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        })
        .await;
    }
}

async fn an_outage_is_told_once_and_over_when_the_server_is_back(way: Way) {
    let session = format!("group.consumer.session.timeout.ms={}", SESSION.as_millis());
    let mut server = Kafka::start(way.kind, KafkaOptions::default().config(session)).await;
    let limits = Limits::default().timeout(Duration::from_secs(2));
    let backend = way.backend(&server.address()).session_timeout(SESSION);
    let broker = broker_with(backend, &namespace(), limits);
    let orders = Order::stream(&broker).unwrap();
    orders.ensure(StreamSettings::new().partitions(4)).await.unwrap();
    let group = group(&orders, Start::Earliest).await;
    append(&orders, 0..20).await;
    let (seen, stop) = (Seen::default(), Stop::new());
    let noting = seen.clone();
    let worker = group.worker().backoff(SupervisePolicy::default().max(Duration::from_secs(1))).with(seen.clone());
    let worker = worker.until(&stop).on_notice(move |notice| noting.note(&notice));
    let handler = async |delivery: Delivery<Order>, seen: Seen| -> Result<(), HandlerError> {
        seen.handled.lock().unwrap().insert(number(&delivery));
        Ok(())
    };
    let script = async {
        seen.until("the first records are handled", |seen| seen.handled.lock().unwrap().len() == 20).await;
        assert_eq!(seen.told(), [Told::Assigned, Told::Ready], "{way:?}");
        server.kill();
        let since = Instant::now();
        seen.until("the interruption is told", |seen| seen.count(|told| *told == Told::Interrupted) > 0).await;
        seen.until("it tries again", |seen| seen.count(|told| matches!(told, Told::Failed(_))) > 1).await;
        tokio::time::sleep(OUTAGE.saturating_sub(since.elapsed())).await;
        let told = seen.told();
        eprintln!("{way:?}: while the server is away, {told:?}");
        assert_eq!(seen.count(|told| *told == Told::Interrupted), 1, "{way:?}: {told:?}");
        assert_eq!(seen.count(|told| *told == Told::Ready), 1, "{way:?}: {told:?}");
        assert_eq!(seen.count(|told| matches!(told, Told::Gap(_))), 0, "{way:?}: {told:?}");
        let failed = seen.count(|told| matches!(told, Told::Failed(_)));
        // The waits between them grow.
        assert!(failed <= 10, "{way:?}: {failed} attempts in {OUTAGE:?}: {told:?}");
        server.restart().await;
        within("an append goes through", async { while orders.append(&20, &Order { number: 20 }).await.is_err() {} })
            .await;
        seen.until("the next record is handled", |seen| seen.handled.lock().unwrap().contains(&20)).await;
        stop.stop();
    };
    let (ended, ()) = tokio::join!(worker.run(handler), script);
    assert_eq!(ended.unwrap(), Ended::Stopped);
    let told = seen.told();
    eprintln!("{way:?}: {told:?}");
    let mut failed = told.iter().filter(|told| matches!(told, Told::Failed(_))).count();
    for one in told.iter().rev() {
        match one {
            Told::Failed(attempts) => {
                assert_eq!(usize::try_from(*attempts).unwrap(), failed, "{way:?}: {told:?}");
                failed -= 1;
            }
            Told::Gap(attempts) => assert_eq!(usize::try_from(*attempts).unwrap(), failed, "{way:?}: {told:?}"),
            Told::Revoked(text) => assert!(text.starts_with("no longer this worker's: partitions ["), "{text}"),
            _ => {}
        }
    }
    let over = [Told::Ready, Told::Interrupted].map(|which| seen.count(|told| *told == which));
    assert_eq!((over, seen.count(|told| matches!(told, Told::Gap(_)))), ([2, 1], 1), "{way:?}: {told:?}");
    broker.close(Duration::from_secs(10)).await.expect("everything ends");
}

/// A group waits for more members before it begins, and for those who are gone without a word.
async fn a_group_that_lets_its_members_wait_is_no_trouble(way: Way) {
    let options = KafkaOptions::default().config("group.initial.rebalance.delay.ms=4000");
    let server = Kafka::start(way.kind, options).await;
    let broker = broker_with(way.backend(&server.address()), &namespace(), Limits::default().timeout(SESSION));
    let orders = Order::stream(&broker).unwrap();
    orders.ensure(StreamSettings::new()).await.unwrap();
    let group = group(&orders, Start::Earliest).await;
    append(&orders, 0..3).await;
    let (seen, stop) = (Seen::default(), Stop::new());
    let noting = seen.clone();
    let worker = group.worker().until(&stop).with(seen.clone()).on_notice(move |notice| noting.note(&notice));
    let running = worker.run(async |delivery: Delivery<Order>, seen: Seen| {
        seen.handled.lock().unwrap().insert(number(&delivery));
        Ok(())
    });
    let script = async {
        seen.until("all is handled", |seen| seen.handled.lock().unwrap().len() == 3).await;
        stop.stop();
    };
    let (ended, ()) = tokio::join!(running, script);
    assert_eq!((ended.unwrap(), seen.told()), (Ended::Stopped, vec![Told::Assigned, Told::Ready]), "{way:?}");
}
