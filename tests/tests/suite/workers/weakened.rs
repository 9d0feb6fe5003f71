//! The test of the tests: a backend that breaks a promise which workers rely on fails the property of that name.

use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use tidings::ErrorKind;
use tidings::backend::Memory;
use tidings::capability::{AckGroups, Backend, BackendError, GroupAddress, Log, Read, Stored, Taken};
use tidings::conformance::{self, Subject, workers};
use tidings::{Position, Positions, Start};
use tidings_tests::twisted::{Twist, Twisted};

type Client = <Memory as Backend>::Client;

/// Memory with a flaw, as a subject.
struct Weak<W> {
    memory: Memory,
    flaw: PhantomData<fn() -> W>,
}

/// A twist that is a flaw.
trait Flaw: Twist<Inner = Memory> {
    const HIDES_INTERRUPTIONS: bool = false;
}

impl<W: Flaw> Subject for Weak<W> {
    type Backend = Twisted<W>;

    const PAUSED: bool = true;

    async fn start() -> Self {
        Self { memory: Memory::new(), flaw: PhantomData }
    }

    fn backend(&self) -> Twisted<W> {
        Twisted(self.memory.clone())
    }

    async fn interrupt(&self) {
        if !W::HIDES_INTERRUPTIONS {
            self.memory.disconnect();
        }
    }

    async fn refuse(&self, refuse: bool) {
        self.memory.refuse(refuse);
    }
}

struct Honest;

impl Twist for Honest {
    type Inner = Memory;
}

impl Flaw for Honest {}

workers!(honest, Weak<Honest>);

/// Runs a property that must panic with the sentence that it tests.
fn must_fail(sentence: &str, property: impl FnOnce()) {
    let Err(panic) = catch_unwind(AssertUnwindSafe(property)) else { panic!("`{sentence}` let the weakness pass") };
    let text = panic.downcast_ref::<String>().cloned();
    let text = text.or_else(|| panic.downcast_ref::<&str>().map(ToString::to_string)).unwrap_or_default();
    assert!(text.starts_with(&format!("{sentence}: ")), "failed by `{text}`, not by `{sentence}`");
}

