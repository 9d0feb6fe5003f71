//! Rights that are taken away midway, and given back.

use tidings::Outcome;

use super::*;

/// Everything but these.
fn without(publish: &str, subscribe: &str) -> Vec<String> {
    let deny = |denied: &str| format!("{{ allow: [\">\"], deny: [{denied}] }}");
    vec![format!(
        "authorization {{ users: [\n{{ user: root, password: secret }}\n{{ user: alice, password: secret, permissions: \
         {{ publish: {}, subscribe: {} }} }} ] }}",
        deny(publish),
        deny(subscribe)
    )]
}

const NONE: &str = "\"none.such\"";

async fn start(kind: NatsKind) -> (harness::Nats, Broker<Nats>, Broker<Nats>) {
    let server =
        harness::Nats::start(kind, NatsOptions { config: without(NONE, NONE), ..NatsOptions::default() }).await;
    let (alice, root) = (broker(server.url_as("alice:secret")), broker(server.url_as("root:secret")));
    (server, alice, root)
}

#[tokio::test]
async fn a_settlement_without_the_right_is_told_and_works_once_it_is_granted() {
    for kind in NatsKind::ALL {
        let (mut server, alice, root) = start(kind).await;
        let (jobs, durable) = jobs(&alice, DurableSettings::new()).await;
        append(&jobs, 0..2).await;
        let mut cursor = durable.cursor().await.unwrap();
        let job = cursor.next().await.unwrap();
        server.reload(without("\"$JS.ACK.>\"", NONE));
        let refused = within("it is refused", async {
            loop {
                match job.in_progress().await {
                    Err(refused) if refused.kind() == ErrorKind::Unavailable => {}
                    Err(refused) => return refused,
                    Ok(()) => {}
                }
            }
        })
        .await;
        assert_eq!((refused.kind(), refused.outcome()), (ErrorKind::Forbidden, Outcome::NotApplied), "{refused}");
        assert_eq!(straight_info(&root).await, (1, 1));
        server.reload(without(NONE, NONE));
        within("it is granted", async {
            while let Err(refused) = job.in_progress().await {
                assert!(refused.kind() == ErrorKind::Forbidden || refused.is_transient(), "{refused}");
            }
        })
        .await;
        job.ack().await.unwrap();
        assert_eq!(next(&mut cursor, 5 * SECOND).await, Some((1, 1)));
    }
}

#[tokio::test]
async fn a_cursor_without_a_right_is_told() {
    for kind in NatsKind::ALL {
        for (publish, subscribe) in [("\"$JS.API.CONSUMER.MSG.NEXT.>\"", NONE), (NONE, "\"_INBOX.>\"")] {
            let (mut server, alice, root) = start(kind).await;
            let (jobs, durable) = jobs(&root, DurableSettings::new()).await;
            let mut cursor = Job::stream(&alice).unwrap().cursor(&owner()).await.unwrap();
            assert!(cursor.next_within(Duration::from_millis(100)).await.unwrap().is_none());
            server.reload(without(publish, subscribe));
            let refused = within("it is refused", async {
                loop {
                    match cursor.next_within(SECOND).await.map(|job| assert!(job.is_none())) {
                        Err(refused) if !refused.is_transient() => return refused,
                        Err(refused) => assert_ne!(refused.kind(), ErrorKind::Timeout, "{refused}"),
                        Ok(()) => {}
                    }
                }
            })
            .await;
            assert_eq!(refused.kind(), ErrorKind::Forbidden, "{refused}");
            server.reload(without(NONE, NONE));
            append(&jobs, 0..1).await;
            let granted = within("it is granted", async {
                loop {
                    match next_of(&mut cursor).await {
                        Ok(Some(seen)) => return seen,
                        Ok(None) => {}
                        Err(refused) => {
                            assert!(refused.kind() == ErrorKind::Forbidden || refused.is_transient(), "{refused}");
                        }
                    }
                }
            })
            .await;
            assert_eq!(granted, (0, 1), "{kind:?} {publish} {subscribe}");
            settled(&durable).await;
        }
    }
}

async fn next_of(cursor: &mut Cursor<Job, Nats>) -> Result<Option<(u64, u32)>, Error> {
    let Some(job) = cursor.next_within(SECOND).await? else { return Ok(None) };
    let seen = (job.value().unwrap().n, job.attempt());
    job.ack().await?;
    Ok(Some(seen))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_whose_right_is_taken_away_says_so_and_goes_on_once_it_is_back() {
    for kind in NatsKind::ALL {
        for (publish, subscribe) in
            [("\"$JS.ACK.>\"", NONE), ("\"$JS.API.CONSUMER.MSG.NEXT.>\"", NONE), (NONE, "\"_INBOX.>\"")]
        {
            let (mut server, alice, root) = start(kind).await;
            let (jobs, crew) = jobs(&root, DurableSettings::new().in_flight(16).ack_wait(3 * SECOND)).await;
            let (journal, stop) = (Journal::default(), Stop::new());
            let durable = Job::stream(&alice).unwrap().durable(&owner()).unwrap();
            // So few ahead that it soon asks again.
            let running = journal.work_ahead(&durable, 8, Duration::from_millis(20), &stop);
            append(&jobs, 0..20).await;
            eventually("some are handled", || async { if journal.count() > 8 { Ok(()) } else { Err("few") } }).await;
            server.reload(without(publish, subscribe));
            let mut n = 20;
            within("it is told", async {
                while !journal.has("grant the user") {
                    append(&jobs, n..n + 1).await;
                    n += 1;
                }
            })
            .await;
            server.reload(without(NONE, NONE));
            settled(&crew).await;
            let handled = journal.handled.lock().unwrap().clone();
            assert!(handled.values().all(|times| *times == 1), "{publish} {subscribe}: {handled:?}");
            assert_eq!(handled.len() as u64, n);
            stop.stop();
            within("the worker ends", running).await.unwrap().unwrap();
        }
    }
}
