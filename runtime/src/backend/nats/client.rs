//! One broker's connections.

use std::fmt;
use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::sync::Arc;

use tokio::time::Instant;

use super::super::routes::Route;
use super::fault::Fault;
use super::link::Servers;
use super::log::Reading;
use super::pipeline::Pipeline;
use super::settings::Settings;
use super::subscriber::{NatsSubscription, Subscriber};
use crate::capability::{BackendError, Feed, Host, Outgoing};
use crate::error::{ErrorKind, Outcome};

/// A longer subject makes a line of the protocol too long, for which the server closes the connection.
pub(super) const MOST_SUBJECT_BYTES: usize = 3_500;

/// The connections of one broker, each opened when it is needed.
pub struct NatsClient {
    pub(super) host: Host,
    settings: Arc<Settings>,
    publisher: Pipeline,
    pub(super) subscriber: Arc<Subscriber>,
    /// What concerns streams, and every other question to the server.
    pub(super) streams: Arc<Pipeline>,
    pub(super) reading: Reading,
}

impl NatsClient {
    pub(super) fn new(host: Host, settings: Arc<Settings>) -> Self {
        let servers = Arc::new(Servers::new(host.random()));
        let pipeline = |name| Pipeline::new(host.clone(), settings.clone(), servers.clone(), name);
        Self {
            publisher: pipeline("tidings publisher"),
            subscriber: Arc::new(Subscriber::new(host.clone(), settings.clone(), servers.clone())),
            streams: Arc::new(pipeline("tidings streams").with_replies()),
            reading: Reading::default(),
            host,
            settings,
        }
    }

    /// When an operation that begins now has taken too long.
    pub(super) fn deadline(&self) -> Instant {
        Instant::now() + self.host.limits().timeout
    }

    pub(super) async fn publish(&self, message: &Outgoing) -> Result<(), Fault> {
        is_short(&message.channel)?;
        self.publisher.publish(message).await
    }

    pub(super) async fn publish_all(&self, messages: Vec<Outgoing>) -> Vec<Result<(), Fault>> {
        let long: Vec<_> = messages.iter().map(|message| is_short(&message.channel).err()).collect();
        if long.iter().all(Option::is_none) {
            return self.publisher.publish_all(&messages).await;
        }
        let fits = messages.into_iter().zip(&long).filter(|(_, long)| long.is_none());
        let fits: Vec<_> = fits.map(|(message, _)| message).collect();
        let mut published = self.publisher.publish_all(&fits).await.into_iter();
        long.into_iter()
            .map(|long| long.map_or_else(|| published.next().unwrap_or_else(|| Err(Fault::task_ended())), Err))
            .collect()
    }

    pub(super) async fn subscribe(&self, routes: Vec<Route>, feed: Feed) -> Result<NatsSubscription, BackendError> {
        let subscribing = async {
            for route in &routes {
                let (Route::Channel(name) | Route::Below(name)) = route;
                is_short(name)?;
            }
            Ok(self.subscriber.subscribe(routes, feed).await?)
        };
        self.host.within(Outcome::NotApplied, subscribing).await
    }

    pub(super) fn close(&self) {
        self.reading.close();
        self.publisher.close();
        self.subscriber.close();
        self.streams.close();
    }
}

/// A number that no other client has: what is named by it must not be another's, also where tests fix the randomness.
pub(super) fn unique(host: &Host) -> u64 {
    host.random() ^ RandomState::new().build_hasher().finish()
}

/// Refuses a name that no line of the protocol can hold.
pub(super) fn is_short(subject: &str) -> Result<(), Fault> {
    if subject.len() <= MOST_SUBJECT_BYTES {
        return Ok(());
    }
    let bytes = subject.len();
    let text = format!("address and key have {bytes} bytes, and NATS takes {MOST_SUBJECT_BYTES}; shorten the key");
    Err(Fault::new(ErrorKind::Invalid, Outcome::NotApplied, text))
}

impl fmt::Debug for NatsClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NatsClient").field("settings", &self.settings).finish_non_exhaustive()
    }
}
