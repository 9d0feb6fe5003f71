//! Several handles of one durable.

use futures_util::StreamExt as _;
use serde_json::json;

use super::others::ask;
use super::*;

async fn waiting(server: &harness::Nats, count: u64) {
    eventually("requests wait", || async {
        let info = ask(server, &format!("$JS.API.CONSUMER.INFO.{STREAM}.m_crew"), json!({})).await;
        if info["num_waiting"].as_u64() >= Some(count) { Ok(()) } else { Err(info.to_string()) }
    })
    .await;
}

/// What is handed out goes to one that lives, at once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn handles_that_die_in_turn_take_nothing_with_them() {
    for kind in NatsKind::ALL {
        let server = harness::Nats::start(kind, NatsOptions::default()).await;
        let one = broker(server.url());
        let (jobs, durable) = jobs(&one, DurableSettings::new().ack_wait(60 * SECOND)).await;
        let mut waits = Vec::new();
        for count in 1..=6 {
            let mut cursor = durable.cursor().await.unwrap();
            waits.push(tokio::spawn(async move { next_acked(&mut cursor).await }));
            waiting(&server, count).await;
        }
        let other = broker(server.url());
        let mut far = Job::stream(&other).unwrap().cursor(&owner()).await.unwrap();
        let far_waits = tokio::spawn(async move { next_acked(&mut far).await });
        waiting(&server, 7).await;
        let last = waits.pop().unwrap();
        for dead in waits {
            dead.abort();
            assert!(dead.await.unwrap_err().is_cancelled());
            // Behind it on the same connection.
            one.check(DEADLINE).await.unwrap();
        }
        append(&jobs, 0..2).await;
        let mut seen = [within("it comes", last).await.unwrap(), within("it comes", far_waits).await.unwrap()];
        seen.sort_unstable();
        assert_eq!(seen, [(0, 1), (1, 1)], "{kind:?}");
        settled(&durable).await;
    }
}

async fn next_acked(cursor: &mut Cursor<Job, Nats>) -> (u64, u32) {
    let job = cursor.next().await.unwrap();
    let seen = (job.value().unwrap().n, job.attempt());
    job.ack().await.unwrap();
    seen
}

/// Behind a delivery that another has in flight, one waits until it is settled, and whatever the late one says of it after
/// that changes nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_delivery_in_two_hands_is_settled_once() {
    for kind in NatsKind::ALL {
        let server = harness::Nats::start(kind, NatsOptions::default()).await;
        let broker = broker(server.url());
        let (jobs, durable) = jobs(&broker, DurableSettings::new().ack_wait(SECOND / 2)).await;
        append(&jobs, 0..2).await;
        let (mut one, mut two) = (durable.cursor().await.unwrap(), durable.cursor().await.unwrap());
        let late = one.next().await.unwrap();
        // It waits although all that may be in flight is.
        let again = within("its ack wait is over", two.next()).await.unwrap();
        assert_eq!((again.position(), again.attempt()), (late.position(), 2));
        again.ack().await.unwrap();
        late.in_progress().await.unwrap();
        assert_eq!(straight_info(&broker).await, (1, 0), "what is settled isn't in flight again");
        late.nak(Duration::ZERO).await.unwrap();
        assert_eq!(next(&mut two, 5 * SECOND).await, Some((1, 1)));
        let again = within("it comes again", one.next()).await.unwrap();
        assert_eq!((again.value().unwrap().n, again.attempt()), (1, 2));
        again.ack().await.unwrap();
        settled(&durable).await;
    }
}

/// A worker keeps alive what it handles by the settings that hold, whoever has set them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_learns_of_new_settings() {
    for kind in NatsKind::ALL {
        let server = harness::Nats::start(kind, NatsOptions::default()).await;
        let (jobs, durable) =
            jobs(&broker(server.url()), DurableSettings::new().in_flight(4).ack_wait(60 * SECOND)).await;
        append(&jobs, 0..1).await;
        let gate = Arc::new(tokio::sync::Semaphore::new(0));
        let begun = Arc::new(tokio::sync::Semaphore::new(0));
        let (stop, told) = (Stop::new(), Arc::<Mutex<Vec<String>>>::default());
        let telling = told.clone();
        let worker = durable.worker().concurrency(1).until(&stop).retry_after(Duration::from_millis(10), SECOND);
        let worker = worker.on_notice(move |notice| telling.lock().unwrap().push(notice.to_string()));
        let running = tokio::spawn(worker.with((gate.clone(), begun.clone())).run(
            |delivery, (gate, begun): (Arc<tokio::sync::Semaphore>, Arc<tokio::sync::Semaphore>)| async move {
                begun.add_permits(1);
                gate.acquire().await?.forget();
                if delivery.value()?.n == 1 { Err("it never works".into()) } else { Ok(()) }
            },
        ));
        within("it is handled", begun.acquire()).await.unwrap().forget();
        let mut settlements =
            super::super::other(&server).await.subscribe(format!("$JS.ACK.{STREAM}.m_crew.>")).await.unwrap();
        let other = broker(server.url());
        let elsewhere = Job::stream(&other).unwrap().durable(&owner()).unwrap();
        let settings = DurableSettings::new().in_flight(4).ack_wait(2 * SECOND).max_deliver(2);
        elsewhere.update(settings).await.unwrap();
        let kept = async {
            for _ in 0..3 {
                assert_eq!(&*settlements.next().await.unwrap().payload, b"+WPI");
            }
        };
        tokio::time::timeout(10 * SECOND, kept).await.expect("it is kept alive by the new ack wait");
        gate.add_permits(1);
        settled(&elsewhere).await;
        // The bound is new, too: what failed so often is told.
        gate.add_permits(100);
        append(&jobs, 1..2).await;
        eventually("it is told", || async {
            let told = told.lock().unwrap().clone();
            if told.iter().any(|told| told.contains("stays unsettled at attempt 2")) {
                Ok(())
            } else {
                Err(format!("{told:?}"))
            }
        })
        .await;
        stop.stop();
        within("the worker ends", running).await.unwrap().unwrap();
    }
}

/// Else what is appended in between is handed out to nobody, and comes when its ack wait is over.
#[tokio::test]
async fn the_server_gives_a_request_up_before_who_asked_does() {
    for kind in NatsKind::ALL {
        let server = harness::Nats::start(kind, NatsOptions::default()).await;
        let client = super::super::other(&server).await;
        let mut requests = client.subscribe("$JS.API.CONSUMER.MSG.NEXT.>").await.unwrap();
        client.flush().await.unwrap();
        let broker = broker(server.url());
        let (jobs, durable) = jobs(&broker, DurableSettings::new()).await;
        let mut cursor = durable.cursor().await.unwrap();
        for wait in [Duration::from_millis(45), SECOND] {
            for _ in 0..3 {
                assert_eq!(next(&mut cursor, wait).await, None);
            }
            client.publish("$JS.API.CONSUMER.MSG.NEXT.end", "".into()).await.unwrap();
            let mut count = 0;
            loop {
                let request = within("it asks", requests.next()).await.unwrap();
                if request.subject.ends_with(".end") {
                    break;
                }
                let body: serde_json::Value = serde_json::from_slice(&request.payload).unwrap();
                let expires = Duration::from_nanos(body["expires"].as_u64().unwrap());
                assert!(expires + Duration::from_millis(10) <= wait && body["no_wait"] == false, "{wait:?}: {body}");
                count += 1;
            }
            assert!((1..=3).contains(&count), "it asks once each: {count}");
        }
        append(&jobs, 0..1).await;
        assert_eq!(next(&mut cursor, SECOND).await, Some((0, 1)));
    }
}
