//! What this process has lately found, made or removed: the servers hear of it one after the other, and any may be asked.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rdkafka::types::RDKafkaErrorCode as Code;
use tokio::time::Instant;

use super::super::fault::Fault;
use crate::broker::lock;
use crate::error::ErrorKind;

/// So long a server may not have heard of it.
const HEARD: Duration = Duration::from_secs(5);
/// Of so many topics it is kept.
const MOST: usize = 1_024;

/// Topics of which it was lately certain whether they are there.
#[derive(Default)]
pub(in super::super) struct Recent {
    topics: Mutex<HashMap<Arc<str>, (bool, Instant)>>,
}

impl Recent {
    /// Notes that a topic is there, or that it isn't any more.
    pub(super) fn note(&self, topic: &Arc<str>, there: bool) {
        let mut topics = lock(&self.topics);
        if topics.len() >= MOST {
            topics.retain(|_, (_, since)| since.elapsed() < HEARD);
        }
        if topics.len() < MOST || topics.contains_key(topic) {
            topics.insert(topic.clone(), (there, Instant::now()));
        }
    }

    /// Whether a server that doesn't know the topic may not have heard of it yet.
    pub(in super::super) fn is_made(&self, topic: &str) -> bool {
        self.is_known(topic, true)
    }

    /// Whether a server said that a topic isn't there, or led by nobody, which it may not have heard of yet.
    pub(in super::super) fn is_unheard(&self, topic: &str, fault: &Fault) -> bool {
        let unled = matches!(fault.code, Some(Code::LeaderNotAvailable | Code::NotLeaderForPartition));
        (fault.kind == ErrorKind::Absent || unled) && self.is_made(topic)
    }

    /// Whether a server that knows the topic may not have heard of its end yet.
    pub(super) fn is_removed(&self, topic: &str) -> bool {
        self.is_known(topic, false)
    }

    fn is_known(&self, topic: &str, wanted: bool) -> bool {
        let mut topics = lock(&self.topics);
        match topics.get(topic) {
            Some((there, since)) if since.elapsed() < HEARD => *there == wanted,
            Some(_) => {
                topics.remove(topic);
                false
            }
            None => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn what_was_noted_last_holds_for_a_while_and_of_so_many() {
        let (recent, topic) = (Recent::default(), Arc::from("one"));
        assert!(!recent.is_made("one") && !recent.is_removed("one"));
        recent.note(&topic, true);
        assert!(recent.is_made("one") && !recent.is_removed("one"));
        recent.note(&topic, false);
        assert!(!recent.is_made("one") && recent.is_removed("one"));
        for number in 0..2 * MOST {
            recent.note(&number.to_string().into(), true);
        }
        assert_eq!(lock(&recent.topics).len(), MOST);
        tokio::time::advance(HEARD).await;
        assert!(!recent.is_removed("one"));
        recent.note(&Arc::from("two"), true);
        recent.note(&Arc::from("three"), true);
        assert_eq!(lock(&recent.topics).len(), 2);
    }
}
