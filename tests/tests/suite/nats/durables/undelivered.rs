//! Records that were handed out as often as they may be, where a connection breaks.

use futures_util::StreamExt as _;

use super::*;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_heard_before_the_connection_broke_is_told() {
    for (kind, restarts) in NatsKind::ALL.into_iter().flat_map(|kind| [false, true].map(|restarts| (kind, restarts))) {
        let mut server = harness::Nats::start(kind, NatsOptions::default()).await;
        let proxy = Proxy::start(server.port()).await;
        let (near, far) = (broker(server.url()), broker(format!("nats://{}", proxy.address())));
        let settings = DurableSettings::new().ack_wait(SECOND / 5).max_deliver(1);
        let (jobs, _) = jobs(&near, settings).await;
        append(&jobs, 0..1).await;
        let told = format!("$JS.EVENT.ADVISORY.CONSUMER.MAX_DELIVERIES.{STREAM}.m_crew");
        let mut told = super::super::other(&server).await.subscribe(told).await.unwrap();
        let mut cursor = Job::stream(&far).unwrap().cursor(&owner()).await.unwrap();
        assert_eq!(next(&mut cursor, 5 * SECOND).await, Some((0, 1)));
        // The server looks what is over when it is asked for more.
        let mut other = jobs.cursor(&owner()).await.unwrap();
        let heard = within("it is heard", other.next()).await.map(drop).unwrap_err();
        assert_eq!(heard.kind(), ErrorKind::Undelivered, "{heard}");
        drop(other);
        within("it is told", told.next()).await.unwrap();
        tokio::time::sleep(SECOND / 2).await;
        if restarts {
            server.restart().await;
        } else {
            proxy.cut(Cut::Reset).await;
        }
        let mut kinds = Vec::new();
        let position = within("it is told", async {
            loop {
                let failed = cursor.next().await.map(drop).unwrap_err();
                kinds.push(failed.kind());
                if failed.kind() == ErrorKind::Undelivered {
                    break failed.position();
                }
            }
        })
        .await;
        assert_eq!(position.map(tidings::Position::offset), Some(1));
        // And what broke, too.
        append(&jobs, 1..2).await;
        loop {
            match cursor.next_within(5 * SECOND).await {
                Err(failed) => kinds.push(failed.kind()),
                Ok(job) => break assert_eq!(job.unwrap().value().unwrap().n, 1),
            }
        }
        assert!(kinds.contains(&ErrorKind::Unavailable), "{kinds:?}");
    }
}
