//! What durables hand out, and how that is settled.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex};
use std::time::Duration;

use bytes::Bytes;
use tidings::backend::Memory;
use tidings::capability::{BoundDurable, Cursors, GroupAddress, Pulled, Ticket, Verdict};
use tidings::{DurableInfo, DurableSettings, ErrorKind};
use tidings_tests::twisted::{CursorTwist, Twist, TwistedDurable};
use tokio::task::yield_now;
use tokio::time::sleep;

use super::{Answer, Client, Settlements, Weak, must_fail, settled, taken};

/// The last attempt of each record, by durable.
static FENCES: LazyLock<Mutex<Fences>> = LazyLock::new(Mutex::default);

type Fences = HashMap<(Arc<str>, u128), Bytes>;

/// What was handed out and may be settled by now.
static TAKEN: Mutex<Vec<Ticket>> = Mutex::new(Vec::new());

/// Refuses what it holds unless it is taken out.
struct GivesBack(Arc<<Memory as Cursors>::Durable>, Vec<Pulled>);

impl Drop for GivesBack {
    fn drop(&mut self) {
        let refused = |pulled| match pulled {
            Pulled::Delivery(_, ticket) => Some((ticket, Verdict::Nak(Duration::ZERO))),
            Pulled::Exhausted(_) | Pulled::Trimmed { .. } => None,
        };
        let refused = std::mem::take(&mut self.1).into_iter().filter_map(refused).collect();
        let durable = self.0.clone();
        tokio::spawn(async move { durable.settle(refused).await });
    }
}

