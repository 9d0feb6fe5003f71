//! What workers over durables rely on.

use std::collections::HashSet;
use std::future::pending;
use std::sync::{Arc, LazyLock, Mutex};
use std::time::Duration;

use tidings::backend::Memory;
use tidings::capability::{BoundDurable, Cursors, GroupAddress, Log, Pulled, Ticket, Verdict};
use tidings::conformance::durable_workers;
use tidings::{DurableInfo, DurableSettings, ErrorKind, Positions, Start};
use tidings_tests::twisted::{CursorTwist, Twist, TwistedDurable};
use tokio::time::sleep;

use super::{Answer, Client, Honest, Settlements, Weak, must_fail, settled, taken};

durable_workers!(honest, Weak<Honest>);

/// The handles that were released, by where they are.
static RELEASED: LazyLock<Mutex<HashSet<usize>>> = LazyLock::new(Mutex::default);

fn place<W: CursorTwist>(durable: &TwistedDurable<W>) -> usize {
    Arc::as_ptr(&durable.inner).addr()
}

fn acks(pulled: &[Pulled]) -> Settlements {
    let ack = |pulled: &Pulled| match pulled {
        Pulled::Delivery(_, ticket) => Some((ticket.clone(), Verdict::Ack)),
        Pulled::Exhausted(_) | Pulled::Trimmed { .. } => None,
    };
    pulled.iter().filter_map(ack).collect()
}

/// The attempt of what is a delivery.
fn attempt(pulled: &Pulled) -> u32 {
    if let Pulled::Delivery(stored, _) = pulled { stored.attempt } else { 0 }
}

