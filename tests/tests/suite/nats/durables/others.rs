//! What other programs do to a durable and its stream.

use futures_util::StreamExt as _;
use serde_json::{Value, json};
use tidings::{Outcome, Start};

use super::*;

pub(super) async fn ask(server: &harness::Nats, subject: &str, body: Value) -> Value {
    let client = super::super::other(server).await;
    let answer = within("it answers", client.request(subject.to_owned(), body.to_string().into())).await.unwrap();
    serde_json::from_slice(&answer.payload).unwrap()
}

async fn consumer(server: &harness::Nats) -> Value {
    ask(server, &format!("$JS.API.CONSUMER.INFO.{STREAM}.m_crew"), json!({})).await["config"].clone()
}

async fn set(server: &harness::Nats, action: &str, config: &Value) {
    let body = json!({ "stream_name": STREAM, "action": action, "config": config });
    let answer = ask(server, &format!("$JS.API.CONSUMER.CREATE.{STREAM}.m_crew"), body).await;
    assert!(answer["error"].is_null(), "{answer}");
}

#[tokio::test]
async fn what_others_have_set_is_kept_or_refused() {
    for kind in NatsKind::ALL {
        let server = harness::Nats::start(kind, NatsOptions::default()).await;
        let broker = broker(server.url());
        let (jobs, durable) = jobs(&broker, DurableSettings::new().backoff([SECOND, 2 * SECOND])).await;
        let mut config = consumer(&server).await;
        config["description"] = "the crew's".into();
        config["metadata"]["team"] = "x".into();
        set(&server, "update", &config).await;
        durable.update(DurableSettings::new().ack_wait(7 * SECOND).max_deliver(9).in_flight(3)).await.unwrap();
        let changed = consumer(&server).await;
        assert_eq!((&changed["description"], &changed["metadata"]["team"]), (&"the crew's".into(), &"x".into()));
        let set_here = ["ack_wait", "max_deliver", "max_ack_pending"].map(|name| changed[name].as_u64());
        assert_eq!(set_here, [Some(7_000_000_000), Some(9), Some(3)]);
        assert!(changed["backoff"].is_null(), "{changed}");

        config = changed;
        config["headers_only"] = true.into();
        set(&server, "update", &config).await;
        let refused = jobs.cursor(&owner()).await.unwrap_err();
        assert_eq!((refused.kind(), refused.outcome()), (ErrorKind::Conflict, Outcome::NotApplied));
        assert!(refused.to_string().contains("headers only"), "{refused}");
    }
    // Groups of priority came later.
    let server = harness::Nats::start(NatsKind::Nats215, NatsOptions::default()).await;
    let broker = broker(server.url());
    let (jobs, durable) = jobs(&broker, DurableSettings::new()).await;
    let mut cursor = durable.cursor().await.unwrap();
    append(&jobs, 0..1).await;
    let mut config = consumer(&server).await;
    config["priority_groups"] = json!(["a"]);
    config["priority_policy"] = "overflow".into();
    set(&server, "update", &config).await;
    // One that was bound before is told by its first request.
    let refused = within("it is told", cursor.next()).await.map(drop).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Conflict, "{refused}");
    assert_eq!(jobs.cursor(&owner()).await.unwrap_err().kind(), ErrorKind::Conflict);
}

/// Whatever stands in its first line, what a stream holds is a record.
#[tokio::test]
async fn a_record_that_looks_like_a_status_is_a_record() {
    for kind in NatsKind::ALL {
        let server = harness::Nats::start(kind, NatsOptions::default()).await;
        let broker = broker(server.url());
        let (jobs, durable) = jobs(&broker, DurableSettings::new()).await;
        let mut other = tokio::net::TcpStream::connect(("127.0.0.1", server.port())).await.unwrap();
        let mut sent = b"CONNECT {\"verbose\":false,\"headers\":true}\r\n".to_vec();
        for status in ["100 Idle Heartbeat", "200", "404 No Messages", "408", "409 Consumer Deleted", "503", "?"] {
            let (head, body) = (format!("NATS/1.0 {status}\r\n\r\n"), "{\"n\":1}");
            let lengths = (head.len(), head.len() + body.len());
            let line = format!("HPUB shop.test.stream.nats.jobs.v1.5 {} {}\r\n{head}{body}\r\n", lengths.0, lengths.1);
            sent.extend_from_slice(line.as_bytes());
        }
        tokio::io::AsyncWriteExt::write_all(&mut other, &sent).await.unwrap();
        eventually("they are stored", || async {
            let waiting = durable.info().await.unwrap().waiting;
            if waiting == 7 { Ok(()) } else { Err(waiting.to_string()) }
        })
        .await;
        assert_eq!(jobs.read(Start::Earliest, 10, Duration::ZERO).await.unwrap().len(), 7);
        let mut cursor = durable.cursor().await.unwrap();
        for sequence in 1..=7 {
            let job = within("it comes", cursor.next()).await.unwrap();
            assert_eq!((job.position().offset(), job.attempt(), job.value().unwrap().n), (sequence, 1, 1));
            job.ack().await.unwrap();
        }
        assert_eq!(straight_info(&broker).await, (0, 0));
    }
}

#[tokio::test]
async fn who_waits_is_told_that_jetstream_is_gone() {
    for kind in NatsKind::ALL {
        let mut server = harness::Nats::start(kind, NatsOptions::default()).await;
        let broker = broker(server.url());
        let (_, durable) = jobs(&broker, DurableSettings::new()).await;
        let mut cursor = durable.cursor().await.unwrap();
        server.leave_out_jetstream();
        server.restart().await;
        let told = within("it is told", async {
            loop {
                match cursor.next().await.map(drop) {
                    Err(lost) if lost.kind() == ErrorKind::Unavailable => {}
                    told => return told.unwrap_err(),
                }
            }
        })
        .await;
        assert_eq!(told.kind(), ErrorKind::Unsupported, "{told}");
        assert!(told.to_string().contains("switch `jetstream` on"), "{told}");
    }
}

