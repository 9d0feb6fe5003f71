//! Nodes of a cluster that stand still, and slots that have no owner or another.

use std::sync::atomic::AtomicU16;

use tidings::backend::RedisCluster;

use super::*;

/// A cluster of one node, which says that a port has all slots: 0 for none.
struct FakeCluster {
    fake: Fake,
    owner: Arc<AtomicU16>,
}

impl FakeCluster {
    async fn start(answer: impl Fn(&[String]) -> String + Send + Sync + 'static) -> Self {
        let owner = Arc::<AtomicU16>::default();
        let fake = Fake::start({
            let owner = owner.clone();
            move |words| {
                Some(match (&*words[0], owner.load(Ordering::Relaxed)) {
                    ("HELLO", _) => GREETING.to_vec(),
                    ("PING", _) => b"+PONG\r\n".to_vec(),
                    ("CLUSTER", 0) => b"*0\r\n".to_vec(),
                    ("CLUSTER", port) => {
                        format!("*1\r\n*3\r\n:0\r\n:16383\r\n*2\r\n$9\r\n127.0.0.1\r\n:{port}\r\n").into()
                    }
                    _ => answer(words).into(),
                })
            }
        })
        .await;
        owner.store(fake.port, Ordering::Relaxed);
        Self { fake, owner }
    }

    fn broker(&self) -> Broker<RedisCluster> {
        let limits = Limits::default().heartbeat(HEARTBEAT).timeout(Duration::from_millis(400));
        let config = Config::new(Namespace::new("shop", "test").unwrap()).limits(limits);
        Broker::new(RedisCluster::new([self.fake.url()]).unwrap(), config).unwrap()
    }
}

#[tokio::test]
async fn a_slot_that_had_no_owner_is_found_once_it_has_one() {
    let cluster = FakeCluster::start(|words| match &*words[0] {
        "SPUBLISH" => ":0\r\n".to_owned(),
        _ => push("ssubscribe", &words[1]),
    })
    .await;
    cluster.owner.store(0, Ordering::Relaxed);
    let broker = cluster.broker();
    let topic = Counted::topic(&broker).unwrap();
    let key = "a".to_owned();
    for _ in 0..2 {
        let error = within("a publish fails", topic.publish(&key, &counted(1))).await.unwrap_err();
        assert_eq!((error.kind(), error.outcome()), (ErrorKind::Refused, Outcome::NotApplied), "{error:?}");
        let error = within("a subscribe fails", topic.subscribe(&key)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Refused, "{error:?}");
    }
    cluster.owner.store(cluster.fake.port, Ordering::Relaxed);
    within("a publish returns", topic.publish(&key, &counted(1))).await.unwrap();
    within("a subscribe returns", topic.subscribe(&key)).await.unwrap();
}

#[tokio::test]
async fn a_node_that_stands_still_is_left_for_its_successor() {
    let cluster = FakeCluster::start(|words| match &*words[0] {
        "SPUBLISH" => ":0\r\n".to_owned(),
        _ => push("ssubscribe", &words[1]),
    })
    .await;
    // The system connects for it, and nobody answers.
    let still = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let broker = cluster.broker();
    let topic = Counted::topic(&broker).unwrap();
    let key = "a".to_owned();

    let become_owner = |port| cluster.owner.store(port, Ordering::Relaxed);
    let still_port = still.local_addr().unwrap().port();
    become_owner(still_port);
    let error = within("a subscribe fails", topic.subscribe(&key)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Timeout, "{error:?}");
    become_owner(cluster.fake.port);
    let subscription = within("a subscribe returns", topic.subscribe(&key)).await.unwrap();
    drop(subscription);

    // Callers with less patience than the broker learn of it too.
    let other = cluster.broker();
    let topic = Counted::topic(&other).unwrap();
    become_owner(still_port);
    let soon = Duration::from_millis(50);
    tokio::time::timeout(soon, topic.publish(&key, &counted(1))).await.unwrap_err();
    become_owner(cluster.fake.port);
    within("a publish returns", topic.publish(&key, &counted(1))).await.unwrap();
}

/// The server unsubscribes of itself when a slot moves, and refuses an unsubscribe that was on its way then.
#[tokio::test]
async fn an_unsubscribe_that_a_moving_slot_overtakes_harms_no_neighbour() {
    let cluster = FakeCluster::start(|words| match &*words[0] {
        "SUNSUBSCRIBE" => push("sunsubscribe", &words[1]) + "-MOVED 0 127.0.0.1:1\r\n",
        _ => push("ssubscribe", &words[1]),
    })
    .await;
    let broker = cluster.broker();
    let topic = Counted::topic(&broker).unwrap();
    let mut staying = topic.subscribe(&"b".to_owned()).await.unwrap();
    for _ in 0..3 {
        let leaving = topic.subscribe(&"a".to_owned()).await.unwrap();
        within("it unsubscribes", leaving.close()).await;
    }
    tokio::time::timeout(4 * HEARTBEAT, staying.receive()).await.expect_err("nothing comes and nothing ends");
    assert_eq!(cluster.fake.accepted(), 2);
}

#[tokio::test]
async fn a_batch_keeps_its_time_when_the_slots_are_asked_for_first() {
    const TIMEOUT: Duration = Duration::from_millis(800);
    let cluster = FakeCluster::start(|_| ":0\r\n".to_owned()).await;
    let still = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    cluster.owner.store(still.local_addr().unwrap().port(), Ordering::Relaxed);
    // Three that stand still take three quarters of the time before the fourth is asked.
    let mut listeners = Vec::new();
    let mut urls = Vec::new();
    for _ in 0..3 {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        urls.push(format!("redis://{}", listener.local_addr().unwrap()));
        listeners.push(listener);
    }
    urls.push(cluster.fake.url());
    let config = Config::new(Namespace::new("shop", "test").unwrap()).limits(Limits::default().timeout(TIMEOUT));
    let broker = Broker::new(RedisCluster::new(urls).unwrap(), config).unwrap();
    let topic = Counted::topic(&broker).unwrap();
    let (key, event) = ("a".to_owned(), counted(1));
    let began = tokio::time::Instant::now();
    let replies = within("a batch returns", topic.publish_all([(&key, &event)])).await.unwrap();
    assert_eq!(replies[0].as_ref().unwrap_err().kind(), ErrorKind::Timeout, "{replies:?}");
    assert!(began.elapsed() < TIMEOUT * 3 / 2, "{:?}", began.elapsed());
}

#[tokio::test]
async fn a_batch_asks_for_the_slots_once_when_that_is_in_vain() {
    let cluster = FakeCluster::start(|_| ":0\r\n".to_owned()).await;
    cluster.owner.store(0, Ordering::Relaxed);
    let broker = cluster.broker();
    let topic = Counted::topic(&broker).unwrap();
    let (key, event) = ("a".to_owned(), counted(1));
    let replies = within("a batch returns", topic.publish_all([(&key, &event); 50])).await.unwrap();
    assert_eq!(replies.len(), 50);
    for reply in replies {
        let error = reply.unwrap_err();
        assert_eq!((error.kind(), error.outcome()), (ErrorKind::Refused, Outcome::NotApplied), "{error:?}");
    }
    assert_eq!(cluster.fake.accepted(), 1);
}
