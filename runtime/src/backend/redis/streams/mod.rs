//! Streams: records as entries of Redis streams, one for each partition.

pub(super) mod append;
pub(super) mod check;
pub(super) mod group;
pub(super) mod inspect;
mod layout;
pub(super) mod manage;
mod node;
pub(super) mod read;
mod readers;
mod record;
mod scripts;
mod send;
pub(super) mod settle;

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::OwnedSemaphorePermit;
use tokio::time::timeout;

use super::fault::Fault;
use super::link::pack;
use super::pipeline::Packed;
use crate::capability::StreamAddress;
use crate::error::{ErrorKind, Outcome};
use crate::stream::{Durability, Position};

use layout::{Layout, Part, millis};
pub(super) use node::{Node, Nodes, Waiting};
pub(super) use send::join;

/// Packs a command: its name, which may be two words, and what follows.
fn packed(word: &'static str, rest: &[&str]) -> Packed {
    let words: Vec<&[u8]> = word.split(' ').chain(rest.iter().copied()).map(str::as_bytes).collect();
    let mut bytes = Vec::new();
    pack(&mut bytes, words.into_iter());
    Packed { word, bytes }
}

/// An entry's id as the server has it.
fn id_text(position: Position) -> String {
    let (high, low) = position.halves();
    format!("{high}-{low}")
}

/// Partitions that can be waited for at once on a cluster, where each needs a connection of its own. Where there are more,
/// all of them are looked at every so often.
const MOST_APART: usize = 16;
const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// A node, and the partitions that one command can name there.
type Place<'a> = (Arc<Node>, Vec<&'a Part>);

/// Where partitions are that one command can name. On a cluster that is one at a time, whatever node it is on.
async fn places<'a, N: Nodes>(nodes: &N, parts: impl Iterator<Item = &'a Part>) -> Result<Vec<Place<'a>>, Fault> {
    let mut places: Vec<Place<'a>> = Vec::new();
    for part in parts {
        let node = match nodes.known(part.slot)? {
            Some(node) => node,
            None => nodes.owner(part.slot).await?,
        };
        match places.first_mut().filter(|_| !N::APART) {
            Some((_, parts)) => parts.push(part),
            None => places.push((node, vec![part])),
        }
    }
    Ok(places)
}

/// The partitions that are waited for next, and for how many milliseconds.
fn waited<N: Nodes>(layout: &Layout, turn: usize, block: u64) -> (impl Iterator<Item = &Part>, u64) {
    let all = layout.parts.len();
    let (count, block) =
        if N::APART && all > MOST_APART { (MOST_APART, block.min(millis(LOOK_AGAIN))) } else { (all, block) };
    (layout.parts.iter().cycle().skip(turn % all).take(count), block)
}

/// Held by all connections of a read.
type Permit = Arc<OwnedSemaphorePermit>;

/// A place among the reads that have a connection of their own.
async fn permit<N: Nodes>(nodes: &N, waits: bool) -> Result<Permit, Fault> {
    let places = nodes.waiting();
    if waits {
        return places.waiting.clone().try_acquire_owned().map(Arc::new).map_err(|_| {
            let text = "as many reads as `subscriptions` wait already; raise it, or wait in fewer places";
            Fault::new(ErrorKind::Overloaded, Outcome::NotApplied, text)
        });
    }
    let place = timeout(nodes.host().limits().timeout, places.quick.clone().acquire_owned()).await;
    place.ok().and_then(Result::ok).map(Arc::new).ok_or_else(|| Fault::timeout(Outcome::NotApplied))
}

/// The place of a read that waits, which it keeps from one wait of the server to the next.
async fn keep_place<N: Nodes>(nodes: &N, place: &mut Option<Permit>) -> Result<Permit, Fault> {
    let held = match place.take() {
        Some(held) => held,
        None => permit(nodes, true).await?,
    };
    Ok(place.insert(held).clone())
}

