//! Users who may do less than everything.

use tidings::backend::RedisCluster;
use tidings::{Notice, Stop, SupervisePolicy};

use super::login::whole_text;
use super::*;

const CHANNELS: &str = "&shop.test.topic.redis.counted.v1 &shop.test.topic.redis.counted.v1.*";
const READS: &str = "+info +config|get +acl|whoami +acl|dryrun";

async fn server_for(rights: &str) -> Server {
    let user = format!("user teller on >hunter2 resetchannels {rights}");
    let options = RedisOptions::default().acl("user default on nopass ~* &* +@all").acl(user);
    Server::start(Kind::Redis8, options).await
}

fn teller(server: &Server) -> Broker<Redis> {
    broker(server.url_as("teller", "hunter2"))
}

#[tokio::test]
async fn a_refused_unsubscribe_or_ping_harms_no_neighbour() {
    let server = server_for(&format!("{CHANNELS} +publish +subscribe +psubscribe")).await;
    let broker = teller(&server);
    let topic = Counted::topic(&broker).unwrap();
    let mut neighbour = topic.subscribe(&"neighbour".to_owned()).await.unwrap();
    let mut all = topic.subscribe_all().await.unwrap();
    for number in 0..3 {
        let mut subscription = topic.subscribe(&"a".to_owned()).await.unwrap();
        assert_eq!(publish(&topic, "a", number).await, Some(2));
        assert_eq!(receive(&mut subscription).await, number);
        within("it is closed", subscription.close()).await;
        // The server goes on sending it, to nobody.
        assert_eq!(publish(&topic, "a", 7).await, Some(2));
        assert_eq!(within("a message comes", all.receive()).await.unwrap().1.number, number);
        assert_eq!(within("a message comes", all.receive()).await.unwrap().1.number, 7);
    }
    within("the pattern is closed", all.close()).await;

    // One that comes while the refusal is on its way gets what comes after it is ready.
    for number in 0..50 {
        let mut subscription = topic.subscribe(&"b".to_owned()).await.unwrap();
        publish(&topic, "b", number).await;
        assert_eq!(receive(&mut subscription).await, number);
        drop(subscription);
    }

    tokio::time::sleep(5 * HEARTBEAT).await;
    publish(&topic, "neighbour", 9).await;
    assert_eq!(receive(&mut neighbour).await, 9);
    within("the last is closed", neighbour.close()).await;
    within("the connection ends", async { while publish(&topic, "a", 0).await != Some(0) {} }).await;
    let mut subscription = topic.subscribe(&"a".to_owned()).await.unwrap();
    assert_eq!(publish(&topic, "a", 1).await, Some(1));
    assert_eq!(receive(&mut subscription).await, 1);
    broker.close(DEADLINE).await.unwrap();
}

#[tokio::test]
async fn check_tells_every_right_that_is_missing_and_what_it_could_not_read() {
    let cases: [(&str, &[&str], &[&str]); 5] = [
        ("&* +@all", &[], &[]),
        (
            "&* +publish +subscribe +psubscribe +info +config|get +acl|whoami +acl|dryrun",
            &["may not PING; grant it `+ping`", "`+punsubscribe`", "`+unsubscribe`"],
            &[],
        ),
        (
            "&* +publish +info +config|get +acl|whoami +acl|dryrun",
            &["`+subscribe +unsubscribe +ping &", "`+psubscribe +punsubscribe +ping &"],
            &[],
        ),
        ("&other +@all", &["may not PUBLISH", "may not SUBSCRIBE", ".v1.prefix.*`, or `allchannels`"], &[]),
        (
            "&* +publish +subscribe +acl|whoami",
            &[],
            &["the version; grant `+info`", "the rights; grant `+acl|whoami +acl|dryrun`", "grant `+config|get`"],
        ),
    ];
    for (rights, problems, unchecked) in cases {
        let server = server_for(rights).await;
        let broker = teller(&server);
        Counted::topic(&broker).unwrap();
        let checked = broker.check(DEADLINE).await.unwrap();
        for (told, expected) in [(&checked.problems, problems), (&checked.unchecked, unchecked)] {
            let same = told.len() == expected.len() && told.iter().zip(expected).all(|(it, words)| it.contains(words));
            assert!(same, "{rights}: {checked:?}");
        }
    }
}