#[tokio::test]
async fn the_rights_that_the_readme_names_suffice() {
    const ADDRESS: &str = "shop.test.stream.nats.jobs.v1";
    let api = |words: &str, below: &str| {
        let subject = |word: &str| format!("\"$JS.API.{word}.{STREAM}{below}\"");
        words.split(' ').map(subject).collect::<Vec<_>>().join(", ")
    };
    let managing = api("STREAM.INFO STREAM.CREATE STREAM.UPDATE STREAM.DELETE", "");
    let reading = api("STREAM.INFO STREAM.MSG.GET", "");
    let consumers = api("CONSUMER.CREATE CONSUMER.MSG.NEXT CONSUMER.DELETE", ".>");
    let durables = api("CONSUMER.CREATE CONSUMER.INFO CONSUMER.MSG.NEXT CONSUMER.DELETE", ".>");
    let user = |name: &str, publish: &str, subscribe: &str| {
        format!(
            "{{ user: {name}, password: p, permissions: {{ publish: [{publish}], subscribe: [\"_INBOX.>\"{subscribe}] }} }}"
        )
    };
    let users = [
        user("manager", &format!("{managing}, \"$JS.API.STREAM.NAMES\", \"$JS.API.INFO\""), ""),
        user("writer", &format!("\"{ADDRESS}\", \"{ADDRESS}.>\", \"$JS.API.STREAM.INFO.{STREAM}\""), ""),
        user("reader", &format!("{reading}, {consumers}"), ""),
        user(
            "agent",
            &format!("\"$JS.ACK.>\", \"$JS.API.STREAM.INFO.{STREAM}\", {durables}"),
            &format!(", \"$JS.EVENT.ADVISORY.CONSUMER.MAX_DELIVERIES.{STREAM}.>\""),
        ),
    ];
    let rights = format!("authorization {{ users: [\n{} ] }}", users.join(",\n"));
    for kind in NatsKind::ALL {
        let server = harness::Nats::start(kind, NatsOptions::default().config(rights.clone())).await;
        let stream = |user: &str| Job::stream(&broker(server.url_as(&format!("{user}:p")))).unwrap();
        let [manager, writer, reader, agent] = ["manager", "writer", "reader", "agent"].map(stream);
        manager.ensure(StreamSettings::new()).await.unwrap();
        manager.update(StreamSettings::new().max_len(100)).await.unwrap();
        let checked = manager.broker().check(DEADLINE).await.unwrap();
        assert!(checked.problems.is_empty(), "{checked:?}");
        append(&writer, 0..3).await;
        assert_eq!(reader.read(Start::Earliest, 9, Duration::ZERO).await.unwrap().len(), 3);
        let durable = agent.durable(&owner()).unwrap();
        durable.ensure(DurableSettings::new().max_deliver(2)).await.unwrap();
        durable.update(DurableSettings::new().max_deliver(3)).await.unwrap();
        let mut cursor = durable.cursor().await.unwrap();
        cursor.next().await.unwrap().nak(Duration::ZERO).await.unwrap();
        for n in 0..3 {
            let job = cursor.next().await.unwrap();
            assert_eq!(job.value().unwrap().n, n);
            job.in_progress().await.unwrap();
            job.ack().await.unwrap();
        }
        assert_eq!(durable.info().await.unwrap().waiting, 0);
        assert!(durable.delete().await.unwrap());
        // The controls: nobody may do what only others may.
        let refused = [
            manager.append(&1, &Job { n: 1 }).await.map(drop).unwrap_err(),
            writer.read(Start::Earliest, 9, Duration::ZERO).await.map(drop).unwrap_err(),
            reader.durable(&owner()).unwrap().cursor().await.map(drop).unwrap_err(),
            agent.delete().await.map(drop).unwrap_err(),
        ];
        assert!(refused.iter().all(|error| error.kind() == ErrorKind::Forbidden), "{refused:?}");
        assert!(manager.delete().await.unwrap());
    }
}

/// A server lets go of a durable before it removes its files, which may fail: 10051 says nothing of the durable.
#[tokio::test]
async fn a_removal_that_fails_half_way_is_told_as_it_ended() {
    let server = harness::Nats::start(NatsKind::Nats215, NatsOptions::default().core_only()).await;
    let client = super::super::other(&server).await;
    let mut requests = client.subscribe("$JS.API.CONSUMER.>").await.unwrap();
    client.flush().await.unwrap();
    let failed = |code: u32, words: &str| json!({ "error": { "code": 500, "err_code": code, "description": words } });
    let answering = tokio::spawn(async move {
        let mut looks = 0;
        while let Some(request) = requests.next().await {
            let answer = if request.subject.contains(".DELETE.") {
                failed(10_051, "remove /o/m_crew: directory not empty")
            } else {
                looks += 1;
                if looks == 1 { failed(10_014, "consumer not found") } else { failed(10_008, "unavailable") }
            };
            client.publish(request.reply.unwrap(), answer.to_string().into()).await.unwrap();
        }
    });
    let broker = broker(server.url());
    let durable = Job::stream(&broker).unwrap().durable(&owner()).unwrap();
    assert!(within("it is gone", durable.delete()).await.unwrap());
    let failed = within("it may be there", durable.delete()).await.unwrap_err();
    assert_eq!((failed.kind(), failed.outcome()), (ErrorKind::Refused, Outcome::Unknown), "{failed:?}");
    answering.abort();
}
