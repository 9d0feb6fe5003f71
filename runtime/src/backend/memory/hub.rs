use std::collections::HashMap;
use std::sync::Arc;

use super::unavailable;
use crate::capability::{BackendError, Feed, Outgoing};

/// Who is subscribed to what. One lock around it gives the total order.
#[derive(Debug, Default)]
pub(super) struct Hub {
    pub(super) refuse: bool,
    next: u64,
    channels: HashMap<Arc<str>, Vec<(u64, Feed)>>,
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
        let Outgoing { channel, payload } = message;
        let mut heard = 0;
        let mut ended = false;
        if let Some((name, feeds)) = self.channels.get_key_value(channel.as_str()) {
            for (_, feed) in feeds {
                match feed.push(name, payload.clone()) {
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
