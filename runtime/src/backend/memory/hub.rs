use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;

use super::unavailable;
use crate::capability::{BackendError, Feed, Outgoing};

/// Who is subscribed to what. One lock around it gives the total order.
#[derive(Debug, Default)]
pub(super) struct Hub {
    pub(super) refuse: bool,
    next: u64,
    channels: HashMap<Arc<str>, Vec<(u64, Feed)>, BuildHasherDefault<ChannelHasher>>,
    prefixes: Vec<(u64, Arc<str>, Feed)>,
    /// The channels of each subscription; none for one to a prefix.
    subscribed: HashMap<u64, Vec<Arc<str>>>,
}

impl Hub {
    pub(super) fn reachable(&self) -> Result<(), BackendError> {
        if self.refuse { Err(unavailable()) } else { Ok(()) }
    }

    pub(super) fn publish(&mut self, message: Outgoing) -> Result<u64, BackendError> {
        self.reachable()?;
        let Outgoing { channel, mut payload } = message;
        let mut heard = 0;
        let mut ended = false;
        if let Some((name, feeds)) = self.channels.get_key_value(channel.as_str()) {
            for (place, (_, feed)) in feeds.iter().enumerate() {
                let is_last = place + 1 == feeds.len() && self.prefixes.is_empty();
                // The last one gets the payload itself: where there is one feed, the bytes are never shared.
                let payload = if is_last { std::mem::take(&mut payload) } else { payload.clone() };
                match feed.push(name, payload) {
                    Ok(()) => heard += 1,
                    Err(_) => ended = true,
                }
            }
        }
        if !self.prefixes.is_empty() {
            let name: Arc<str> = channel.into();
            for (_, prefix, feed) in &self.prefixes {
                if name.strip_prefix(&**prefix).is_some_and(|key| key.starts_with('.')) {
                    match feed.push(&name, payload.clone()) {
                        Ok(()) => heard += 1,
                        Err(_) => ended = true,
                    }
                }
            }
        }
        if ended {
            self.let_go_of_ended();
        }
        Ok(heard)
    }

    pub(super) fn subscribe(&mut self, channels: Vec<Arc<str>>, feed: &Feed) -> Result<u64, BackendError> {
        self.reachable()?;
        let id = self.take_id();
        for channel in &channels {
            self.channels.entry(channel.clone()).or_default().push((id, feed.clone()));
        }
        self.subscribed.insert(id, channels);
        Ok(id)
    }

    pub(super) fn subscribe_under(&mut self, prefix: Arc<str>, feed: Feed) -> Result<u64, BackendError> {
        self.reachable()?;
        let id = self.take_id();
        self.prefixes.push((id, prefix, feed));
        self.subscribed.insert(id, Vec::new());
        Ok(id)
    }

    /// Removes a subscription and returns its feeds, to be dropped outside of the lock.
    pub(super) fn remove(&mut self, id: u64) -> Vec<Feed> {
        let mut removed = Vec::new();
        for channel in self.subscribed.remove(&id).unwrap_or_default() {
            if let Some(feeds) = self.channels.get_mut(&channel) {
                removed.extend(feeds.extract_if(.., |(holder, _)| *holder == id).map(|(_, feed)| feed));
                if feeds.is_empty() {
                    self.channels.remove(&channel);
                }
            }
        }
        removed.extend(self.prefixes.extract_if(.., |(holder, ..)| *holder == id).map(|(.., feed)| feed));
        removed
    }

    /// Removes every subscription and returns their feeds.
    pub(super) fn clear(&mut self) -> Vec<Feed> {
        self.subscribed.clear();
        let exact = self.channels.drain().flat_map(|(_, feeds)| feeds).map(|(_, feed)| feed);
        exact.chain(self.prefixes.drain(..).map(|(.., feed)| feed)).collect()
    }

    #[cold]
    fn let_go_of_ended(&mut self) {
        self.channels.retain(|_, feeds| {
            feeds.retain(|(_, feed)| !feed.is_ended());
            !feeds.is_empty()
        });
        self.prefixes.retain(|(.., feed)| !feed.is_ended());
    }

    fn take_id(&mut self) -> u64 {
        self.next += 1;
        self.next
    }
}

/// Hashes channels in a few instructions. They are the process's own subscriptions, which nobody has a reason to make
/// collide.
#[derive(Clone, Copy, Debug, Default)]
struct ChannelHasher(u64);

impl ChannelHasher {
    fn add(&mut self, word: u64) {
        const ODD: u64 = 0xf135_7aea_2e62_a9c5;
        // Both halves of the product, so that each bit of the word reaches all of the hash.
        let (low, high) = (self.0 ^ word).carrying_mul(ODD, 0);
        self.0 = low ^ high;
    }
}

impl Hasher for ChannelHasher {
    fn write(&mut self, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks::<8>();
        for word in words {
            self.add(u64::from_le_bytes(*word));
        }
        self.add(rest.iter().fold(0, |word, byte| word << 8 | u64::from(*byte)));
    }

    /// Leaves out the mark behind a text, since only whole texts are hashed.
    fn write_u8(&mut self, _: u8) {}

    fn finish(&self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::hash::BuildHasher;

    use super::*;

    #[test]
    fn channels_of_one_topic_spread_over_a_table() {
        const PLACES: u64 = 4_096;
        let hashes = BuildHasherDefault::<ChannelHasher>::default();
        for channel in ["a.b.topic.orders.v1.", "a.b.topic.positions.v12.eu-west.", "a.b.topic.c.v1.%C3%A9."] {
            let hash = |key: u64| hashes.hash_one(format!("{channel}{key}"));
            // A fair hash takes 63 % of the places, and all of the 128 tags.
            let taken: HashSet<_> = (0..PLACES).map(|key| hash(key) % PLACES).collect();
            assert!(taken.len() > 2_200, "{channel}: {}", taken.len());
            let tags: HashSet<_> = (0..PLACES).map(|key| hash(key) >> 57).collect();
            assert!(tags.len() > 120, "{channel}: {}", tags.len());
        }
    }
}
