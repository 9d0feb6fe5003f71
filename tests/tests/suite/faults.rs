//! Dead servers, broken networks and impatient callers under supervisions and subscriptions, on real servers.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tidings::backend::Redis;
use tidings::{
    Broker, Cause, Config, Ended, Error, Gap, Limits, Namespace, Outcome, Stop, Subscription, SupervisePolicy, Topic,
    topic,
};
use tidings_tests::harness::{Cut, Direction, Kind, Proxy, RedisOptions, Refusal, Server, within};
use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};

const HEARTBEAT: Duration = Duration::from_millis(100);
const DEADLINE: Duration = Duration::from_secs(5);

#[topic(name = "faults.tick", version = 1, key = u64)]
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq)]
struct Tick {
    n: u64,
    filler: String,
}

fn tick(n: u64) -> Tick {
    Tick { n, filler: String::new() }
}

fn limits() -> Limits {
    Limits::default().heartbeat(HEARTBEAT).timeout(Duration::from_millis(500)).buffer_messages(65_536)
}

fn broker(url: impl AsRef<str>) -> Broker<Redis> {
    let namespace = Namespace::new("faults", "test").unwrap();
    Broker::new(Redis::new(url).unwrap(), Config::new(namespace).limits(limits())).unwrap()
}

fn quick() -> SupervisePolicy {
    SupervisePolicy::default().initial(Duration::from_millis(5)).max(Duration::from_millis(50))
}

async fn server(kind: Kind) -> Server {
    Server::start(kind, RedisOptions::default()).await
}

#[derive(Debug)]
enum Told {
    Event,
    Gap(Gap),
}

/// A supervision of key 1 in a task of its own.
fn supervise(topic: &Topic<Tick, Redis>, policy: SupervisePolicy, stop: &Stop) -> mpsc::UnboundedReceiver<Told> {
    let (log, told) = mpsc::unbounded_channel();
    let supervision = topic.supervise(&1, policy).with(log).until(stop).run(
        async |_: Tick, log: mpsc::UnboundedSender<Told>| Ok(log.send(Told::Event).map_err(|_| "gone")?),
        async |gap, log| Ok(log.send(Told::Gap(gap)).map_err(|_| "gone")?),
    );
    tokio::spawn(async move { assert_eq!(Box::pin(supervision).await.unwrap(), Ended::Stopped) });
    told
}

/// Publishes until an event is told.
async fn delivered(topic: &Topic<Tick, Redis>, told: &mut mpsc::UnboundedReceiver<Told>) {
    within("an event is told", async {
        loop {
            let _ = topic.publish(&1, &tick(1)).await;
            match timeout(Duration::from_millis(10), told.recv()).await {
                Ok(Some(Told::Event)) => return,
                Ok(told) => panic!("{told:?} where an event was expected"),
                Err(_) => {}
            }
        }
    })
    .await;
}

/// Waits for the next gap, past events that came before it.
async fn gap(told: &mut mpsc::UnboundedReceiver<Told>) -> Gap {
    within("a gap is told", async {
        loop {
            if let Told::Gap(gap) = told.recv().await.expect("the supervision goes on") {
                return gap;
            }
        }
    })
    .await
}

async fn a_restarted_server_is_one_gap_after_several_attempts(kind: Kind) {
    let mut server = server(kind).await;
    let topic = Tick::topic(&broker(server.url())).unwrap();
    let stop = Stop::new();
    let mut told = supervise(&topic, quick(), &stop);
    for _ in 0..2 {
        delivered(&topic, &mut told).await;
        server.kill();
        sleep(Duration::from_millis(400)).await;
        server.restart().await;
        let gap = gap(&mut told).await;
        assert_eq!(gap.cause, Cause::Disconnected);
        assert!(gap.attempts >= 3, "{gap}");
        delivered(&topic, &mut told).await;
    }
    stop.stop();
}

#[tokio::test]
async fn a_restarted_redis_7_is_one_gap_after_several_attempts() {
    a_restarted_server_is_one_gap_after_several_attempts(Kind::Redis7).await;
}

#[tokio::test]
async fn a_restarted_redis_8_is_one_gap_after_several_attempts() {
    a_restarted_server_is_one_gap_after_several_attempts(Kind::Redis8).await;
}

