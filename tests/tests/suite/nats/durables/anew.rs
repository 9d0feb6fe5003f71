//! A durable, and a stream under it, that another process removes and makes anew.

use serde_json::json;
use tokio::sync::Semaphore;

use super::others::ask;
use super::*;

/// What is made anew.
#[derive(Clone, Copy, Debug, PartialEq)]
enum What {
    Durable,
    Stream,
}

const BOTH: [What; 2] = [What::Durable, What::Stream];

/// Another process, which does it.
async fn make_anew(server: &harness::Nats, what: What, settings: DurableSettings, records: std::ops::Range<u64>) {
    let subject = match what {
        What::Durable => format!("$JS.API.CONSUMER.DELETE.{STREAM}.m_crew"),
        What::Stream => format!("$JS.API.STREAM.DELETE.{STREAM}"),
    };
    let answer = ask(server, &subject, json!({})).await;
    assert_eq!(answer["success"], true, "{answer}");
    let crew = broker(server.url());
    let jobs = Job::stream(&crew).unwrap();
    jobs.ensure(StreamSettings::new()).await.unwrap();
    let durable = jobs.durable(&owner()).unwrap();
    match durable.ensure(settings.clone()).await {
        // A worker was faster.
        Err(there) if there.kind() == ErrorKind::Conflict => durable.update(settings).await.unwrap(),
        made => drop(made.unwrap()),
    }
    append(&jobs, records).await;
}

/// Returns when so many requests wait at the server.
async fn waiting(server: &harness::Nats, count: u64) {
    eventually("a request waits", || async {
        let info = ask(server, &format!("$JS.API.CONSUMER.INFO.{STREAM}.m_crew"), json!({})).await;
        if info["num_waiting"].as_u64() >= Some(count) { Ok(()) } else { Err(info.to_string()) }
    })
    .await;
}

async fn gone(cursor: &mut Cursor<Job, Nats>) {
    let told = within("it is told", cursor.next()).await.map(|job| job.value().unwrap().n).unwrap_err();
    assert_eq!(told.kind(), ErrorKind::Absent, "{told}");
}

#[tokio::test]
async fn a_cursor_that_waits_is_told() {
    for (kind, what) in NatsKind::ALL.into_iter().flat_map(|kind| BOTH.map(|what| (kind, what))) {
        let server = harness::Nats::start(kind, NatsOptions::default()).await;
        let (_, durable) = jobs(&broker(server.url()), DurableSettings::new()).await;
        let mut cursor = durable.cursor().await.unwrap();
        for records in [10..10, 10..12] {
            let (told, ()) = tokio::join!(within("it is told", cursor.next()), async {
                waiting(&server, 1).await;
                make_anew(&server, what, DurableSettings::new(), records.clone()).await;
            });
            assert_eq!(told.map(drop).unwrap_err().kind(), ErrorKind::Absent, "{what:?}");
        }
        for n in 10..12 {
            let job = within("it comes", cursor.next()).await.unwrap();
            assert_eq!((job.value().unwrap().n, job.attempt()), (n, 1));
            job.ack().await.unwrap();
        }
    }
}

#[tokio::test]
async fn a_cursor_that_comes_back_is_told() {
    for (kind, what) in NatsKind::ALL.into_iter().flat_map(|kind| BOTH.map(|what| (kind, what))) {
        // The durable made anew may be behind, and it may be ahead of where the cursor saw the other.
        for settled_since in [0, 9] {
            let server = harness::Nats::start(kind, NatsOptions::default()).await;
            let (jobs, durable) = jobs(&broker(server.url()), DurableSettings::new()).await;
            append(&jobs, 0..20).await;
            let mut cursor = durable.cursor().await.unwrap();
            for _ in 0..3 {
                cursor.next().await.unwrap().ack().await.unwrap();
            }
            make_anew(&server, what, DurableSettings::new(), 100..120).await;
            let first = if what == What::Stream { 100 } else { 0 };
            let mut other = durable.cursor().await.unwrap();
            for n in first..first + settled_since {
                let job = other.next().await.unwrap();
                assert_eq!(job.value().unwrap().n, n);
                job.ack().await.unwrap();
            }
            gone(&mut cursor).await;
            let job = within("it comes", cursor.next()).await.unwrap();
            assert_eq!((job.value().unwrap().n, job.attempt()), (first + settled_since, 1), "{kind:?} {what:?}");
            job.ack().await.unwrap();
        }
    }
}

