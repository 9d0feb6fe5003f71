use std::convert::Infallible;
use std::sync::Arc;

use tidings::capability::{BackendError, Feed, Outgoing, PubSub, Unsubscribe};

/// A backend without any capability.
#[derive(Debug)]
pub struct NoTopics;

/// A backend with topics, but without pattern subscriptions.
#[derive(Debug)]
pub struct NoPatterns;

macro_rules! backend {
    ($name:ident) => {
        impl tidings::capability::Backend for $name {
            type Client = std::convert::Infallible;

            fn system(&self) -> &'static str {
                "none"
            }

            fn client(&self, _: tidings::capability::Host) -> Result<std::convert::Infallible, Vec<String>> {
                Err(vec!["it is there for compile-time cases alone".to_owned()])
            }

            async fn check(
                client: &std::convert::Infallible,
                _: tidings::capability::Wanted,
            ) -> Result<tidings::capability::Checked, tidings::capability::BackendError> {
                match *client {}
            }

            async fn close(client: &std::convert::Infallible) {
                match *client {}
            }
        }
    };
}

pub(crate) use backend;

backend!(NoTopics);
backend!(NoPatterns);

impl PubSub for NoPatterns {
    type Subscription = Never;

    async fn publish(client: &Infallible, _: Outgoing) -> Result<Option<u64>, BackendError> {
        match *client {}
    }

    async fn publish_all(client: &Infallible, _: Vec<Outgoing>) -> Vec<Result<Option<u64>, BackendError>> {
        match *client {}
    }

    async fn subscribe(client: &Infallible, _: Vec<Arc<str>>, _: Feed) -> Result<Never, BackendError> {
        match *client {}
    }
}

/// The subscription that no client can make.
#[derive(Debug)]
pub enum Never {}

impl Unsubscribe for Never {
    async fn close(self) {
        match self {}
    }
}