weaknesses! {
    reverses_what_it_takes fails durable_worker_order, "worker-order" {
        async fn pull(durable: &TwistedDurable<Self>, max: usize, wait: Duration) -> Answer<Vec<Pulled>> {
            let mut pulled = durable.inner.pull(max, wait).await?;
            pulled.reverse();
            Ok(pulled)
        }
    }
    loses_one_that_it_hands_out fails durable_worker_order, "worker-order" {
        async fn pull(durable: &TwistedDurable<Self>, max: usize, wait: Duration) -> Answer<Vec<Pulled>> {
            taken(durable, max, wait, |pulled| match pulled {
                Pulled::Delivery(stored, _) if stored.position.offset() == 7 => None,
                pulled => Some(pulled),
            })
            .await
        }
    }
    forgets_what_is_acknowledged fails durable_worker_settle, "worker-settle" {
        async fn settle(durable: &TwistedDurable<Self>, settlements: Settlements) -> Vec<Answer<()>> {
            settled(durable, settlements, |verdict| (verdict != Verdict::Ack).then_some(verdict)).await
        }
    }
    acknowledges_what_it_hands_out fails durable_worker_settle, "worker-settle" {
        async fn pull(durable: &TwistedDurable<Self>, max: usize, wait: Duration) -> Answer<Vec<Pulled>> {
            let pulled = durable.inner.pull(max, wait).await?;
            durable.inner.settle(acks(&pulled)).await;
            Ok(pulled)
        }
    }
    acknowledges_what_failed fails durable_worker_settle, "worker-settle" {
        async fn settle(durable: &TwistedDurable<Self>, settlements: Settlements) -> Vec<Answer<()>> {
            settled(durable, settlements, |verdict| {
                Some(if matches!(verdict, Verdict::Nak(_)) { Verdict::Ack } else { verdict })
            })
            .await
        }
    }
    counts_no_attempt fails durable_worker_settle, "worker-settle" {
        async fn pull(durable: &TwistedDurable<Self>, max: usize, wait: Duration) -> Answer<Vec<Pulled>> {
            taken(durable, max, wait, |pulled| Some(first_attempt(pulled))).await
        }
    }
    settles_the_wrong_one fails durable_worker_settle, "worker-settle" {
        async fn settle(durable: &TwistedDurable<Self>, settlements: Settlements) -> Vec<Answer<()>> {
            let (tickets, mut verdicts): (Vec<Ticket>, Vec<_>) = settlements.into_iter().unzip();
            if !verdicts.is_empty() {
                verdicts.rotate_left(1);
            }
            durable.inner.settle(tickets.into_iter().zip(verdicts).collect()).await
        }
    }
    drops_poison fails durable_worker_settle, "worker-settle" {
        async fn pull(durable: &TwistedDurable<Self>, max: usize, wait: Duration) -> Answer<Vec<Pulled>> {
            let is_poison = |pulled: &Pulled| match pulled {
                Pulled::Delivery(stored, _) => stored.record.data.starts_with(b"{\"riddle"),
                Pulled::Exhausted(_) | Pulled::Trimmed { .. } => false,
            };
            let pulled = durable.inner.pull(max, wait).await?;
            let (poison, kept): (Vec<_>, Vec<_>) = pulled.into_iter().partition(is_poison);
            durable.inner.settle(acks(&poison)).await;
            Ok(kept)
        }
    }
    ignores_a_delay fails durable_worker_retry, "worker-retry" {
        async fn settle(durable: &TwistedDurable<Self>, settlements: Settlements) -> Vec<Answer<()>> {
            settled(durable, settlements, |verdict| {
                Some(if matches!(verdict, Verdict::Nak(_)) { Verdict::Nak(Duration::ZERO) } else { verdict })
            })
            .await
        }
    }
    takes_the_ack_wait_for_a_delay fails durable_worker_retry, "worker-retry" {
        async fn settle(durable: &TwistedDurable<Self>, settlements: Settlements) -> Vec<Answer<()>> {
            settled(durable, settlements, |verdict| (!matches!(verdict, Verdict::Nak(_))).then_some(verdict)).await
        }
    }
    delays_for_too_long fails durable_worker_retry, "worker-retry" {
        async fn settle(durable: &TwistedDurable<Self>, settlements: Settlements) -> Vec<Answer<()>> {
            settled(durable, settlements, |verdict| {
                Some(if let Verdict::Nak(delay) = verdict { Verdict::Nak(delay * 25) } else { verdict })
            })
            .await
        }
    }
    counts_no_retry fails durable_worker_retry, "worker-retry" {
        async fn pull(durable: &TwistedDurable<Self>, max: usize, wait: Duration) -> Answer<Vec<Pulled>> {
            taken(durable, max, wait, |pulled| Some(first_attempt(pulled))).await
        }
    }
    does_not_hear_that_work_goes_on fails durable_worker_kept, "worker-settle" {
        async fn settle(durable: &TwistedDurable<Self>, settlements: Settlements) -> Vec<Answer<()>> {
            settled(durable, settlements, |verdict| (verdict != Verdict::InProgress).then_some(verdict)).await
        }
    }
    gives_nothing_back fails durable_worker_stop durable_worker_stop_bounded, "worker-stop" {
        async fn settle(durable: &TwistedDurable<Self>, settlements: Settlements) -> Vec<Answer<()>> {
            settled(durable, settlements, |verdict| (!matches!(verdict, Verdict::Nak(_))).then_some(verdict)).await
        }
    }
    acknowledges_what_is_given_back fails durable_worker_stop, "worker-stop" {
        async fn settle(durable: &TwistedDurable<Self>, settlements: Settlements) -> Vec<Answer<()>> {
            settled(durable, settlements, |verdict| {
                Some(if verdict == Verdict::Nak(Duration::ZERO) { Verdict::Ack } else { verdict })
            })
            .await
        }
    }
    loses_what_is_released fails durable_worker_stop, "worker-stop" {
        async fn give_back(durable: &TwistedDurable<Self>) {
            if let Ok(pulled) = durable.inner.pull(1_000, Duration::ZERO).await {
                durable.inner.settle(acks(&pulled)).await;
            }
        }
    }
    settles_nothing_at_a_stop fails durable_worker_stop, "worker-stop" {
        async fn give_back(durable: &TwistedDurable<Self>) {
            RELEASED.lock().expect("nobody panicked with it").insert(place(durable));
        }
        async fn settle(durable: &TwistedDurable<Self>, settlements: Settlements) -> Vec<Answer<()>> {
            let is_released = RELEASED.lock().expect("nobody panicked with it").contains(&place(durable));
            let is_ack = |verdict: &Verdict| *verdict == Verdict::Ack;
            settled(durable, settlements, |verdict| (!is_released || !is_ack(&verdict)).then_some(verdict)).await
        }
    }
    counts_nothing_of_what_was_given_back fails durable_worker_stop, "worker-stop" {
        async fn pull(durable: &TwistedDurable<Self>, max: usize, wait: Duration) -> Answer<Vec<Pulled>> {
            taken(durable, max, wait, |pulled| Some(first_attempt(pulled))).await
        }
    }
    hangs_when_it_is_released fails durable_worker_stop_bounded, "worker-stop" {
        async fn give_back(_: &TwistedDurable<Self>) {
            pending::<()>().await;
        }
    }
    hands_nothing_out_again fails durable_worker_restart, "worker-restart" {
        async fn pull(durable: &TwistedDurable<Self>, max: usize, wait: Duration) -> Answer<Vec<Pulled>> {
            taken(durable, max, wait, |pulled| (attempt(&pulled) < 2).then_some(pulled)).await
        }
    }
    counts_no_restart fails durable_worker_restart, "worker-restart" {
        async fn pull(durable: &TwistedDurable<Self>, max: usize, wait: Duration) -> Answer<Vec<Pulled>> {
            taken(durable, max, wait, |pulled| Some(first_attempt(pulled))).await
        }
    }
    hands_out_again_too_soon fails durable_worker_restart, "worker-restart" {
        async fn ensure(client: &Client, durable: &GroupAddress, settings: &DurableSettings) -> Answer<bool> {
            Memory::ensure_durable(client, durable, &settings.clone().ack_wait(Duration::from_millis(300))).await
        }
    }
    hands_out_again_what_was_settled fails durable_worker_restart, "worker-restart" {
        async fn settle(durable: &TwistedDurable<Self>, settlements: Settlements) -> Vec<Answer<()>> {
            settled(durable, settlements, |verdict| (verdict != Verdict::Ack).then_some(verdict)).await
        }
    }
    exhausts_in_silence fails durable_worker_undelivered, "worker-undelivered" {
        async fn pull(durable: &TwistedDurable<Self>, max: usize, wait: Duration) -> Answer<Vec<Pulled>> {
            taken(durable, max, wait, |pulled| (!matches!(pulled, Pulled::Exhausted(_))).then_some(pulled)).await
        }
    }
    never_exhausts fails durable_worker_undelivered, "worker-undelivered" {
        async fn ensure(client: &Client, durable: &GroupAddress, settings: &DurableSettings) -> Answer<bool> {
            let mut settings = settings.clone();
            settings.max_deliver = None;
            Memory::ensure_durable(client, durable, &settings).await
        }
    }
    exhausts_one_attempt_early fails durable_worker_undelivered, "worker-undelivered" {
        async fn ensure(client: &Client, durable: &GroupAddress, settings: &DurableSettings) -> Answer<bool> {
            let mut settings = settings.clone();
            settings.max_deliver = settings.max_deliver.map(|most| most.saturating_sub(1).max(1));
            Memory::ensure_durable(client, durable, &settings).await
        }
    }
    exhausts_what_is_kept fails durable_worker_undelivered, "worker-undelivered" {
        async fn settle(durable: &TwistedDurable<Self>, settlements: Settlements) -> Vec<Answer<()>> {
            settled(durable, settlements, |verdict| (verdict != Verdict::InProgress).then_some(verdict)).await
        }
    }
    makes_a_durable_at_the_end fails durable_worker_durable_lost, "cursor-lost" {
        async fn ensure(client: &Client, durable: &GroupAddress, settings: &DurableSettings) -> Answer<bool> {
            Memory::ensure_durable(client, durable, &settings.clone().start(Start::Latest)).await
        }
    }
    makes_a_durable_at_the_beginning fails durable_worker_durable_lost, "cursor-lost" {
        async fn ensure(client: &Client, durable: &GroupAddress, settings: &DurableSettings) -> Answer<bool> {
            Memory::ensure_durable(client, durable, &settings.clone().start(Start::Earliest)).await
        }
    }
    knows_nothing_settled fails durable_worker_durable_lost, "cursor-lost" {
        async fn inspect(client: &Client, durable: &GroupAddress) -> Answer<DurableInfo> {
            let mut info = Memory::inspect_durable(client, durable).await?;
            info.settled = Positions::new();
            Ok(info)
        }
    }
    says_settled_of_what_is_in_flight fails durable_worker_durable_lost, "cursor-lost" {
        async fn inspect(client: &Client, durable: &GroupAddress) -> Answer<DurableInfo> {
            let mut info = Memory::inspect_durable(client, durable).await?;
            info.settled = Memory::start(client, durable.stream(), &Start::Latest).await?;
            Ok(info)
        }
    }
    hides_that_the_durable_is_gone fails durable_worker_durable_lost durable_worker_stream_lost, "cursor-lost" {
        async fn pull(durable: &TwistedDurable<Self>, max: usize, wait: Duration) -> Answer<Vec<Pulled>> {
            match durable.inner.pull(max, wait).await {
                Err(failed) if failed.kind == ErrorKind::Absent => pending().await,
                pulled => pulled,
            }
        }
    }
    hides_that_the_durable_was_made_anew fails durable_worker_made_anew, "cursor-lost" {
        async fn pull(durable: &TwistedDurable<Self>, max: usize, wait: Duration) -> Answer<Vec<Pulled>> {
            match durable.inner.pull(max, wait).await {
                Err(failed) if failed.kind == ErrorKind::Absent => durable.inner.pull(max, wait).await,
                pulled => pulled,
            }
        }
    }
    hides_an_interruption fails durable_worker_gap, "worker-gap" {
        async fn pull(durable: &TwistedDurable<Self>, max: usize, wait: Duration) -> Answer<Vec<Pulled>> {
            loop {
                match durable.inner.pull(max, wait).await {
                    Err(failed) if failed.kind == ErrorKind::Unavailable => sleep(Duration::from_millis(5)).await,
                    pulled => return pulled,
                }
            }
        }
    }
    hands_out_more_than_it_is_asked_for fails durable_worker_read_ahead, "worker-read-ahead" {
        async fn pull(durable: &TwistedDurable<Self>, max: usize, wait: Duration) -> Answer<Vec<Pulled>> {
            durable.inner.pull(max * 3, wait).await
        }
    }
    has_more_in_flight_than_it_may fails durable_worker_read_ahead, "worker-read-ahead" {
        async fn ensure(client: &Client, durable: &GroupAddress, settings: &DurableSettings) -> Answer<bool> {
            Memory::ensure_durable(client, durable, &settings.clone().in_flight(settings.in_flight + 50)).await
        }
        async fn inspect(client: &Client, durable: &GroupAddress) -> Answer<DurableInfo> {
            let mut info = Memory::inspect_durable(client, durable).await?;
            info.settings.in_flight -= 50;
            Ok(info)
        }
    }
    says_that_more_may_be_in_flight fails durable_worker_held_up, "worker-bounded" {
        async fn inspect(client: &Client, durable: &GroupAddress) -> Answer<DurableInfo> {
            let mut info = Memory::inspect_durable(client, durable).await?;
            info.settings.in_flight += 1;
            Ok(info)
        }
    }
    forgets_what_a_dropped_one_acknowledged fails durable_worker_dropped, "worker-dropped" {
        async fn settle(durable: &TwistedDurable<Self>, settlements: Settlements) -> Vec<Answer<()>> {
            settled(durable, settlements, |verdict| (verdict != Verdict::Ack).then_some(verdict)).await
        }
    }
    loses_what_a_dropped_one_had fails durable_worker_dropped, "worker-dropped" {
        async fn pull(durable: &TwistedDurable<Self>, max: usize, wait: Duration) -> Answer<Vec<Pulled>> {
            taken(durable, max, wait, |pulled| (attempt(&pulled) < 2).then_some(pulled)).await
        }
    }
    retries_for_ever fails durable_worker_settings, "worker-settings" {
        async fn ensure(client: &Client, durable: &GroupAddress, settings: &DurableSettings) -> Answer<bool> {
            let mut settings = settings.clone();
            settings.max_deliver = None;
            Memory::ensure_durable(client, durable, &settings).await
        }
    }
}

fn first_attempt(mut pulled: Pulled) -> Pulled {
    if let Pulled::Delivery(stored, _) = &mut pulled {
        stored.attempt = 1;
    }
    pulled
}

#[test]
fn hangs_in_a_close() {
    struct It;
    impl Twist for It {
        type Inner = Memory;

        async fn close(_: &Client) {
            pending::<()>().await;
        }
    }
    impl CursorTwist for It {}
    must_fail("worker-close", || tidings::conformance::run(tidings::conformance::durable_worker_close::<Weak<It>>));
}