/// What is wrong with an address or a durability, without I/O.
pub(super) fn admits(stream: &StreamAddress, durability: Durability) -> Result<(), String> {
    const MOST_BYTES: usize = 512;
    let text = stream.text();
    if stream.is_verbatim() {
        if text.is_empty() || text.len() > MOST_BYTES {
            return Err(format!("the address has {} bytes; give 1 to {MOST_BYTES}", text.len()));
        }
        if text.chars().any(|letter| matches!(letter, '{' | '}') || letter.is_whitespace() || letter.is_control()) {
            return Err("the address holds `{`, `}`, white space or a control character; take another key".to_owned());
        }
    }
    match durability {
        Durability::Primary | Durability::Replicas(_) | Durability::Fsync => Ok(()),
    }
}

/// Implements the capabilities of streams for a backend whose client is [`Nodes`].
///
/// Each operation's future is in a box, so that it doesn't make its caller's large, but an append's, which is small.
macro_rules! streams {
    ($backend:ty, $client:ty, $failed:path) => {
        const _: () = {
            use std::time::Duration;

            use crate::backend::redis::streams::{append, group, inspect, manage, read, settle};
            use crate::capability::{
                AckGroups, BackendError, Dedup, GroupAddress, Log, Read, Record, StreamAddress, Taken,
            };
            use crate::error::Outcome;
            use crate::stream::{Depth, Durability, PendingEntry, Position, Positions, Receipt, Start, StreamSettings};

            impl Log for $backend {
                fn admits(_: &$client, stream: &StreamAddress, durability: Durability) -> Result<(), String> {
                    crate::backend::redis::streams::admits(stream, durability)
                }

                async fn ensure(
                    client: &$client,
                    stream: &StreamAddress,
                    settings: &StreamSettings,
                ) -> Result<(), BackendError> {
                    let ensuring = Box::pin(async { manage::ensure(client, stream, settings).await.map_err($failed) });
                    client.host.within(Outcome::Unknown, ensuring).await
                }

                async fn delete(client: &$client, stream: &StreamAddress) -> Result<bool, BackendError> {
                    let deleting = Box::pin(async { manage::delete(client, stream).await.map_err($failed) });
                    client.host.within(Outcome::Unknown, deleting).await
                }

                async fn append(
                    client: &$client,
                    stream: &StreamAddress,
                    record: Record,
                    durability: Durability,
                ) -> Result<Receipt, BackendError> {
                    append::append(client, stream, record, durability).await.map_err($failed)
                }

                async fn append_all(
                    client: &$client,
                    stream: &StreamAddress,
                    records: Vec<Record>,
                    durability: Durability,
                ) -> Vec<Result<Receipt, BackendError>> {
                    let receipts = Box::pin(append::append_all(client, stream, &records, durability)).await;
                    receipts.into_iter().map(|receipt| receipt.map_err($failed)).collect()
                }

                async fn start(
                    client: &$client,
                    stream: &StreamAddress,
                    start: &Start,
                ) -> Result<Positions, BackendError> {
                    let starting = Box::pin(async { manage::start(client, stream, start).await.map_err($failed) });
                    client.host.within(Outcome::NotApplied, starting).await
                }

                async fn read(
                    client: &$client,
                    stream: &StreamAddress,
                    after: &Positions,
                    max: usize,
                    wait: Duration,
                ) -> Result<Read, BackendError> {
                    Box::pin(read::read(client, stream, after, max, wait)).await.map_err($failed)
                }
            }

            impl Dedup for $backend {
                async fn window(client: &$client, stream: &StreamAddress) -> Result<Duration, BackendError> {
                    let asking = Box::pin(async { manage::window(client, stream).await.map_err($failed) });
                    client.host.within(Outcome::NotApplied, asking).await
                }
            }

            impl AckGroups for $backend {
                async fn ensure_group(
                    client: &$client,
                    group: &GroupAddress,
                    start: &Start,
                ) -> Result<bool, BackendError> {
                    let ensuring = Box::pin(async { group::ensure_group(client, group, start).await.map_err($failed) });
                    client.host.within(Outcome::Unknown, ensuring).await
                }

                async fn delete_group(client: &$client, group: &GroupAddress) -> Result<bool, BackendError> {
                    let deleting = Box::pin(async { group::delete_group(client, group).await.map_err($failed) });
                    client.host.within(Outcome::Unknown, deleting).await
                }

                async fn read_new(
                    client: &$client,
                    group: &GroupAddress,
                    consumer: &str,
                    max: usize,
                    wait: Duration,
                ) -> Result<Read, BackendError> {
                    Box::pin(group::read_new(client, group, consumer, max, wait)).await.map_err($failed)
                }

                async fn history(
                    client: &$client,
                    group: &GroupAddress,
                    consumer: &str,
                    after: Option<Position>,
                    max: usize,
                ) -> Result<Taken, BackendError> {
                    let reading =
                        Box::pin(async { settle::history(client, group, consumer, after, max).await.map_err($failed) });
                    client.host.within(Outcome::Unknown, reading).await
                }

                async fn ack(
                    client: &$client,
                    group: &GroupAddress,
                    positions: &[Position],
                ) -> Result<u64, BackendError> {
                    Box::pin(settle::ack(client, group, positions)).await.map_err($failed)
                }

                async fn claim(
                    client: &$client,
                    group: &GroupAddress,
                    consumer: &str,
                    idle: Duration,
                    max: usize,
                ) -> Result<Taken, BackendError> {
                    let claiming =
                        Box::pin(async { settle::claim(client, group, consumer, idle, max).await.map_err($failed) });
                    client.host.within(Outcome::Unknown, claiming).await
                }

                async fn extend(
                    client: &$client,
                    group: &GroupAddress,
                    consumer: &str,
                    positions: &[Position],
                ) -> Result<Vec<Position>, BackendError> {
                    let extending =
                        Box::pin(async { settle::extend(client, group, consumer, positions).await.map_err($failed) });
                    client.host.within(Outcome::Unknown, extending).await
                }

                async fn release(
                    client: &$client,
                    group: &GroupAddress,
                    consumer: &str,
                    positions: &[Position],
                ) -> Result<(), BackendError> {
                    let releasing =
                        Box::pin(async { settle::release(client, group, consumer, positions).await.map_err($failed) });
                    client.host.within(Outcome::Unknown, releasing).await
                }

                async fn pending(
                    client: &$client,
                    group: &GroupAddress,
                    after: Option<Position>,
                    max: usize,
                ) -> Result<Vec<PendingEntry>, BackendError> {
                    let listing =
                        Box::pin(async { inspect::pending(client, group, after, max).await.map_err($failed) });
                    client.host.within(Outcome::NotApplied, listing).await
                }

                async fn depth(client: &$client, group: &GroupAddress) -> Result<Depth, BackendError> {
                    let counting = Box::pin(async { inspect::depth(client, group).await.map_err($failed) });
                    client.host.within(Outcome::NotApplied, counting).await
                }

                async fn settled(client: &$client, group: &GroupAddress) -> Result<Positions, BackendError> {
                    let asking = Box::pin(async { inspect::settled(client, group).await.map_err($failed) });
                    client.host.within(Outcome::NotApplied, asking).await
                }

                async fn trim_acknowledged(client: &$client, stream: &StreamAddress) -> Result<u64, BackendError> {
                    let trimming = Box::pin(async { manage::trim_acknowledged(client, stream).await.map_err($failed) });
                    client.host.within(Outcome::Unknown, trimming).await
                }

                async fn remove_consumer(
                    client: &$client,
                    group: &GroupAddress,
                    consumer: &str,
                    heir: Option<&str>,
                ) -> Result<u64, BackendError> {
                    let removing = Box::pin(async {
                        manage::remove_consumer(client, group, consumer, heir).await.map_err($failed)
                    });
                    client.host.within(Outcome::Unknown, removing).await
                }
            }
        };
    };
}
pub(super) use streams;
