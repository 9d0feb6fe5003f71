//! One publish to one or eight subscriptions in memory, on one thread, by that thread's CPU time.

use std::hint::black_box;
use std::time::Duration;

use bytes::Bytes;
use tidings::backend::Memory;
use tidings::{Broker, Config, Namespace};
use tokio::runtime::Runtime;
use tokio::sync::broadcast;
use tokio::time::timeout;

use crate::measure::{ROUND, Way, print, take_turns, thread_time};
use crate::payload::Order;

/// The kernel counts a thread's time in steps of 4 ms: 8 ns a message of this many.
const MESSAGES: u32 = 500_000;
/// The channel of the twin holds as many as the subscriptions' default.
const BUFFER: usize = 64;

pub(crate) fn run() -> Result<(), String> {
    // What a delivery may take over serde alone, in nanoseconds.
    for (receivers, most) in [(1, 100.0), (8, 50.0)] {
        fan_out(receivers, most)?;
    }
    Ok(())
}

fn fan_out(receivers: u32, most: f64) -> Result<(), String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().map_err(|e| e.to_string())?;
    let rows = take_turns(
        MESSAGES * receivers,
        None,
        vec![
            Way::new("tidings", || in_time(&runtime, tidings(receivers))),
            Way::new("tokio broadcast and serde_json", || in_time(&runtime, channel(receivers))),
            Way::new("serde_json alone", || Ok(serde_alone(receivers))),
        ],
    )?;
    let (serde, contenders) = rows.split_last().ok_or("no rows")?;
    print(&format!("memory, 1→{receivers}, a struct of ten fields"), contenders, 0.9);
    let over = contenders[0].median() - serde.median();
    let verdict = if over <= most { "holds" } else { "missed" };
    println!(
        "  serde_json alone {:.1} ns; tidings takes {over:.1} ns more; at most {most:.0}: {verdict}",
        serde.median()
    );
    Ok(())
}

fn in_time(runtime: &Runtime, round: impl Future<Output = Result<Duration, String>>) -> Result<Duration, String> {
    runtime.block_on(async { timeout(ROUND, round).await.unwrap_or_else(|_| Err("the round timed out".to_owned())) })
}

fn same(received: &Order, number: u32) -> Result<(), String> {
    if received.id() == u64::from(number) { Ok(()) } else { Err(format!("message {number} was lost")) }
}

async fn tidings(receivers: u32) -> Result<Duration, String> {
    let text = |error: tidings::Error| error.to_string();
    let namespace = Namespace::new("bench", "memory").map_err(|error| error.to_string())?;
    let broker = Broker::new(Memory::new(), Config::new(namespace)).map_err(text)?;
    let topic = Order::topic(&broker).map_err(text)?;
    let mut subscriptions = Vec::new();
    for _ in 0..receivers {
        subscriptions.push(topic.subscribe(&7).await.map_err(text)?);
    }
    let mut order = Order::new(0);
    let start = thread_time();
    for number in 0..MESSAGES {
        order.renumber(u64::from(number));
        topic.publish(&7, black_box(&order)).await.map_err(text)?;
        for subscription in &mut subscriptions {
            same(black_box(&subscription.receive().await.map_err(text)?), number)?;
        }
    }
    Ok(thread_time().saturating_sub(start))
}

async fn channel(receivers: u32) -> Result<Duration, String> {
    let (sender, first) = broadcast::channel::<Bytes>(BUFFER);
    let mut subscriptions = vec![first];
    subscriptions.extend((1..receivers).map(|_| sender.subscribe()));
    let mut order = Order::new(0);
    let start = thread_time();
    for number in 0..MESSAGES {
        order.renumber(u64::from(number));
        let bytes = serde_json::to_vec(black_box(&order)).map_err(|error| error.to_string())?;
        sender.send(bytes.into()).map_err(|error| error.to_string())?;
        for subscription in &mut subscriptions {
            let bytes = subscription.recv().await.map_err(|error| error.to_string())?;
            same(black_box(&serde_json::from_slice(&bytes).map_err(|error| error.to_string())?), number)?;
        }
    }
    Ok(thread_time().saturating_sub(start))
}

fn serde_alone(receivers: u32) -> Duration {
    let mut order = Order::new(0);
    let start = thread_time();
    for number in 0..MESSAGES {
        order.renumber(u64::from(number));
        let bytes = serde_json::to_vec(black_box(&order)).expect("an order is encoded");
        for _ in 0..receivers {
            let received: Order = serde_json::from_slice(black_box(&bytes)).expect("an order is decoded");
            black_box(received);
        }
    }
    thread_time().saturating_sub(start)
}
