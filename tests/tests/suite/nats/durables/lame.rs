//! Servers that say that they are about to end.

use super::*;

fn options() -> NatsOptions {
    NatsOptions::default().config("lame_duck_duration: \"30s\"\nlame_duck_grace_period: \"20s\"")
}

/// JetStream is away then, while the connection lives on: what is asked of it is neither taken nor gone.
#[tokio::test]
async fn what_is_in_flight_on_a_server_that_is_about_to_end_is_not_gone() {
    for kind in NatsKind::ALL {
        let mut server = harness::Nats::start(kind, options()).await;
        let broker = broker(server.url());
        let (jobs, durable) = jobs(&broker, DurableSettings::new().ack_wait(SECOND)).await;
        append(&jobs, 0..2).await;
        let mut cursor = durable.cursor().await.unwrap();
        let job = cursor.next().await.unwrap();
        server.lame_duck();
        let refused = within("it is refused", async {
            loop {
                if let Err(refused) = job.in_progress().await {
                    return refused;
                }
            }
        })
        .await;
        assert!(refused.is_transient(), "{refused}");
        let refused = job.ack().await.unwrap_err();
        assert!(refused.is_transient() && refused.outcome() == tidings::Outcome::NotApplied, "{refused:?}");
        let told = within("it is told", cursor.next()).await.map(drop).unwrap_err();
        assert!(told.is_transient(), "{told}");
        server.restart().await;
        for n in 0..2 {
            let job = within("it comes", async {
                loop {
                    match cursor.next_within(5 * SECOND).await {
                        Ok(Some(job)) => return (job.value().unwrap().n, job.ack().await.unwrap()).0,
                        Ok(None) => {}
                        Err(error) => assert!(error.is_transient(), "{error}"),
                    }
                }
            })
            .await;
            assert_eq!(job, n);
        }
        settled(&durable).await;
    }
}

#[tokio::test]
async fn a_cursor_that_waits_on_a_server_that_is_about_to_end_is_told() {
    for kind in NatsKind::ALL {
        let mut server = harness::Nats::start(kind, options()).await;
        let broker = broker(server.url());
        let (jobs, durable) = jobs(&broker, DurableSettings::new()).await;
        let mut cursor = durable.cursor().await.unwrap();
        let (told, ()) = tokio::join!(within("it is told", cursor.next()), async { server.lame_duck() });
        let told = told.map(drop).unwrap_err();
        assert!(told.is_transient(), "{told}");
        server.restart().await;
        append(&jobs, 0..1).await;
        assert_eq!(next(&mut cursor, 5 * SECOND).await, Some((0, 1)));
    }
}

/// What a worker had handled is settled when the server is back, and isn't handled again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_outlives_a_server_that_is_about_to_end() {
    for kind in NatsKind::ALL {
        let mut server = harness::Nats::start(kind, options()).await;
        let broker = broker(server.url());
        let (jobs, durable) = jobs(&broker, DurableSettings::new().in_flight(16)).await;
        append(&jobs, 0..100).await;
        let (journal, stop) = (Journal::default(), Stop::new());
        let running = journal.work(&durable, Duration::from_millis(50), &stop);
        eventually("some are handled", || async { if journal.count() > 10 { Ok(()) } else { Err("few") } }).await;
        server.lame_duck();
        eventually("it is told", || async { if journal.has("interrupted") { Ok(()) } else { Err("not yet") } }).await;
        let handled = journal.count();
        assert!(handled < 100);
        server.restart().await;
        settled(&durable).await;
        stop.stop();
        within("the worker ends", running).await.unwrap().unwrap();
        let told = journal.told.lock().unwrap().clone();
        assert!(journal.has("gap") && !journal.has("gone") && !journal.has("vanished"), "{told:?}");
        let again: Vec<_> =
            journal.handled.lock().unwrap().iter().filter(|(_, times)| **times > 1).map(|(n, _)| *n).collect();
        assert_eq!((journal.count(), again), (100, vec![]), "{told:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_goes_on_when_its_leader_is_about_to_end() {
    for kind in NatsKind::ALL {
        let options = NatsOptions::default().config("lame_duck_duration: \"30s\"\nlame_duck_grace_period: \"1s\"");
        let mut cluster = NatsCluster::start(kind, options).await;
        let admin = broker(cluster.url());
        let jobs = Job::stream(&admin).unwrap();
        jobs.ensure(StreamSettings::new().replicas(3)).await.unwrap();
        let durable = jobs.durable(&owner()).unwrap();
        durable.ensure(DurableSettings::new().in_flight(16).ack_wait(3 * SECOND)).await.unwrap();
        append(&jobs, 0..100).await;
        let leader = cluster.leader_of(STREAM).await;
        let (journal, stop) = (Journal::default(), Stop::new());
        let running = journal.work(&durable, Duration::from_millis(20), &stop);
        eventually("some are handled", || async { if journal.count() > 10 { Ok(()) } else { Err("few") } }).await;
        cluster.nodes()[leader].lame_duck();
        settled(&durable).await;
        // And one that waits.
        let told = journal.told.lock().unwrap().clone();
        within("the next are taken", async {
            let mut n = 100;
            while n < 103 {
                match jobs.append(&1, &Job { n }).await {
                    Ok(_) => n += 1,
                    Err(error) => assert!(error.is_transient(), "{error}"),
                }
            }
        })
        .await;
        settled(&durable).await;
        stop.stop();
        assert_eq!(within("the worker ends", running).await.unwrap().unwrap(), Ended::Stopped);
        assert_eq!(journal.count(), 103, "{told:?}");
        assert!(!journal.has("gone") && !journal.has("vanished"), "{told:?}");
        admin.close(DEADLINE).await.unwrap();
    }
}
