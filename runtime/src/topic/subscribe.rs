use std::future::Future;
use std::sync::{Arc, Mutex, Weak};
use std::task::{Context, Waker};

use super::feed::{FeedLimits, Inbox, feed};
use super::{KeyedSubscription, Subscription, Topic};
use crate::broker::{Broker, End, Entry, Tracked, lock};
use crate::call::Call;
use crate::capability::{Backend, BackendError, Feed, PatternPubSub, PubSub, Unsubscribe};
use crate::codec::Decode;
use crate::declaration::TopicSpec;
use crate::error::{Cause, Error, ErrorKind, Operation, Outcome};
use crate::key::{PrefixOf, TopicKey};
use crate::telemetry;

impl<T: TopicSpec, B: PubSub> Topic<T, B> {
    /// Subscribes to one key. When it returns, the server has confirmed it.
    ///
    /// Where the connection carries the channel already, for another subscription, the first messages may be ones that
    /// were published just before.
    ///
    /// # Errors
    ///
    /// `Overloaded` at once when every subscription is taken, `Invalid` for a key over its limit, `Timeout`,
    /// `Unavailable`, `Refused`, `Forbidden`, `Closed`. Nothing is left behind.
    ///
    /// # Cancel safety
    ///
    /// Dropped before it is ready, nothing is left behind and no other subscription is harmed.
    pub fn subscribe<'a>(&'a self, key: &T::Key) -> Call<'a, Subscription<T, B>>
    where
        T::Codec: Decode<T>,
    {
        let channel = self.channel(Operation::Subscribe, |to| key.write(to));
        Call::new(async move { self.subscribe_channel(channel?).await })
    }

    pub(super) async fn subscribe_channel(&self, channel: String) -> Result<Subscription<T, B>, Error> {
        let channels = vec![channel.into()];
        let active = self.set_up(false, |client, feed| B::subscribe(client, channels, feed)).await?;
        Ok(Subscription::new(self.clone(), active))
    }

    /// Subscribes to several keys at once; events come with their keys, in order of arrival.
    ///
    /// # Errors
    ///
    /// `Invalid` when two keys encode alike or there are more than `channels`; otherwise as [`subscribe`](Self::subscribe).
    ///
    /// # Cancel safety
    ///
    /// As [`subscribe`](Self::subscribe).
    pub fn subscribe_keys<'a, 'k>(
        &'a self,
        first: &T::Key,
        rest: impl IntoIterator<Item = &'k T::Key>,
    ) -> Call<'a, KeyedSubscription<T, B>>
    where
        T::Key: 'k,
        T::Codec: Decode<T>,
    {
        let channels = self.channels(first, rest);
        Call::new(async move { self.subscribe_channels(channels?).await })
    }

    pub(super) async fn subscribe_channels(&self, channels: Vec<Arc<str>>) -> Result<KeyedSubscription<T, B>, Error> {
        let active = self.set_up(true, |client, feed| B::subscribe(client, channels, feed)).await?;
        Ok(KeyedSubscription::new(self.clone(), active))
    }

    /// Subscribes to every key of the topic; events come with their keys.
    ///
    /// On a topic with key `()` this is its one channel.
    ///
    /// # Errors
    ///
    /// As [`subscribe`](Self::subscribe).
    ///
    /// # Cancel safety
    ///
    /// As [`subscribe`](Self::subscribe).
    pub fn subscribe_all(&self) -> Call<'_, KeyedSubscription<T, B>>
    where
        B: PatternPubSub,
        T::Codec: Decode<T>,
    {
        Call::new(self.subscribe_below(self.bound.address.clone()))
    }

    /// Subscribes to every key that starts with these parts; events come with their keys.
    ///
    /// # Errors
    ///
    /// As [`subscribe`](Self::subscribe).
    ///
    /// # Cancel safety
    ///
    /// As [`subscribe`](Self::subscribe).
    // By value, so that a tuple of parts can be written in place.
    #[allow(clippy::needless_pass_by_value)]
    pub fn subscribe_under<P>(&self, prefix: P) -> Call<'_, KeyedSubscription<T, B>>
    where
        B: PatternPubSub,
        P: PrefixOf<<T::Key as TopicKey>::Parts>,
        T::Codec: Decode<T>,
    {
        let prefix = self.channel(Operation::Subscribe, |to| prefix.write_prefix(to));
        Call::new(async move { self.subscribe_below(prefix?.into()).await })
    }

    pub(super) async fn subscribe_below(&self, prefix: Arc<str>) -> Result<KeyedSubscription<T, B>, Error>
    where
        B: PatternPubSub,
    {
        let active = if has_segments::<T::Key>() {
            self.set_up(true, |client, feed| B::subscribe_under(client, prefix, feed)).await?
        } else {
            self.set_up(true, |client, feed| B::subscribe(client, vec![prefix], feed)).await?
        };
        Ok(KeyedSubscription::new(self.clone(), active))
    }

    async fn set_up<'a, F>(
        &'a self,
        keyed: bool,
        subscribe: impl FnOnce(&'a B::Client, Feed) -> F + Send,
    ) -> Result<Active<B>, Error>
    where
        F: Future<Output = Result<B::Subscription, BackendError>> + Send,
    {
        let inner = &*self.broker.inner;
        let error = |kind| self.error(kind, Operation::Subscribe);
        let set_up = async move {
            let most = inner.host.limits().subscriptions;
            let shared = inner.host.shared();
            let name = format!("subscription to `{}`", self.bound.declaration);
            let entry = shared.tracker.enter_subscription(name, most).ok_or_else(|| {
                error(ErrorKind::Overloaded)
                    .detail(format!("all {most} subscriptions are taken; raise `subscriptions`"))
            })?;
            let _place = shared.admit().await.map_err(error)?;
            let limits = self.limits_with(&self.options);
            let (feed, inbox) = feed(FeedLimits {
                messages: limits.buffer_messages,
                bytes: limits.buffer_bytes,
                one: limits.receive_bytes,
                keyed,
            });
            // A set-up that is cut short was asked for and is undone, so nothing of it remains.
            let held = inner.host.within(Outcome::NotApplied, subscribe(&inner.client, feed.clone())).await;
            let held = held.map_err(|failed| {
                Error::of_backend(failed, Operation::Subscribe).about(self.bound.declaration, inner.system)
            })?;
            entry.becomes(Tracked::Live);
            let held = Arc::new(Held { feed, rest: Mutex::new(Some((held, entry))) });
            let ended: Weak<dyn End> = Arc::downgrade(&(held.clone() as Arc<dyn End>));
            inner.register(ended);
            if inner.host.is_closing() {
                held.end();
                return Err(error(ErrorKind::Closed));
            }
            Ok(Active { inbox, held, broker: self.broker.clone() })
        };
        telemetry::subscribe(self.bound.declaration, inner.system, set_up).await
    }
}