#[tokio::test]
async fn a_settlement_is_not_of_another_record() {
    for kind in NatsKind::ALL {
        let server = harness::Nats::start(kind, NatsOptions::default()).await;
        let (jobs, durable) = jobs(&broker(server.url()), DurableSettings::new()).await;
        append(&jobs, 0..1).await;
        let mut cursor = durable.cursor().await.unwrap();
        let old = cursor.next().await.unwrap();
        make_anew(&server, What::Stream, DurableSettings::new(), 100..101).await;
        let crew = broker(server.url());
        let mut other = Job::stream(&crew).unwrap().cursor(&owner()).await.unwrap();
        let new = other.next().await.unwrap();
        assert_eq!((new.position(), new.value().unwrap().n), (old.position(), 100));
        // A durable that was heard of just now is taken to be there.
        eventually("it is told", || async {
            match old.in_progress().await {
                Err(gone) if gone.kind() == ErrorKind::Absent => Ok(()),
                other => Err(format!("{other:?}")),
            }
        })
        .await;
        assert_eq!(old.ack().await.unwrap_err().kind(), ErrorKind::Absent);
        assert_eq!(straight_info(&crew).await, (0, 1), "the new one is still to be settled");
        new.ack().await.unwrap();
        assert_eq!(straight_info(&crew).await, (0, 0));
    }
}

/// A worker whose handlers wait to be let on.
struct Held {
    journal: Journal,
    gate: Arc<Semaphore>,
    under_way: Arc<Mutex<Vec<u64>>>,
    stop: Stop,
    running: JoinHandle<Result<Ended, Error>>,
}

impl Held {
    fn start(durable: &Durable<Job, Nats>, read_ahead: usize) -> Self {
        let (journal, gate, stop) = (Journal::default(), Arc::new(Semaphore::new(0)), Stop::new());
        let under_way = Arc::<Mutex<Vec<u64>>>::default();
        let told = journal.told.clone();
        let worker = durable.worker().concurrency(2).read_ahead(read_ahead).until(&stop).on_notice(move |notice| {
            let text = match notice {
                WorkerNotice::Gap(gap) => format!("gap {gap}"),
                other => other.to_string(),
            };
            told.lock().unwrap().push(text);
        });
        let state = (journal.clone(), gate.clone(), under_way.clone());
        let running = tokio::spawn(worker.with(state).run(
            |delivery, (journal, gate, under_way): (Journal, Arc<Semaphore>, Arc<Mutex<Vec<u64>>>)| async move {
                let n = delivery.value()?.n;
                under_way.lock().unwrap().push(n);
                gate.acquire().await?.forget();
                *journal.handled.lock().unwrap().entry(n).or_default() += 1;
                Ok(())
            },
        ));
        Self { journal, gate, under_way, stop, running }
    }

    async fn begun(&self, count: usize) {
        eventually("handlers begin", || async {
            let begun = self.under_way.lock().unwrap().len();
            if begun >= count { Ok(()) } else { Err(begun.to_string()) }
        })
        .await;
    }

    async fn end(self) {
        self.stop.stop();
        assert_eq!(within("the worker ends", self.running).await.unwrap().unwrap(), Ended::Stopped);
    }
}

async fn in_flight(durable: &Durable<Job, Nats>, count: u64) {
    eventually("they are handed out", || async {
        let info = durable.info().await.unwrap();
        if info.in_flight == count { Ok(()) } else { Err(format!("{info:?}")) }
    })
    .await;
}

