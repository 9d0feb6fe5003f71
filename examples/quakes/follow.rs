//! The followers: supervised subscriptions that catch up from the journal when they are told of a gap.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tidings::capability::PatternPubSub;
use tidings::{Ended, Error, Gap, KeyedTopic, SelfKeyed, Stop, SupervisePolicy};

use crate::journal::Journal;
use crate::quake::{Band, QuakeReported, QuakeReportedKey};

/// What a follower listens to.
#[derive(Clone, Debug)]
pub(crate) enum Interest {
    /// One key: a network's events of one band.
    Key(QuakeReportedKey),
    /// A key prefix: everything of one network.
    Network(&'static str),
    /// Every key.
    Everything,
}

impl Interest {
    /// One of each form.
    pub(crate) fn all() -> [Self; 3] {
        let key = QuakeReportedKey { network: "us".to_owned(), band: Band::Moderate };
        [Self::Key(key), Self::Network("ak"), Self::Everything]
    }

    /// A word for it.
    pub(crate) fn short(&self) -> &str {
        match self {
            Self::Key(_) => "key",
            Self::Network(network) => network,
            Self::Everything => "all",
        }
    }

    fn covers(&self, quake: &QuakeReported) -> bool {
        match self {
            Self::Key(key) => quake.topic_key() == *key,
            Self::Network(network) => quake.network == *network,
            Self::Everything => true,
        }
    }
}

impl fmt::Display for Interest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Key(key) => write!(f, "key ({}, {:?})", key.network, key.band),
            Self::Network(network) => write!(f, "keys under ({network},)"),
            Self::Everything => f.write_str("every key"),
        }
    }
}

/// One follower. Clones are the same one: the supervision hands a clone to every call of its callbacks.
#[derive(Clone, Debug)]
pub(crate) struct Follower {
    pub(crate) interest: Interest,
    journal: Journal,
    seen: Arc<Mutex<Seen>>,
}

/// What a follower has.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seen {
    /// Its events in order, however it got them.
    pub(crate) quakes: Vec<QuakeReported>,
    /// How many of them it read from the journal after a gap.
    pub(crate) reread: usize,
    /// The gaps that it was told.
    pub(crate) gaps: Vec<Gap>,
    /// Up to here, exclusive, the journal has been read. What comes from before that by subscription is known already.
    known_to: u64,
}

impl Follower {
    pub(crate) fn new(interest: Interest, journal: Journal) -> Self {
        Self { interest, journal, seen: Arc::default() }
    }

    pub(crate) fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Says whether it has the last event that the journal holds for it.
    pub(crate) fn is_caught_up(&self) -> bool {
        let last = self.seen().quakes.last().map(|quake| quake.sequence);
        last == self.journal.last(|quake| self.interest.covers(quake))
    }

    /// Follows until the token is pulled, the broker closes, or a callback fails.
    pub(crate) async fn follow<B: PatternPubSub>(
        self,
        topic: KeyedTopic<QuakeReported, B>,
        stop: Stop,
    ) -> Result<Ended, Error> {
        let policy = SupervisePolicy::default();
        let gap = async |gap, follower: Self| {
            follower.catch_up(gap);
            Ok(())
        };
        // A subscription to one key gives events, one to several gives keys and events.
        let keyed = async |(key, quake): (QuakeReportedKey, QuakeReported), follower: Self| {
            if key != quake.topic_key() {
                return Err(format!("event `{}` came under another key than its own", quake.id).into());
            }
            follower.hear(quake);
            Ok(())
        };
        match self.interest.clone() {
            Interest::Key(key) => {
                let hear = async |quake, follower: Self| {
                    follower.hear(quake);
                    Ok(())
                };
                topic.supervise(&key, policy).with(self).until(&stop).run(hear, gap).await
            }
            Interest::Network(network) => {
                topic.supervise_under((network,), policy).with(self).until(&stop).run(keyed, gap).await
            }
            Interest::Everything => topic.supervise_all(policy).with(self).until(&stop).run(keyed, gap).await,
        }
    }

    /// Takes one event from the subscription.
    fn hear(&self, quake: QuakeReported) {
        let mut seen = self.seen();
        if quake.sequence >= seen.known_to {
            seen.quakes.push(quake);
        }
    }

    /// Closes a gap from the journal.
    ///
    /// The new subscription is ready by now, so nothing falls between: what was published before is read here, what is
    /// published from now on comes by subscription, and what does both is told apart by its sequence.
    fn catch_up(&self, gap: Gap) {
        let mut seen = self.seen();
        let next = seen.quakes.last().map_or(0, |quake| quake.sequence + 1);
        let (new, end) = self.journal.since(next);
        let before = seen.quakes.len();
        seen.quakes.extend(new.into_iter().filter(|quake| self.interest.covers(quake)));
        seen.reread += seen.quakes.len() - before;
        seen.known_to = end;
        seen.gaps.push(gap);
    }
}
