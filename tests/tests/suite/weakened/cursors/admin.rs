//! How durables are made, set up and begun.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex};
use std::time::Duration;

use tidings::backend::Memory;
use tidings::capability::{BoundDurable, Cursors, GroupAddress, Log, Pulled, Read, Stored, Verdict};
use tidings::{DurableInfo, DurableSettings, ErrorKind, Position, Positions, Start};
use tidings_tests::twisted::{CursorTwist, Twist, TwistedDurable};

use super::{Answer, Client, Weak, must_fail};

/// The prefix of each durable.
static PREFIXES: LazyLock<Mutex<HashMap<Arc<str>, String>>> = LazyLock::new(Mutex::default);

fn prefix_of(durable: &Arc<str>) -> String {
    PREFIXES.lock().expect("nobody panicked with it").get(durable).cloned().unwrap_or_default()
}

fn is_under(stored: &Stored, prefix: &str) -> bool {
    prefix.is_empty() || stored.record.key.as_ref().is_some_and(|key| key.starts_with(prefix.as_bytes()))
}

weaknesses! {
    makes_a_durable_when_it_binds fails cursor_bind_only cursor_owners, "cursor-bind-only" {
        async fn inspect(client: &Client, durable: &GroupAddress) -> Answer<DurableInfo> {
            drop(Memory::ensure_durable(client, durable, &DurableSettings::new()).await);
            Memory::inspect_durable(client, durable).await
        }
    }
    makes_a_durable_when_it_updates fails cursor_bind_only, "cursor-bind-only" {
        async fn update(client: &Client, durable: &GroupAddress, settings: &DurableSettings) -> Answer<()> {
            drop(Memory::ensure_durable(client, durable, settings).await);
            Memory::update_durable(client, durable, settings).await
        }
    }
    moves_a_durable_that_is_there fails cursor_ensure, "cursor-ensure" {
        async fn ensure(client: &Client, durable: &GroupAddress, settings: &DurableSettings) -> Answer<bool> {
            let there = !Memory::ensure_durable(client, durable, settings).await?;
            if there {
                Memory::delete_durable(client, durable).await?;
                Memory::ensure_durable(client, durable, settings).await?;
            }
            Ok(!there)
        }
    }
    says_that_it_created_what_was_there fails cursor_ensure, "cursor-ensure" {
        async fn ensure(client: &Client, durable: &GroupAddress, settings: &DurableSettings) -> Answer<bool> {
            Memory::ensure_durable(client, durable, settings).await?;
            Ok(true)
        }
    }
    accepts_other_settings fails cursor_ensure, "cursor-ensure" {
        async fn ensure(client: &Client, durable: &GroupAddress, settings: &DurableSettings) -> Answer<bool> {
            match Memory::ensure_durable(client, durable, settings).await {
                Err(failed) if failed.kind == ErrorKind::Conflict => Ok(false),
                ensured => ensured,
            }
        }
    }
    updates_nothing fails cursor_update, "cursor-update" {
        async fn update(_: &Client, _: &GroupAddress, _: &DurableSettings) -> Answer<()> {
            Ok(())
        }
    }
    forgets_what_is_unsettled_when_it_updates fails cursor_update, "cursor-update" {
        async fn update(client: &Client, durable: &GroupAddress, settings: &DurableSettings) -> Answer<()> {
            // Everything that was handed out counts as settled.
            let info = Memory::inspect_durable(client, durable).await?;
            let settled = info.settled.get(0).map_or(0, Position::offset);
            let handed_out = Position::new(0, settled + u128::from(info.in_flight));
            Memory::delete_durable(client, durable).await?;
            let start = Start::After(Positions::from(handed_out));
            Memory::ensure_durable(client, durable, &settings.clone().start(start)).await.map(drop)
        }
    }
    hands_out_anew_when_it_updates fails cursor_update, "cursor-update" {
        async fn update(client: &Client, durable: &GroupAddress, settings: &DurableSettings) -> Answer<()> {
            let info = Memory::inspect_durable(client, durable).await?;
            Memory::delete_durable(client, durable).await?;
            let settings = settings.clone().start(Start::After(info.settled));
            Memory::ensure_durable(client, durable, &settings).await.map(drop)
        }
    }
    counts_what_is_in_flight_as_settled fails cursor_info, "cursor-info" {
        async fn inspect(client: &Client, durable: &GroupAddress) -> Answer<DurableInfo> {
            let mut info = Memory::inspect_durable(client, durable).await?;
            info.in_flight = 0;
            Ok(info)
        }
    }
    counts_what_is_in_flight_as_waiting fails cursor_info, "cursor-info" {
        async fn inspect(client: &Client, durable: &GroupAddress) -> Answer<DurableInfo> {
            let mut info = Memory::inspect_durable(client, durable).await?;
            info.waiting += info.in_flight;
            Ok(info)
        }
    }
    ignores_the_start fails cursor_starts, "cursor-starts" {
        async fn ensure(client: &Client, durable: &GroupAddress, settings: &DurableSettings) -> Answer<bool> {
            Memory::ensure_durable(client, durable, &settings.clone().start(Start::Earliest)).await
        }
    }
    begins_at_the_end_whatever_the_start fails cursor_starts, "cursor-starts" {
        async fn ensure(client: &Client, durable: &GroupAddress, settings: &DurableSettings) -> Answer<bool> {
            Memory::ensure_durable(client, durable, &settings.clone().start(Start::Latest)).await
        }
    }
    matches_a_prefix_without_what_joins_it fails cursor_prefix, "cursor-prefix" {
        async fn ensure(client: &Client, durable: &GroupAddress, settings: &DurableSettings) -> Answer<bool> {
            let prefix = settings.prefix.clone().unwrap_or_default();
            PREFIXES.lock().expect("nobody panicked with it").insert(durable.name().clone(), prefix);
            let mut settings = settings.clone();
            settings.prefix = None;
            Memory::ensure_durable(client, durable, &settings).await
        }
        async fn inspect(client: &Client, durable: &GroupAddress) -> Answer<DurableInfo> {
            let mut info = Memory::inspect_durable(client, durable).await?;
            let prefix = prefix_of(durable.name());
            let all = Memory::read(client, durable.stream(), &Positions::new(), 100, Duration::ZERO).await?;
            if let (Read::Records(records), false) = (all, prefix.is_empty()) {
                let whole = format!("{prefix}.");
                let under = |stored: &&Stored| is_under(stored, &whole);
                info.waiting = records.iter().filter(under).count() as u64;
                info.settings.prefix = Some(prefix);
            }
            Ok(info)
        }
        async fn pull(durable: &TwistedDurable<Self>, max: usize, wait: Duration) -> Answer<Vec<Pulled>> {
            let prefix = prefix_of(&durable.name);
            loop {
                let mut kept = durable.inner.pull(max, wait).await?;
                let Some(Pulled::Delivery(stored, ticket)) = kept.first() else { return Ok(kept) };
                if is_under(stored, &prefix) {
                    return Ok(kept);
                }
                durable.inner.settle(vec![(ticket.clone(), Verdict::Ack)]).await;
                kept.clear();
            }
        }
    }
}