#[tokio::test]
async fn killed_clients_and_a_server_that_stands_still_are_gaps() {
    let server = server(Kind::Redis8).await;
    let topic = Tick::topic(&broker(server.url())).unwrap();
    let stop = Stop::new();
    let mut told = supervise(&topic, quick(), &stop);
    delivered(&topic, &mut told).await;
    for kind in ["pubsub", "normal"] {
        server.try_command(&["CLIENT", "KILL", "TYPE", kind]).await.unwrap();
        if kind == "pubsub" {
            assert_eq!(gap(&mut told).await.cause, Cause::Disconnected);
        }
        delivered(&topic, &mut told).await;
    }
    server.pause().await;
    sleep(5 * HEARTBEAT).await;
    server.resume().await;
    assert_eq!(gap(&mut told).await.cause, Cause::Disconnected);
    delivered(&topic, &mut told).await;
    stop.stop();
}

/// Receives what comes, one after the other from 0 on, until the subscription ends.
async fn ending_in_order(subscription: &mut Subscription<Tick, Redis>) -> Error {
    let mut next = 0;
    within("the subscription ends", async {
        loop {
            match subscription.receive().await {
                Ok(event) => {
                    assert_eq!(event.n, next);
                    next += 1;
                }
                Err(ended) => return ended,
            }
        }
    })
    .await
}

#[tokio::test]
async fn a_cut_in_the_middle_of_a_message_is_a_disconnect_wherever_it_falls() {
    let server = server(Kind::Redis8).await;
    let proxy = Proxy::start(server.port()).await;
    let publisher = Tick::topic(&broker(server.url())).unwrap();
    for bytes in [1, 5, 17, 40, 90, 100, 130] {
        let topic = Tick::topic(&broker(proxy.url())).unwrap();
        let mut subscription = topic.subscribe(&1).await.unwrap();
        proxy.cut_after(Direction::ToClient, bytes, Cut::Finish);
        for n in 0..10 {
            publisher.publish(&1, &tick(n)).await.unwrap();
        }
        let ended = ending_in_order(&mut subscription).await;
        assert_eq!(ended.cause(), Some(Cause::Disconnected), "cut after {bytes}: {ended:?}");
    }
}

#[tokio::test]
async fn a_client_that_the_server_drops_for_its_backlog_is_told_after_what_came() {
    let options = RedisOptions::default().config("client-output-buffer-limit pubsub 64kb 64kb 1");
    let server = Server::start(Kind::Redis7, options).await;
    let proxy = Proxy::start(server.port()).await;
    let namespace = Namespace::new("faults", "test").unwrap();
    // The backlog, not the heartbeat, is to be what ends it.
    let patient = Config::new(namespace).limits(limits().heartbeat(Duration::from_mins(1)));
    let topic = Tick::topic(&Broker::new(Redis::new(proxy.url()).unwrap(), patient).unwrap()).unwrap();
    let publisher = Tick::topic(&broker(server.url())).unwrap();
    let mut subscription = topic.subscribe(&1).await.unwrap();
    proxy.stall(Direction::ToClient, true);
    let large = |n| Tick { n, filler: "x".repeat(32 << 10) };
    within("the server drops the client", async {
        let mut n = 0;
        while publisher.publish(&1, &large(n)).await.unwrap().count() == Some(1) {
            n += 1;
        }
    })
    .await;
    proxy.stall(Direction::ToClient, false);
    let ended = ending_in_order(&mut subscription).await;
    assert_eq!(ended.cause(), Some(Cause::Disconnected), "{ended:?}");
}

#[tokio::test]
async fn a_server_that_accepts_and_drops_is_not_hammered() {
    let server = server(Kind::Redis8).await;
    let proxy = Proxy::start(server.port()).await;
    proxy.refuse(Refusal::AcceptAndReset).await;
    let topic = Tick::topic(&broker(proxy.url())).unwrap();
    let stop = Stop::new();
    let policy = SupervisePolicy::default().initial(Duration::from_millis(20)).max(Duration::from_secs(6));
    let mut told = supervise(&topic, policy, &stop);
    // A fifth of the default's scale, so two seconds stand for ten.
    sleep(Duration::from_secs(2)).await;
    let accepted = proxy.counters().accepted;
    assert!((3..20).contains(&accepted), "{accepted} connections");
    assert!(told.try_recv().is_err(), "nothing is told before a subscription is ready");
    stop.stop();
}

