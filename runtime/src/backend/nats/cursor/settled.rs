//! What was settled of late. A server that is killed forgets what it confirmed in its last seconds, since it writes a
//! consumer's state behind, and hands that out again.

use std::collections::{HashMap, VecDeque};
use std::sync::Mutex;
use std::time::Duration;

use tokio::time::Instant;

use crate::broker::lock;

/// A server writes a consumer's state every few seconds; more of it is kept than that.
const KEPT: Duration = Duration::from_mins(5);
const MOST: usize = 400_000;

/// What a durable's handles of one broker have settled for good.
#[derive(Default)]
pub(super) struct Settled {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Which durable it is: one that is made anew hands out what the other had settled.
    of: Option<String>,
    /// When each was stored, by its sequence: a stream that is made anew has others there.
    stored: HashMap<u64, u64>,
    oldest: VecDeque<(u64, Instant)>,
}

impl Settled {
    /// Says whether what is known is of this durable. Otherwise it is forgotten.
    pub(super) fn is_of(&self, identity: &str) -> bool {
        let state = &mut *lock(&self.state);
        let is_same = state.of.as_deref() == Some(identity);
        if !is_same {
            *state = State { of: Some(identity.to_owned()), ..State::default() };
        }
        is_same
    }

    pub(super) fn add(&self, settled: impl IntoIterator<Item = (u64, u64)>) {
        let now = Instant::now();
        let state = &mut *lock(&self.state);
        for (sequence, stored) in settled {
            if state.stored.insert(sequence, stored).is_none() {
                state.oldest.push_back((sequence, now));
            }
        }
        let is_old = |at: Instant| now.duration_since(at) > KEPT;
        while let Some((sequence, at)) = state.oldest.front().copied()
            && (state.oldest.len() > MOST || is_old(at))
        {
            state.oldest.pop_front();
            state.stored.remove(&sequence);
        }
    }

    pub(super) fn has(&self, sequence: u64, stored: u64) -> bool {
        lock(&self.state).stored.get(&sequence) == Some(&stored)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn what_was_settled_is_known_for_a_while_and_only_that_record() {
        let settled = Settled::default();
        settled.add([(1, 100), (2, 200)]);
        assert!(settled.has(1, 100) && settled.has(2, 200));
        assert!(!settled.has(1, 101) && !settled.has(3, 100));
        tokio::time::advance(KEPT + Duration::from_secs(1)).await;
        settled.add([(3, 300)]);
        assert!(!settled.has(1, 100) && settled.has(3, 300));
        settled.add((10..10 + MOST as u64).map(|n| (n, n)));
        assert!(!settled.has(3, 300) && settled.has(10, 10));
        assert!(!settled.is_of("one") && !settled.has(10, 10));
        settled.add([(1, 100)]);
        assert!(settled.is_of("one") && settled.has(1, 100));
        assert!(!settled.is_of("another") && !settled.has(1, 100));
        settled.add((0..MOST as u64).map(|n| (n, n)));
        assert_eq!(lock(&settled.state).oldest.len(), MOST);
    }
}