impl<T: TopicSpec, B: Backend> Topic<T, B> {
    pub(super) fn channels<'k>(
        &self,
        first: &T::Key,
        rest: impl IntoIterator<Item = &'k T::Key>,
    ) -> Result<Vec<Arc<str>>, Error>
    where
        T::Key: 'k,
    {
        let most = self.broker.limits().channels;
        let invalid = |detail: String| self.error(ErrorKind::Invalid, Operation::Subscribe).detail(detail);
        let mut channels: Vec<Arc<str>> = vec![self.channel(Operation::Subscribe, |to| first.write(to))?.into()];
        for key in rest {
            if channels.len() == most {
                return Err(invalid(format!("more than {most} keys; raise `channels` or subscribe in several")));
            }
            channels.push(self.channel(Operation::Subscribe, |to| key.write(to))?.into());
        }
        let mut sorted: Vec<&str> = channels.iter().map(|channel| &**channel).collect();
        sorted.sort_unstable();
        if sorted.windows(2).any(|pair| pair[0] == pair[1]) {
            return Err(invalid("two keys are the same; give each once".to_owned()));
        }
        Ok(channels)
    }
}

/// Whether keys of this type have segments at all. Only a type without parts has none.
fn has_segments<K: TopicKey>() -> bool {
    // `()` and unit structs are the types whose `Parts` are `()`.
    typeid::of::<K::Parts>() != typeid::of::<()>()
}

/// What broker and subscription hold together: whichever lets go first takes the rest.
struct Held<S> {
    feed: Feed,
    rest: Mutex<Option<(S, Entry)>>,
}

impl<S: Unsubscribe> End for Held<S> {
    fn end(&self) {
        self.feed.end(Cause::Closed);
        let rest = lock(&self.rest).take();
        drop(rest);
    }
}

/// One live subscription.
pub(super) struct Active<B: PubSub> {
    pub(super) inbox: Inbox,
    held: Arc<Held<B::Subscription>>,
    broker: Broker<B>,
}

impl<B: PubSub> Active<B> {
    /// Unsubscribes and returns when the server has confirmed it or the connection is gone.
    pub(super) async fn close(self) {
        if let Some((held, entry)) = self.let_go() {
            held.close().await;
            drop(entry);
        }
    }

    fn let_go(&self) -> Option<(B::Subscription, Entry)> {
        self.held.feed.end(Cause::Closed);
        let rest = lock(&self.held.rest).take();
        if let Some((_, entry)) = &rest {
            entry.becomes(Tracked::Draining);
        }
        rest
    }
}

impl<B: PubSub> Drop for Active<B> {
    fn drop(&mut self) {
        let Some((held, entry)) = self.let_go() else { return };
        let mut closing = Box::pin(async move {
            held.close().await;
            drop(entry);
        });
        // Most backends unsubscribe without waiting; only the others need a task, and a runtime to run it.
        let pending = closing.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending();
        if pending && tokio::runtime::Handle::try_current().is_ok() {
            self.broker.inner.host.spawn("unsubscribe", closing);
        }
    }
}