#[tokio::test]
async fn cancelled_publishes_and_set_ups_leave_the_connection_in_step() {
    let server = server(Kind::Redis8).await;
    let broker = broker(server.url());
    let topic = Tick::topic(&broker).unwrap();
    let mut staying = topic.subscribe(&1).await.unwrap();
    for n in 0..300 {
        let patience = Duration::from_micros(n * 7 % 1_000);
        let _ = timeout(patience, topic.publish(&1, &tick(n))).await;
        let _ = timeout(patience, topic.subscribe(&(n % 3))).await;
    }
    topic.publish(&1, &tick(1_000)).await.unwrap();
    let mut last = None;
    within("the last event comes", async {
        while last != Some(1_000) {
            let event = staying.receive().await.unwrap();
            assert!(last < Some(event.n), "{} came after {last:?}", event.n);
            last = Some(event.n);
        }
    })
    .await;
    within("nothing is left", async {
        while broker.stats().setting_up + broker.stats().draining + broker.stats().operations > 0 {
            sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
    let channels = server.command(&["PUBSUB", "CHANNELS"]).await.text();
    assert_eq!(channels, format!("{}.1", topic.address()));
}

#[tokio::test]
async fn close_keeps_its_deadline_whatever_the_server_does() {
    for fault in ["stands still", "is killed", "was never there"] {
        let mut server = server(Kind::Redis8).await;
        if fault == "was never there" {
            server.kill();
        }
        let broker = broker(server.url());
        let topic = Tick::topic(&broker).unwrap();
        let stop = Stop::new();
        let _told = supervise(&topic, quick(), &stop);
        let held = if fault == "was never there" {
            assert_eq!(topic.publish(&1, &tick(1)).await.unwrap_err().outcome(), Outcome::NotApplied);
            None
        } else {
            topic.publish(&1, &tick(1)).await.unwrap();
            Some(topic.subscribe(&2).await.unwrap())
        };
        match fault {
            "stands still" => server.pause().await,
            "is killed" => server.kill(),
            _ => {}
        }
        // The supervision is ended by its token, since a closed broker would end it as well.
        stop.stop();
        let closed = within(format!("the broker closes while the server {fault}"), broker.close(DEADLINE)).await;
        closed.unwrap_or_else(|error| panic!("while the server {fault}: {error}"));
        drop(held);
        assert_eq!(broker.stats().tasks, 0);
        if fault == "stands still" {
            server.resume().await;
        }
    }
}

#[tokio::test]
async fn no_error_and_no_debug_output_holds_a_credential() {
    const SECRET: &str = "tr0ub4dor";
    let mut server = Server::start(Kind::Redis7, RedisOptions::default().password("right")).await;
    let redis = Redis::new(server.url_as("default", SECRET)).unwrap();
    let mut said = vec![format!("{redis:?}")];
    for url in [format!("redis://u:{SECRET}@"), format!("redis://u:{SECRET}@a:b"), format!("http://u:{SECRET}@a")] {
        said.extend(Redis::new(url).err().map(|error| format!("{error} {error:?}")));
    }
    let broker = broker(server.url_as("default", SECRET));
    let topic = Tick::topic(&broker).unwrap();
    said.push(format!("{broker:?} {topic:?}"));
    for killed in [false, true] {
        if killed {
            server.kill();
        }
        let errors = [
            topic.publish(&1, &tick(1)).await.unwrap_err(),
            topic.subscribe(&1).await.unwrap_err(),
            broker.check(DEADLINE).await.unwrap_err(),
        ];
        for error in errors {
            said.push(format!("{error} {error:?}"));
            let mut source = std::error::Error::source(&error);
            while let Some(error) = source {
                said.push(format!("{error} {error:?}"));
                source = error.source();
            }
        }
    }
    assert!(said.len() > 8, "{said:?}");
    for text in said {
        assert!(!text.contains(SECRET), "{text}");
    }
}

#[tokio::test]
async fn a_handler_that_publishes_to_its_own_topic_over_a_full_buffer_does_not_wait_for_itself() {
    let server = server(Kind::Redis8).await;
    let broker = broker(server.url());
    let topic = Tick::topic(&broker).unwrap();
    let narrow = topic.with_options(tidings::SubscribeOptions::new().buffer_messages(1)).unwrap();
    let (stop, gaps) = (Stop::new(), Arc::new(AtomicU64::new(0)));
    let supervision = narrow.supervise(&1, quick()).with((topic.clone(), stop.clone(), gaps.clone())).until(&stop).run(
        async |event: Tick, (topic, ..): (Topic<Tick, Redis>, Stop, Arc<AtomicU64>)| {
            for n in 0..5 {
                topic.publish(&1, &tick(event.n + n)).await?;
            }
            Ok(())
        },
        async |gap: Gap, (_, stop, gaps)| {
            assert_eq!(gap.cause, Cause::Overflow);
            gaps.fetch_add(1, Ordering::Relaxed);
            stop.stop();
            Ok(())
        },
    );
    let publish = async {
        while !stop.is_stopped() {
            topic.publish(&1, &tick(0)).await.unwrap();
            sleep(Duration::from_millis(5)).await;
        }
    };
    let (ended, ()) = within("the overflow is told", Box::pin(async { tokio::join!(supervision, publish) })).await;
    assert_eq!(ended.unwrap(), Ended::Stopped);
    assert_eq!(gaps.load(Ordering::Relaxed), 1);
}