/// One that waits for more is told at once, and one that has as much as it takes, when it keeps that alive.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_hands_nothing_of_the_old_for_the_new() {
    for (kind, what) in NatsKind::ALL.into_iter().flat_map(|kind| BOTH.map(|what| (kind, what))) {
        for read_ahead in [2, 64] {
            let server = harness::Nats::start(kind, NatsOptions::default()).await;
            let settings = || DurableSettings::new().in_flight(8).ack_wait(SECOND);
            let (jobs, durable) = jobs(&broker(server.url()), settings()).await;
            append(&jobs, 0..6).await;
            let worker = Held::start(&durable, read_ahead);
            worker.begun(2).await;
            in_flight(&durable, if read_ahead == 2 { 4 } else { 6 }).await;
            // Whatever its settings are now.
            make_anew(&server, what, settings().in_flight(9), 100..106).await;
            // Before anything of the old is settled.
            eventually("it is told", || async { if worker.journal.has("gap") { Ok(()) } else { Err("not yet") } })
                .await;
            worker.gate.add_permits(1_000);
            settled(&durable).await;
            let handled = worker.journal.handled.lock().unwrap().clone();
            let told = worker.journal.told.lock().unwrap().clone();
            for n in 100..106 {
                assert_eq!(handled.get(&n), Some(&1), "{kind:?} {what:?} {read_ahead}: {handled:?} {told:?}");
            }
            worker.end().await;
        }
    }
}

/// What the worker asked for was at a server that was killed, and its connection is to another, so nobody tells it that it is
/// gone.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_whose_request_is_lost_settles_nothing_of_another() {
    for kind in NatsKind::ALL {
        let mut cluster = NatsCluster::start(kind, NatsOptions::default()).await;
        let settings = || DurableSettings::new().in_flight(8).ack_wait(60 * SECOND);
        let (jobs, _) = jobs(&broker(cluster.url()), settings()).await;
        append(&jobs, 0..1).await;
        let leader = cluster.leader_of(STREAM).await;
        let near = || broker(cluster.nodes()[(leader + 1) % 3].url());
        let (crew, admin) = (near(), near());
        let worker = Held::start(&Job::stream(&crew).unwrap().durable(&owner()).unwrap(), 64);
        worker.begun(1).await;
        let begun = Instant::now();
        cluster.kill(leader);
        cluster.restart(leader).await;
        let durable = Job::stream(&admin).unwrap().durable(&owner()).unwrap();
        eventually("it is deleted", || durable.delete()).await;
        eventually("it is made anew", || async {
            match durable.ensure(settings()).await {
                Err(failed) if failed.kind() != ErrorKind::Conflict => Err(failed),
                _ => Ok(()),
            }
        })
        .await;
        // Somebody gets the new one's record, unless the worker was told by then and does.
        let client = super::super::other(&cluster.nodes()[(leader + 1) % 3]).await;
        let next = format!("$JS.API.CONSUMER.MSG.NEXT.{STREAM}.m_crew");
        eventually("it is handed out", || async {
            let asking = client.request(next.clone(), r#"{"batch": 1, "no_wait": true}"#.into());
            let _ = tokio::time::timeout(SECOND / 4, asking).await;
            match durable.info().await {
                Ok(info) if info.waiting == 0 => Ok(()),
                other => Err(format!("{other:?}")),
            }
        })
        .await;
        tokio::time::sleep_until((begun + 3 * SECOND).into()).await;
        worker.gate.add_permits(1_000);
        eventually("it is told", || async { if worker.journal.has("gap") { Ok(()) } else { Err("not yet") } }).await;
        tokio::time::sleep(2 * SECOND).await;
        let has_it = worker.under_way.lock().unwrap().len() > 1;
        let told = worker.journal.told.lock().unwrap().clone();
        assert_eq!(straight_info(&admin).await, (0, u64::from(!has_it)), "{kind:?}: {told:?}");
        worker.end().await;
    }
}
