//! Errors that a server answers at the wrong moment, by the client's own mock of one.

use std::time::{Duration, Instant};

use rdkafka::mocking::MockCluster;
use rdkafka::types::{RDKafkaApiKey as Api, RDKafkaRespErr as Answer};
use serde::{Deserialize, Serialize};
use tidings::backend;
use tidings::{Broker, Config, ErrorKind, Limits, Namespace, Outcome, Position, Stream, stream_spec};
use tidings_tests::harness::within;

#[stream_spec(name = "shop.mocked", version = 1, key = u64)]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Row {
    n: u64,
}

fn rows(mock: &MockCluster<'_, rdkafka::producer::DefaultProducerContext>) -> Stream<Row, backend::Kafka> {
    let kafka = backend::Kafka::new(format!("kafka://{}", mock.bootstrap_servers())).expect("the URL is good");
    let limits = Limits::default().timeout(Duration::from_secs(2));
    let namespace = Namespace::new("shop", "mocked").expect("the names are good");
    let broker = Broker::new(kafka, Config::new(namespace).limits(limits)).expect("the settings are good");
    let rows = Row::stream(&broker).expect("it is bound once");
    mock.create_topic(rows.address(), 1, 1).expect("the name is good");
    rows
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_append_outlives_what_passes_and_is_stored_once() {
    let mock = MockCluster::new(1).expect("it starts");
    let rows = rows(&mock);
    within("appending", rows.append(&1, &Row { n: 0 })).await.expect("the server is up");
    let passing = [
        Answer::RD_KAFKA_RESP_ERR_NOT_ENOUGH_REPLICAS,
        Answer::RD_KAFKA_RESP_ERR_NOT_LEADER_FOR_PARTITION,
        Answer::RD_KAFKA_RESP_ERR_REQUEST_TIMED_OUT,
    ];
    for (n, answer) in (1..).zip(passing) {
        mock.request_errors(Api::Produce, &[answer]);
        let told = within("appending", rows.append(&1, &Row { n })).await.expect("it passes");
        assert_eq!(told.position, Some(Position::new(0, u128::from(n))));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_append_that_is_never_answered_well_may_have_happened() {
    let mock = MockCluster::new(1).expect("it starts");
    let rows = rows(&mock);
    within("appending", rows.append(&1, &Row { n: 0 })).await.expect("the server is up");
    mock.request_errors(Api::Produce, &[Answer::RD_KAFKA_RESP_ERR_REQUEST_TIMED_OUT; 1_000]);
    let began = Instant::now();
    let failed = within("appending", rows.append(&1, &Row { n: 1 })).await.expect_err("nobody says yes");
    assert_eq!((failed.kind(), failed.outcome()), (ErrorKind::Timeout, Outcome::Unknown), "{failed:?}");
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    mock.clear_request_errors(Api::Produce);
    within("appending on", async { while rows.append(&1, &Row { n: 2 }).await.is_err() {} }).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_refused_for_good_did_not_happen() {
    let mock = MockCluster::new(1).expect("it starts");
    let rows = rows(&mock);
    within("appending", rows.append(&1, &Row { n: 0 })).await.expect("the server is up");
    for (answer, kind) in [
        (Answer::RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE, ErrorKind::TooLarge),
        (Answer::RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED, ErrorKind::Forbidden),
    ] {
        mock.request_errors(Api::Produce, &[answer]);
        let failed = within("appending", rows.append(&1, &Row { n: 1 })).await.expect_err("it is refused");
        assert_eq!((failed.kind(), failed.outcome()), (kind, Outcome::NotApplied), "{failed:?}");
        within("appending on", async { while rows.append(&1, &Row { n: 2 }).await.is_err() {} }).await;
    }
}
