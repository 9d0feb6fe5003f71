//! The sentence that a property tests, and ways to say that it doesn't hold.

use std::fmt::Debug;
use std::future::Future;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use super::{PATIENCE, Subject};
use crate::address::Namespace;
use crate::broker::{Broker, Config, Limits};
use crate::capability::PubSub;
use crate::codec::Decode;
use crate::declaration::TopicSpec;
use crate::error::{Cause, Error, ErrorKind};
use crate::topic::{KeyedSubscription, Subscription};

/// A named sentence. Every failure starts with the name.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rule(pub(super) &'static str);

impl Rule {
    /// Awaits a step that mustn't hang.
    pub(super) async fn within<F: Future>(self, what: &str, step: F) -> F::Output {
        let Ok(output) = tokio::time::timeout(PATIENCE, step).await else { panic!("{}: hung: {what}", self.0) };
        output
    }

    /// Awaits a step that must succeed.
    pub(super) async fn ok<T>(self, what: &str, step: impl Future<Output = Result<T, Error>>) -> T {
        match self.within(what, step).await {
            Ok(output) => output,
            Err(error) => panic!("{}: {what}: {error:?}", self.0),
        }
    }

    /// Awaits a step that must fail.
    pub(super) async fn fails<T>(self, what: &str, step: impl Future<Output = Result<T, Error>>) -> Error {
        match self.within(what, step).await {
            Ok(_) => panic!("{}: {what}: succeeded where it must fail", self.0),
            Err(error) => error,
        }
    }

    /// Asks until the answer is yes.
    pub(super) async fn eventually<F: Future<Output = bool>>(self, what: &str, mut look: impl FnMut() -> F) {
        self.within(what, async {
            while !look().await {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        })
        .await;
    }

    #[track_caller]
    pub(super) fn that(self, holds: bool, what: &str) {
        assert!(holds, "{}: {what}", self.0);
    }

    #[track_caller]
    #[allow(clippy::needless_pass_by_value, reason = "comparing two values reads better without two ampersands")]
    pub(super) fn same<L: PartialEq<R> + Debug, R: Debug>(self, what: &str, left: L, right: R) {
        assert!(left == right, "{}: {what}: got {left:?}, not {right:?}", self.0);
    }

    #[track_caller]
    pub(super) fn unwrap<T>(self, what: &str, result: Result<T, Error>) -> T {
        match result {
            Ok(value) => value,
            Err(error) => panic!("{}: {what}: {error:?}", self.0),
        }
    }

    #[track_caller]
    pub(super) fn unwrap_err<T>(self, what: &str, result: Result<T, Error>) -> Error {
        match result {
            Ok(_) => panic!("{}: {what}: succeeded where it must fail", self.0),
            Err(error) => error,
        }
    }

    /// Builds a broker with wide limits.
    pub(super) fn broker<S: Subject>(self, subject: &S) -> Broker<S::Backend> {
        self.broker_with(subject, limits())
    }

    pub(super) fn broker_with<S: Subject>(self, subject: &S, limits: Limits) -> Broker<S::Backend> {
        self.broker_of(subject, subject.namespace(), limits)
    }

    pub(super) fn broker_in<S: Subject>(
        self,
        subject: &S,
        application: &str,
        environment: &str,
        limits: Limits,
    ) -> Broker<S::Backend> {
        let namespace = Namespace::new(application, environment).expect("the suite's namespaces are good");
        self.broker_of(subject, namespace, limits)
    }

    fn broker_of<S: Subject>(self, subject: &S, namespace: Namespace, limits: Limits) -> Broker<S::Backend> {
        self.unwrap("building a broker", Broker::new(subject.backend(), Config::new(namespace).limits(limits)))
    }

    pub(super) async fn next<T: TopicSpec, B: PubSub>(self, what: &str, from: &mut Subscription<T, B>) -> T
    where
        T::Codec: Decode<T>,
    {
        self.ok(what, from.receive()).await
    }

    pub(super) async fn next_keyed<T: TopicSpec, B: PubSub>(
        self,
        what: &str,
        from: &mut KeyedSubscription<T, B>,
    ) -> (T::Key, T)
    where
        T::Codec: Decode<T>,
    {
        self.ok(what, from.receive()).await
    }

    /// Receives an ending with this cause, and once more, since it sticks.
    pub(super) async fn ends<T: TopicSpec, B: PubSub>(self, what: &str, from: &mut Subscription<T, B>, cause: Cause)
    where
        T::Codec: Decode<T>,
    {
        for time in ["first", "second"] {
            let error = self.fails(what, from.receive()).await;
            self.same(&format!("{what}, the {time} ending"), error.kind(), ErrorKind::Ended(cause));
        }
    }

    /// Says that nothing is ready to be received; what was sent must have arrived by then.
    pub(super) fn silent<T: TopicSpec, B: PubSub>(self, what: &str, from: &mut Subscription<T, B>)
    where
        T::Codec: Decode<T>,
    {
        if let Poll::Ready(received) = poll_once(from.receive()) {
            let received = received.map(|_| "an event");
            panic!("{}: {what}: got {received:?} where there must be nothing", self.0);
        }
    }
}

/// Limits under which nothing but the thing under test gets tight.
pub(super) fn limits() -> Limits {
    Limits::default().buffer_messages(4_096).subscriptions(1_024)
}

/// Polls a future once and drops it.
pub(super) fn poll_once<F: Future>(future: F) -> Poll<F::Output> {
    let mut future = std::pin::pin!(future);
    future.as_mut().poll(&mut Context::from_waker(Waker::noop()))
}