weaknesses! {
    lets_one_more_be_in_flight fails cursor_one_in_flight cursor_shared, "cursor-one-in-flight" {
        async fn ensure(client: &Client, durable: &GroupAddress, settings: &DurableSettings) -> Answer<bool> {
            Memory::ensure_durable(client, durable, &settings.clone().in_flight(settings.in_flight + 1)).await
        }
        async fn inspect(client: &Client, durable: &GroupAddress) -> Answer<DurableInfo> {
            let mut info = Memory::inspect_durable(client, durable).await?;
            info.settings.in_flight -= 1;
            Ok(info)
        }
    }
    reverses_what_it_takes fails cursor_shared, "cursor-one-in-flight" {
        async fn pull(durable: &TwistedDurable<Self>, max: usize, wait: Duration) -> Answer<Vec<Pulled>> {
            let mut pulled = durable.inner.pull(max, wait).await?;
            pulled.reverse();
            Ok(pulled)
        }
    }
    keeps_what_a_dropped_call_took fails cursor_release, "cursor-release" {
        async fn pull(durable: &TwistedDurable<Self>, max: usize, wait: Duration) -> Answer<Vec<Pulled>> {
            let pulled = durable.inner.pull(max, wait).await;
            yield_now().await;
            pulled
        }
    }
    gives_back_what_was_taken fails cursor_release, "cursor-release" {
        async fn pull(durable: &TwistedDurable<Self>, max: usize, wait: Duration) -> Answer<Vec<Pulled>> {
            taken(durable, max, wait, |pulled| {
                if let Pulled::Delivery(_, ticket) = &pulled {
                    TAKEN.lock().expect("nobody panicked with it").push(ticket.clone());
                }
                Some(pulled)
            })
            .await
        }
        async fn give_back(durable: &TwistedDurable<Self>) {
            let taken = std::mem::take(&mut *TAKEN.lock().expect("nobody panicked with it"));
            let refused = taken.into_iter().map(|ticket| (ticket, Verdict::Nak(Duration::ZERO)));
            durable.inner.settle(refused.collect()).await;
        }
    }
    counts_no_attempt fails cursor_count cursor_nak cursor_backoff, "cursor-count" {
        async fn pull(durable: &TwistedDurable<Self>, max: usize, wait: Duration) -> Answer<Vec<Pulled>> {
            taken(durable, max, wait, |mut pulled| {
                if let Pulled::Delivery(stored, _) = &mut pulled {
                    stored.attempt = 1;
                }
                Some(pulled)
            })
            .await
        }
    }
    acknowledges_what_is_refused fails cursor_count cursor_nak, "cursor-count" {
        async fn settle(durable: &TwistedDurable<Self>, settlements: Settlements) -> Vec<Answer<()>> {
            settled(durable, settlements, |verdict| {
                Some(if matches!(verdict, Verdict::Nak(_)) { Verdict::Ack } else { verdict })
            })
            .await
        }
    }
    ignores_a_delay fails cursor_nak, "cursor-count" {
        async fn settle(durable: &TwistedDurable<Self>, settlements: Settlements) -> Vec<Answer<()>> {
            settled(durable, settlements, |verdict| {
                Some(if matches!(verdict, Verdict::Nak(_)) { Verdict::Nak(Duration::ZERO) } else { verdict })
            })
            .await
        }
    }
    takes_the_ack_wait_for_a_delay fails cursor_nak, "cursor-count" {
        async fn settle(durable: &TwistedDurable<Self>, settlements: Settlements) -> Vec<Answer<()>> {
            settled(durable, settlements, |verdict| (!matches!(verdict, Verdict::Nak(_))).then_some(verdict)).await
        }
    }
    delays_for_too_long fails cursor_nak, "cursor-count" {
        async fn settle(durable: &TwistedDurable<Self>, settlements: Settlements) -> Vec<Answer<()>> {
            settled(durable, settlements, |verdict| {
                Some(if let Verdict::Nak(delay) = verdict { Verdict::Nak(delay * 3) } else { verdict })
            })
            .await
        }
    }
    does_not_hear_that_work_goes_on fails cursor_progress, "cursor-count" {
        async fn settle(durable: &TwistedDurable<Self>, settlements: Settlements) -> Vec<Answer<()>> {
            settled(durable, settlements, |verdict| (verdict != Verdict::InProgress).then_some(verdict)).await
        }
    }
    has_one_ack_wait_for_all_attempts fails cursor_backoff, "cursor-count" {
        async fn ensure(client: &Client, durable: &GroupAddress, settings: &DurableSettings) -> Answer<bool> {
            let mut settings = settings.clone();
            settings.backoff.truncate(1);
            Memory::ensure_durable(client, durable, &settings).await
        }
    }
    refuses_for_now_what_is_refused_for_ever fails cursor_term, "cursor-term" {
        async fn settle(durable: &TwistedDurable<Self>, settlements: Settlements) -> Vec<Answer<()>> {
            settled(durable, settlements, |verdict| {
                Some(if matches!(verdict, Verdict::Term(_)) { Verdict::Nak(Duration::ZERO) } else { verdict })
            })
            .await
        }
    }
    forgets_what_is_refused_for_ever fails cursor_term, "cursor-term" {
        async fn settle(durable: &TwistedDurable<Self>, settlements: Settlements) -> Vec<Answer<()>> {
            settled(durable, settlements, |verdict| (!matches!(verdict, Verdict::Term(_))).then_some(verdict)).await
        }
    }
    forgets_what_is_acknowledged fails cursor_recorded, "cursor-recorded" {
        async fn settle(durable: &TwistedDurable<Self>, settlements: Settlements) -> Vec<Answer<()>> {
            settled(durable, settlements, |verdict| (verdict != Verdict::Ack).then_some(verdict)).await
        }
    }
    answers_before_it_records fails cursor_recorded cursor_settle, "cursor-recorded" {
        async fn settle(durable: &TwistedDurable<Self>, settlements: Settlements) -> Vec<Answer<()>> {
            let (inner, count) = (durable.inner.clone(), settlements.len());
            tokio::spawn(async move {
                sleep(Duration::from_millis(10)).await;
                inner.settle(settlements).await;
            });
            (0..count).map(|_| Ok(())).collect()
        }
    }
    fences_settlements fails cursor_recorded, "cursor-recorded" {
        async fn pull(durable: &TwistedDurable<Self>, max: usize, wait: Duration) -> Answer<Vec<Pulled>> {
            taken(durable, max, wait, |mut pulled| {
                if let Pulled::Delivery(stored, ticket) = &mut pulled {
                    ticket.token = Bytes::copy_from_slice(&stored.attempt.to_be_bytes());
                    let place = (durable.name.clone(), stored.position.offset());
                    FENCES.lock().expect("nobody panicked with it").insert(place, ticket.token.clone());
                }
                Some(pulled)
            })
            .await
        }
        async fn settle(durable: &TwistedDurable<Self>, settlements: Settlements) -> Vec<Answer<()>> {
            let (own, count) = (durable.name.clone(), settlements.len());
            let is_last = |ticket: &Ticket| {
                let fences = FENCES.lock().expect("nobody panicked with it");
                fences.get(&(own.clone(), ticket.position.offset())) == Some(&ticket.token)
            };
            let last = settlements.into_iter().filter(|(ticket, _)| is_last(ticket)).collect();
            durable.inner.settle(last).await;
            (0..count).map(|_| Ok(())).collect()
        }
    }
    settles_the_wrong_one fails cursor_settle, "cursor-recorded" {
        async fn settle(durable: &TwistedDurable<Self>, settlements: Settlements) -> Vec<Answer<()>> {
            let (tickets, mut verdicts): (Vec<_>, Vec<_>) = settlements.into_iter().unzip();
            if !verdicts.is_empty() {
                verdicts.rotate_left(1);
            }
            durable.inner.settle(tickets.into_iter().zip(verdicts).collect()).await
        }
    }
    answers_for_the_first_only fails cursor_settle, "cursor-recorded" {
        async fn settle(durable: &TwistedDurable<Self>, settlements: Settlements) -> Vec<Answer<()>> {
            durable.inner.settle(settlements).await.into_iter().take(1).collect()
        }
    }
    drops_poison fails cursor_poison, "poison-in-place" {
        async fn pull(durable: &TwistedDurable<Self>, max: usize, wait: Duration) -> Answer<Vec<Pulled>> {
            let mut kept = Vec::new();
            for pulled in durable.inner.pull(max, wait).await? {
                match pulled {
                    Pulled::Delivery(stored, ticket) if !stored.record.data.starts_with(b"{") => {
                        durable.inner.settle(vec![(ticket, Verdict::Ack)]).await;
                    }
                    pulled => kept.push(pulled),
                }
            }
            Ok(kept)
        }
    }
    trims_in_silence fails cursor_trimmed, "cursor-trimmed" {
        async fn pull(durable: &TwistedDurable<Self>, max: usize, wait: Duration) -> Answer<Vec<Pulled>> {
            taken(durable, max, wait, |pulled| (!matches!(pulled, Pulled::Trimmed { .. })).then_some(pulled)).await
        }
    }
    exhausts_in_silence fails cursor_exhausted, "cursor-exhausted" {
        async fn pull(durable: &TwistedDurable<Self>, max: usize, wait: Duration) -> Answer<Vec<Pulled>> {
            taken(durable, max, wait, |pulled| (!matches!(pulled, Pulled::Exhausted(_))).then_some(pulled)).await
        }
    }
    never_exhausts fails cursor_exhausted, "cursor-exhausted" {
        async fn ensure(client: &Client, durable: &GroupAddress, settings: &DurableSettings) -> Answer<bool> {
            let mut settings = settings.clone();
            settings.max_deliver = None;
            Memory::ensure_durable(client, durable, &settings).await
        }
    }
    exhausts_one_attempt_early fails cursor_exhausted, "cursor-exhausted" {
        async fn ensure(client: &Client, durable: &GroupAddress, settings: &DurableSettings) -> Answer<bool> {
            let mut settings = settings.clone();
            settings.max_deliver = settings.max_deliver.map(|most| most - 1);
            Memory::ensure_durable(client, durable, &settings).await
        }
    }
    hangs_where_the_durable_is_gone fails cursor_lost, "cursor-lost" {
        async fn pull(durable: &TwistedDurable<Self>, max: usize, wait: Duration) -> Answer<Vec<Pulled>> {
            match durable.inner.pull(max, wait).await {
                Err(failed) if failed.kind == ErrorKind::Absent => {
                    sleep(wait).await;
                    Ok(Vec::new())
                }
                pulled => pulled,
            }
        }
    }
    settles_what_is_gone fails cursor_lost, "cursor-lost" {
        async fn settle(durable: &TwistedDurable<Self>, settlements: Settlements) -> Vec<Answer<()>> {
            settled(durable, settlements, Some).await
        }
    }
    hides_that_the_durable_was_made_anew fails cursor_made_anew, "cursor-lost" {
        async fn pull(durable: &TwistedDurable<Self>, max: usize, wait: Duration) -> Answer<Vec<Pulled>> {
            match durable.inner.pull(max, wait).await {
                Err(failed) if failed.kind == ErrorKind::Absent => durable.inner.pull(max, wait).await,
                pulled => pulled,
            }
        }
    }
    settles_for_the_durable_before fails cursor_made_anew, "cursor-lost" {
        async fn settle(durable: &TwistedDurable<Self>, settlements: Settlements) -> Vec<Answer<()>> {
            settled(durable, settlements, Some).await
        }
    }
    loses_what_a_dropped_call_took fails cursor_cancelled, "read-cancelled" {
        async fn pull(durable: &TwistedDurable<Self>, max: usize, wait: Duration) -> Answer<Vec<Pulled>> {
            let pulled = durable.inner.pull(max, wait).await;
            for _ in 0..3 {
                yield_now().await;
            }
            pulled
        }
    }
    counts_a_dropped_call fails cursor_cancelled, "read-cancelled" {
        async fn pull(durable: &TwistedDurable<Self>, max: usize, wait: Duration) -> Answer<Vec<Pulled>> {
            let pulled = durable.inner.pull(max, wait).await?;
            let mut pulled = GivesBack(durable.inner.clone(), pulled);
            for _ in 0..3 {
                yield_now().await;
            }
            Ok(std::mem::take(&mut pulled.1))
        }
    }
    repeats_what_was_confirmed fails cursor_interrupted, "stream-refused" {
        async fn settle(durable: &TwistedDurable<Self>, settlements: Settlements) -> Vec<Answer<()>> {
            settled(durable, settlements, |verdict| {
                Some(if verdict == Verdict::Ack { Verdict::Nak(Duration::from_millis(10)) } else { verdict })
            })
            .await
        }
    }
    ends_with_the_connection fails cursor_interrupted, "stream-refused" {
        async fn pull(durable: &TwistedDurable<Self>, max: usize, wait: Duration) -> Answer<Vec<Pulled>> {
            let mut pulled = durable.inner.pull(max, wait).await;
            if let Err(failed) = &mut pulled {
                failed.kind = ErrorKind::Absent;
            }
            pulled
        }
    }
}
