//! Appending to and reading from a stream in memory, on one thread, by that thread's CPU time.

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use tidings::backend::Memory;
use tidings::{Broker, Config, Delivery, Namespace, Position, Start, Stop, Stream, StreamSettings};
use tokio::runtime::Runtime;
use tokio::time::timeout;

use crate::measure::{ROUND, Way, print_over, take_turns, thread_time};
use crate::payload::Order;

/// The kernel counts a thread's time in steps of 4 ms: 20 ns a record of this many.
const RECORDS: u32 = 204_800;
/// Records that are appended before they are read, which are a page.
const PAGE: u32 = 256;
/// Records that the stream keeps, so that rounds don't measure how the kernel gives memory, nor a cache's size.
const KEPT: u64 = 512;

pub(crate) fn run() -> Result<(), String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().map_err(|e| e.to_string())?;
    let rows = take_turns(
        RECORDS,
        None,
        vec![
            Way::new("append and read", || in_time(&runtime, appended_and_read(Some(KEPT)))),
            Way::new("append and tail", || in_time(&runtime, appended_and_tailed())),
            Way::new("append and read, all is kept", || in_time(&runtime, appended_and_read(None))),
            Way::new("append, a consumer reads and acks", || in_time(&runtime, consumed())),
            Way::new("append, a worker", || in_time(&runtime, worked())),
            Way::new("serde_json alone", serde_alone),
        ],
    )?;
    // What a record may take over serde alone, in nanoseconds.
    let most = [Some(300.0), Some(300.0), None, None, None];
    print_over("memory, a struct of ten fields, in pages of 256", &rows, &most);
    Ok(())
}

fn in_time(runtime: &Runtime, round: impl Future<Output = Result<Duration, String>>) -> Result<Duration, String> {
    runtime.block_on(async { timeout(ROUND, round).await.unwrap_or_else(|_| Err("the round timed out".to_owned())) })
}

fn shown(error: impl std::fmt::Display) -> String {
    error.to_string()
}

fn same(received: &Order, number: u32) -> Result<(), String> {
    if received.id() == u64::from(number) { Ok(()) } else { Err(format!("record {number} was lost or came twice")) }
}

fn same_delivery(delivery: &Delivery<Order>, number: u32) -> Result<(), String> {
    same(black_box(delivery.value().map_err(shown)?), number)
}

async fn stream(kept: Option<u64>) -> Result<Stream<Order, Memory>, String> {
    let namespace = Namespace::new("bench", "memory").map_err(shown)?;
    let broker = Broker::new(Memory::new(), Config::new(namespace)).map_err(shown)?;
    let stream = Order::stream(&broker).map_err(shown)?;
    let settings = StreamSettings::new();
    stream.ensure(kept.map_or(settings.clone(), |kept| settings.max_len(kept))).await.map_err(shown)?;
    Ok(stream)
}

/// Appends a page.
async fn append(stream: &Stream<Order, Memory>, order: &mut Order, first: u32) -> Result<(), String> {
    for number in first..first + PAGE {
        order.renumber(u64::from(number));
        stream.append(&7, black_box(order)).await.map_err(shown)?;
    }
    Ok(())
}

async fn appended_and_read(kept: Option<u64>) -> Result<Duration, String> {
    let stream = stream(kept).await?;
    let mut order = Order::new(0);
    let mut at: Option<Position> = None;
    let start = thread_time();
    for first in (0..RECORDS).step_by(PAGE as usize) {
        append(&stream, &mut order, first).await?;
        let from = at.map_or(Start::Earliest, Start::from);
        let mut number = first;
        for delivery in stream.read(from, PAGE as usize, Duration::ZERO).await.map_err(shown)? {
            same_delivery(&delivery, number)?;
            at = Some(delivery.position());
            number += 1;
        }
        complete(number, first)?;
    }
    Ok(thread_time().saturating_sub(start))
}

fn complete(number: u32, first: u32) -> Result<(), String> {
    if number == first + PAGE { Ok(()) } else { Err(format!("the page ended before record {number}")) }
}

async fn appended_and_tailed() -> Result<Duration, String> {
    let stream = stream(Some(KEPT)).await?;
    let mut reader = stream.tail(Start::Earliest);
    let mut order = Order::new(0);
    let start = thread_time();
    for first in (0..RECORDS).step_by(PAGE as usize) {
        append(&stream, &mut order, first).await?;
        for number in first..first + PAGE {
            same_delivery(&reader.receive().await.map_err(shown)?, number)?;
        }
    }
    Ok(thread_time().saturating_sub(start))
}

async fn consumed() -> Result<Duration, String> {
    let stream = stream(Some(KEPT)).await?;
    let group = stream.ack_group("bench").map_err(shown)?;
    group.ensure(Start::Earliest).await.map_err(shown)?;
    let consumer = group.consumer("one").map_err(shown)?;
    let mut order = Order::new(0);
    let start = thread_time();
    for first in (0..RECORDS).step_by(PAGE as usize) {
        append(&stream, &mut order, first).await?;
        let mut number = first;
        let deliveries = consumer.read(PAGE as usize, Duration::ZERO).await.map_err(shown)?;
        for delivery in &deliveries {
            same_delivery(delivery, number)?;
            number += 1;
        }
        complete(number, first)?;
        let acknowledged = consumer.ack(deliveries.iter().map(Delivery::position)).await.map_err(shown)?;
        if acknowledged != u64::from(PAGE) {
            return Err(format!("{acknowledged} of a page were acknowledged"));
        }
    }
    let took = thread_time().saturating_sub(start);
    let pending = group.depth().await.map_err(shown)?.pending;
    if pending == 0 { Ok(took) } else { Err(format!("{pending} records are still pending")) }
}

async fn worked() -> Result<Duration, String> {
    let stream = stream(None).await?;
    let group = stream.ack_group("bench").map_err(shown)?;
    group.ensure(Start::Earliest).await.map_err(shown)?;
    let stop = Stop::new();
    let next = Arc::new(AtomicU32::new(0));
    let worker = group.worker("one").with((next.clone(), stop.clone())).until(&stop);
    let mut order = Order::new(0);
    let start = thread_time();
    let appending = async {
        for first in (0..RECORDS).step_by(PAGE as usize) {
            append(&stream, &mut order, first).await?;
        }
        Ok::<_, String>(())
    };
    let working = worker.run(async |delivery, (next, stop): (Arc<AtomicU32>, Stop)| {
        let number = next.fetch_add(1, Ordering::Relaxed);
        same_delivery(&delivery, number)?;
        if number + 1 == RECORDS {
            stop.stop();
        }
        Ok(())
    });
    let (appended, ended) = tokio::join!(appending, working);
    appended?;
    ended.map_err(shown)?;
    let took = thread_time().saturating_sub(start);
    let pending = group.depth().await.map_err(shown)?.pending;
    if pending == 0 { Ok(took) } else { Err(format!("{pending} records are still pending")) }
}

fn serde_alone() -> Result<Duration, String> {
    let mut order = Order::new(0);
    let start = thread_time();
    for number in 0..RECORDS {
        order.renumber(u64::from(number));
        let bytes = serde_json::to_vec(black_box(&order)).map_err(shown)?;
        same(black_box(&serde_json::from_slice(black_box(&bytes)).map_err(shown)?), number)?;
    }
    Ok(thread_time().saturating_sub(start))
}