#[tokio::test]
async fn each_prefix_needs_a_channel_pattern_of_its_own() {
    #[derive(tidings::TopicKey)]
    struct Place {
        region: String,
        number: u64,
    }

    #[topic(name = "redis.counted", version = 1, key = Place)]
    #[derive(Serialize, Deserialize)]
    struct Regional {}

    let server =
        server_for(&format!("{CHANNELS} {READS} +subscribe +unsubscribe +publish +ping +psubscribe +punsubscribe"))
            .await;
    let broker = teller(&server);
    let topic = Regional::topic(&broker).unwrap();
    assert_eq!(broker.check(DEADLINE).await.unwrap().problems, Vec::<String>::new());
    let _all = topic.subscribe_all().await.unwrap();
    let error = topic.subscribe_under(("eu",)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Forbidden, "{error:?}");
    assert!(!error.is_transient());
    assert!(whole_text(&error).contains("NOPERM to PSUBSCRIBE; grant `+psubscribe` and the very pattern"), "{error:?}");
    server.command(&["ACL", "SETUSER", "teller", &format!("&{}.eu.*", topic.address())]).await;
    within("the right is there", topic.subscribe_under(("eu",)).into_future()).await.unwrap();
}

#[tokio::test]
async fn a_supervision_waits_for_a_right() {
    let server = server_for("+subscribe +unsubscribe +ping").await;
    let broker = teller(&server);
    let topic = Counted::topic(&broker).unwrap();
    let (failed, mut failures) = tokio::sync::mpsc::unbounded_channel();
    let stop = Stop::new();
    let ready = stop.clone();
    let policy = SupervisePolicy::default();
    let key = "a".to_owned();
    let supervision = topic.supervise(&key, policy).until(&stop).on_notice(move |notice| match notice {
        Notice::Failed { error, .. } => drop(failed.send(error.kind())),
        Notice::Ready => ready.stop(),
        _ => {}
    });
    let granted = async {
        assert_eq!(failures.recv().await, Some(ErrorKind::Forbidden));
        server.command(&["ACL", "SETUSER", "teller", "&*"]).await;
    };
    let run = supervision.run(async |_, ()| Ok(()), async |_, ()| Ok(()));
    let (ended, ()) = within("it is ready", async { tokio::join!(run, granted) }).await;
    assert_eq!(ended.unwrap(), tidings::Ended::Stopped);
}

#[tokio::test]
async fn a_cluster_backend_wants_a_cluster() {
    let server = server_for("&* +@all -cluster").await;
    let broker_as = |url: String| {
        let config = Config::new(Namespace::new("shop", "test").unwrap());
        Broker::new(RedisCluster::new([url]).unwrap(), config).unwrap()
    };
    let broker = broker_as(server.url());
    let topic = Counted::topic(&broker).unwrap();
    let check = broker.check(DEADLINE).await.unwrap_err();
    let publish = topic.publish(&"a".to_owned(), &counted(1)).await.unwrap_err();
    let subscribe = topic.subscribe(&"a".to_owned()).await.unwrap_err();
    for error in [check, publish, subscribe] {
        assert_eq!((error.kind(), error.outcome()), (ErrorKind::Refused, Outcome::NotApplied), "{error:?}");
        assert!(
            whole_text(&error)
                .contains("redis cluster: the server answered `ERR` to CLUSTER SLOTS: it isn't a cluster's node"),
            "{error:?}"
        );
    }
    let problems = broker_as(server.url_as("teller", "hunter2")).check(DEADLINE).await.unwrap().problems;
    assert!(problems[0].contains("`+cluster|slots`"), "{problems:?}");
}