macro_rules! weaknesses {
    ($($(#[hides = $hides:literal])? $name:ident fails $property:ident, $sentence:literal { $($twist:item)* })+) => {
        $(
            #[test]
            fn $name() {
                struct It;
                impl Twist for It {
                    type Inner = Memory;
                    $($twist)*
                }
                impl Flaw for It {
                    $(const HIDES_INTERRUPTIONS: bool = $hides;)?
                }
                must_fail($sentence, || conformance::run(conformance::$property::<Weak<It>>));
            }
        )+
    };
}

type Answer<T> = Result<T, BackendError>;

fn records(read: Read) -> Vec<Stored> {
    match read {
        Read::Records(records) => records,
        Read::Trimmed { first, .. } => panic!("what was before {first} was removed"),
    }
}

weaknesses! {
    reorders_what_it_reads fails worker_order, "worker-order" {
        async fn read_new(client: &Client, group: &GroupAddress, consumer: &str, max: usize, wait: Duration) -> Answer<Read> {
            let mut records = records(Memory::read_new(client, group, consumer, max, wait).await?);
            records.reverse();
            Ok(Read::Records(records))
        }
    }
    delivers_twice fails worker_order, "worker-order" {
        async fn read_new(client: &Client, group: &GroupAddress, consumer: &str, max: usize, wait: Duration) -> Answer<Read> {
            let records = records(Memory::read_new(client, group, consumer, max, wait).await?);
            Ok(Read::Records(records.iter().chain(records.last()).cloned().collect()))
        }
    }
    reads_more_than_it_is_asked_for fails worker_read_ahead, "worker-read-ahead" {
        async fn read_new(client: &Client, group: &GroupAddress, consumer: &str, max: usize, wait: Duration) -> Answer<Read> {
            Memory::read_new(client, group, consumer, max * 3, wait).await
        }
    }
    acknowledges_what_it_reads fails worker_settle, "worker-settle" {
        async fn read_new(client: &Client, group: &GroupAddress, consumer: &str, max: usize, wait: Duration) -> Answer<Read> {
            let records = records(Memory::read_new(client, group, consumer, max, wait).await?);
            let positions: Vec<_> = records.iter().map(|stored| stored.position).collect();
            Memory::ack(client, group, &positions).await?;
            Ok(Read::Records(records))
        }
    }
    acknowledges_nothing fails worker_settle, "worker-settle" {
        async fn ack(_: &Client, _: &GroupAddress, positions: &[Position]) -> Answer<u64> {
            Ok(positions.len() as u64)
        }
    }
    acknowledges_all_before_as_well fails worker_settle, "worker-settle" {
        async fn ack(client: &Client, group: &GroupAddress, positions: &[Position]) -> Answer<u64> {
            let last = positions.iter().map(|position| position.offset()).max().unwrap_or_default();
            let all: Vec<_> = (1..=last).map(|offset| Position::new(0, offset)).collect();
            Memory::ack(client, group, &all).await
        }
    }
    extends_nothing fails worker_kept, "worker-settle" {
        async fn extend(_: &Client, _: &GroupAddress, _: &str, positions: &[Position]) -> Answer<Vec<Position>> {
            Ok(positions.to_vec())
        }
    }
    says_that_nothing_is_kept fails worker_kept, "worker-settle" {
        async fn extend(client: &Client, group: &GroupAddress, consumer: &str, positions: &[Position]) -> Answer<Vec<Position>> {
            Memory::extend(client, group, consumer, positions).await.map(|_| Vec::new())
        }
    }
    releases_nothing fails worker_stop, "worker-stop" {
        async fn release(_: &Client, _: &GroupAddress, _: &str, _: &[Position]) -> Answer<()> {
            Ok(())
        }
    }
    releases_the_first_only fails worker_stop, "worker-stop" {
        async fn release(client: &Client, group: &GroupAddress, consumer: &str, positions: &[Position]) -> Answer<()> {
            Memory::release(client, group, consumer, &positions[..positions.len().min(1)]).await
        }
    }
    loses_what_is_released fails worker_stop, "worker-stop" {
        async fn release(client: &Client, group: &GroupAddress, _: &str, positions: &[Position]) -> Answer<()> {
            Memory::ack(client, group, positions).await.map(drop)
        }
    }
    keeps_what_a_dropped_handler_had fails worker_stop_bounded, "worker-stop" {
        async fn release(_: &Client, _: &GroupAddress, _: &str, _: &[Position]) -> Answer<()> {
            Ok(())
        }
    }
    forgets_the_history fails worker_restart, "worker-restart" {
        async fn history(client: &Client, group: &GroupAddress, consumer: &str, after: Option<Position>, max: usize) -> Answer<Taken> {
            Memory::history(client, group, consumer, after, max).await.map(|_| Taken::default())
        }
    }
    has_a_history_of_one_page fails worker_restart, "worker-restart" {
        async fn history(client: &Client, group: &GroupAddress, consumer: &str, after: Option<Position>, max: usize) -> Answer<Taken> {
            if after.is_some() {
                return Ok(Taken::default());
            }
            Memory::history(client, group, consumer, after, max).await
        }
    }
    counts_no_redelivery fails worker_restart, "worker-restart" {
        async fn history(client: &Client, group: &GroupAddress, consumer: &str, after: Option<Position>, max: usize) -> Answer<Taken> {
            let mut taken = Memory::history(client, group, consumer, after, max).await?;
            taken.records.iter_mut().for_each(|stored| stored.attempt = 1);
            Ok(taken)
        }
    }
    claims_nothing fails worker_claim, "worker-claim" {
        async fn claim(_: &Client, _: &GroupAddress, _: &str, _: Duration, _: usize) -> Answer<Taken> {
            Ok(Taken::default())
        }
    }
    claims_what_is_not_idle fails worker_claim, "worker-claim" {
        async fn claim(client: &Client, group: &GroupAddress, consumer: &str, _: Duration, max: usize) -> Answer<Taken> {
            Memory::claim(client, group, consumer, Duration::ZERO, max).await
        }
    }
    claims_without_counting fails worker_claim, "worker-claim" {
        async fn claim(client: &Client, group: &GroupAddress, consumer: &str, idle: Duration, max: usize) -> Answer<Taken> {
            let mut taken = Memory::claim(client, group, consumer, idle, max).await?;
            taken.records.iter_mut().for_each(|stored| stored.attempt -= 1);
            Ok(taken)
        }
    }
    hides_what_was_removed_unread fails worker_trimmed, "read-after" {
        async fn read_new(client: &Client, group: &GroupAddress, consumer: &str, max: usize, wait: Duration) -> Answer<Read> {
            match Memory::read_new(client, group, consumer, max, wait).await {
                Ok(Read::Trimmed { .. }) => Memory::read_new(client, group, consumer, max, wait).await,
                read => read,
            }
        }
    }
    hides_what_is_gone fails worker_lost, "worker-claim" {
        async fn claim(client: &Client, group: &GroupAddress, consumer: &str, idle: Duration, max: usize) -> Answer<Taken> {
            let taken = Memory::claim(client, group, consumer, idle, max).await?;
            Ok(Taken { lost: Vec::new(), ..taken })
        }
    }
    makes_a_group_at_the_end fails worker_group_lost, "ack-group-lost" {
        async fn ensure_group(client: &Client, group: &GroupAddress, _: &Start) -> Answer<bool> {
            Memory::ensure_group(client, group, &Start::Latest).await
        }
    }
    makes_a_group_at_the_beginning fails worker_group_lost, "ack-group-lost" {
        async fn ensure_group(client: &Client, group: &GroupAddress, _: &Start) -> Answer<bool> {
            Memory::ensure_group(client, group, &Start::Earliest).await
        }
    }
    knows_nothing_settled fails worker_group_lost, "ack-group-lost" {
        async fn settled(_: &Client, _: &GroupAddress) -> Answer<Positions> {
            Ok(Positions::new())
        }
    }
    says_settled_of_what_is_pending fails worker_group_lost, "ack-group-lost" {
        async fn settled(client: &Client, group: &GroupAddress) -> Answer<Positions> {
            Memory::start(client, group.stream(), &Start::Latest).await
        }
    }
    hides_a_lost_group fails worker_group_lost, "ack-group-lost" {
        async fn read_new(client: &Client, group: &GroupAddress, consumer: &str, max: usize, wait: Duration) -> Answer<Read> {
            match Memory::read_new(client, group, consumer, max, wait).await {
                Err(failed) if failed.kind == ErrorKind::Absent => std::future::pending().await,
                read => read,
            }
        }
    }
    hides_a_lost_stream fails worker_stream_lost, "ack-group-lost" {
        async fn read_new(client: &Client, group: &GroupAddress, consumer: &str, max: usize, wait: Duration) -> Answer<Read> {
            match Memory::read_new(client, group, consumer, max, wait).await {
                Err(failed) if failed.kind == ErrorKind::Absent => std::future::pending().await,
                read => read,
            }
        }
    }
    #[hides = true]
    hides_an_interruption fails worker_gap, "worker-gap" {}
    hangs_in_close fails worker_close, "worker-close" {
        async fn close(_: &Client) {
            std::future::pending::<()>().await;
        }
    }
}
