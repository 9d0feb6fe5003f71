//! What one publish to one or eight subscriptions in memory takes, and one append and read of a page, beside serde
//! alone.
//!
//! `scripts/instructions` runs it in valgrind with two numbers of rounds and subtracts, so that only the rounds count.

#![allow(missing_docs, reason = "a program")]

mod payload;

use std::hint::black_box;
use std::process::ExitCode;
use std::time::Duration;

use tidings::backend::Memory;
use tidings::codec::{Decode as _, Encode as _, Json};
use tidings::{Broker, Config, Namespace, Start, StreamSettings};

use payload::Order;

fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    let words: Vec<_> = arguments.iter().map(String::as_str).collect();
    let (case, receivers, rounds) = match words[..] {
        [case, receivers, rounds] => (case, receivers.parse(), rounds.parse()),
        // `cargo bench` runs every bench; this one measures nothing by itself.
        [] => ("tidings", Ok(8), Ok(1)),
        _ => return usage(),
    };
    let (Ok(receivers), Ok(rounds)) = (receivers, rounds) else { return usage() };
    match case {
        "serde" => serde_alone(receivers, rounds),
        "serde-pairs" => serde_pairs(receivers, rounds),
        "codec" => codec_alone(receivers, rounds),
        "tidings" => in_runtime(published(receivers, rounds)),
        "stream" => in_runtime(appended(receivers, rounds)),
        _ => return usage(),
    }
    ExitCode::SUCCESS
}

fn usage() -> ExitCode {
    eprintln!(
        "instructions: give `serde`, `codec` or `tidings` and the number of receivers, or `serde-pairs` or `stream` and the \
         records of a page; then the number of rounds"
    );
    ExitCode::FAILURE
}

fn in_runtime(work: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
    runtime.expect("a runtime without I/O starts").block_on(work);
}

fn serde_alone(receivers: usize, rounds: usize) {
    let order = Order::new(1);
    for _ in 0..rounds {
        let bytes = serde_json::to_vec(black_box(&order)).expect("an order is encoded");
        for _ in 0..receivers {
            let received: Order = serde_json::from_slice(black_box(&bytes)).expect("an order is decoded");
            assert_eq!(black_box(&received).id(), order.id());
        }
    }
}

fn serde_pairs(page: usize, rounds: usize) {
    let order = Order::new(1);
    for _ in 0..page * rounds {
        let bytes = serde_json::to_vec(black_box(&order)).expect("an order is encoded");
        let received: Order = serde_json::from_slice(black_box(&bytes)).expect("an order is decoded");
        assert_eq!(black_box(&received).id(), order.id());
    }
}

fn codec_alone(receivers: usize, rounds: usize) {
    let order = Order::new(1);
    let mut bytes = Vec::new();
    for _ in 0..rounds {
        bytes.clear();
        Json::encode(black_box(&order), &mut bytes, 64 << 10).expect("an order is encoded");
        for _ in 0..receivers {
            let received: Order = Json::decode(black_box(&bytes)).expect("an order is decoded");
            assert_eq!(black_box(&received).id(), order.id());
        }
    }
}

async fn published(receivers: usize, rounds: usize) {
    let namespace = Namespace::new("bench", "memory").expect("two plain words");
    let broker = Broker::new(Memory::new(), Config::new(namespace)).expect("default limits");
    let topic = Order::topic(&broker).expect("the one declaration");
    let order = Order::new(1);
    let mut subscriptions = Vec::new();
    for _ in 0..receivers {
        subscriptions.push(topic.subscribe(&7).await.expect("memory subscribes"));
    }
    for _ in 0..rounds {
        topic.publish(&7, black_box(&order)).await.expect("memory publishes");
        for subscription in &mut subscriptions {
            let received = subscription.receive().await.expect("what was published arrives");
            assert_eq!(black_box(&received).id(), order.id());
        }
    }
}

async fn appended(page: usize, rounds: usize) {
    /// So that memory is used again, as for publishing.
    const KEPT: u64 = 1_024;
    let namespace = Namespace::new("bench", "memory").expect("two plain words");
    let broker = Broker::new(Memory::new(), Config::new(namespace)).expect("default limits");
    let stream = Order::stream(&broker).expect("the one declaration");
    stream.ensure(StreamSettings::new().max_len(KEPT)).await.expect("memory makes streams");
    let order = Order::new(1);
    let mut from = Start::Earliest;
    for _ in 0..rounds {
        for _ in 0..page {
            stream.append(&7, black_box(&order)).await.expect("memory appends");
        }
        let deliveries = stream.read(from, page, Duration::ZERO).await.expect("what was appended is read");
        assert_eq!(deliveries.len(), page);
        for delivery in &deliveries {
            assert_eq!(black_box(delivery.value().expect("it decodes")).id(), order.id());
        }
        from = deliveries[page - 1].position().into();
    }
}
