//! What was settled of late. A server that is killed forgets what it confirmed in its last seconds, since it writes a
//! consumer's state behind, and hands that out again.

use std::collections::{HashMap, VecDeque};
use std::sync::Mutex;
use std::time::Duration;

use tokio::time::Instant;

use super::handle::{Place, place};
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
    /// By its sequence, when each was stored, since a stream that is made anew has others there, and as which delivery it
    /// came.
    settled: HashMap<u64, (u64, u64)>,
    oldest: VecDeque<(u64, Instant)>,
    /// The address of one of them.
    like: Box<[u8]>,
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

    /// Adds what is settled for good, by the addresses of its deliveries.
    pub(super) fn add<'a>(&self, settled: impl IntoIterator<Item = &'a [u8]>) {
        let now = Instant::now();
        let state = &mut *lock(&self.state);
        for address in settled {
            let Some(Place { sequence, stored, delivery, .. }) = place(address) else { continue };
            if state.settled.insert(sequence, (stored, delivery)).is_none() {
                state.oldest.push_back((sequence, now));
            }
            if state.like.is_empty() {
                state.like = address.into();
            }
        }
        let is_old = |at: Instant| now.duration_since(at) > KEPT;
        while let Some((sequence, at)) = state.oldest.front().copied()
            && (state.oldest.len() > MOST || is_old(at))
        {
            state.oldest.pop_front();
            state.settled.remove(&sequence);
        }
    }

    pub(super) fn has(&self, sequence: u64, stored: u64) -> bool {
        lock(&self.state).settled.get(&sequence).is_some_and(|(its, _)| *its == stored)
    }

    /// The addresses of those behind a sequence, up to another.
    pub(super) fn between(&self, after: u64, last: u64) -> Vec<String> {
        let state = lock(&self.state);
        let one = |(sequence, (stored, delivery)): (&u64, &(u64, u64))| {
            let place = Place { sequence: *sequence, delivery: *delivery, attempt: 1, stored: *stored };
            place.address(&state.like)
        };
        let between = state.settled.iter().filter(|(sequence, _)| (after + 1..=last).contains(sequence));
        between.filter_map(one).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn add(settled: &Settled, numbers: impl IntoIterator<Item = (u64, u64)>) {
        let address =
            |(sequence, stored)| format!("$JS.ACK.s.m_x.2.{sequence}.{}.{stored}.7", sequence + 1).into_bytes();
        let addresses: Vec<_> = numbers.into_iter().map(address).collect();
        settled.add(addresses.iter().map(|address| &address[..]));
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_settled_is_known_for_a_while_and_only_that_record() {
        let settled = Settled::default();
        add(&settled, [(1, 100), (2, 200)]);
        assert!(settled.has(1, 100) && settled.has(2, 200));
        assert!(!settled.has(1, 101) && !settled.has(3, 100));
        tokio::time::advance(KEPT + Duration::from_secs(1)).await;
        add(&settled, [(3, 300)]);
        assert!(!settled.has(1, 100) && settled.has(3, 300));
        add(&settled, (10..10 + MOST as u64).map(|n| (n, n)));
        assert!(!settled.has(3, 300) && settled.has(10, 10));
        assert!(!settled.is_of("one") && !settled.has(10, 10));
        add(&settled, [(1, 100)]);
        assert!(settled.is_of("one") && settled.has(1, 100));
        assert!(!settled.is_of("another") && !settled.has(1, 100));
        add(&settled, (0..MOST as u64).map(|n| (n, n)));
        assert_eq!(lock(&settled.state).oldest.len(), MOST);
    }

    #[test]
    fn what_a_server_may_have_forgotten_has_its_address() {
        let settled = Settled::default();
        assert_eq!(settled.between(0, u64::MAX), Vec::<String>::new());
        add(&settled, (1..=9).map(|n| (n, n * 100)));
        let mut between = settled.between(3, 5);
        between.sort_unstable();
        assert_eq!(between, ["$JS.ACK.s.m_x.1.4.5.400.7", "$JS.ACK.s.m_x.1.5.6.500.7"]);
    }
}
