//! The conformance suite: what every backend with topics or streams must do, as plain async functions and macros.
//!
//! Each function is one promise, named like it. It takes a fresh [`Subject`], fails by a panic that names the promise,
//! and holds a control arm: the same sequence without the cause gives the other result. [`topics!`] and [`streams!`]
//! make a test of each; [`workers!`], [`commit_workers!`] and [`durable_workers!`] do so of workers over ack groups, commit
//! groups and durables. The abilities of a backend select the tests:
//!
//! ```
//! tidings::conformance::topics!(topics_in_memory, tidings::conformance::InMemory, patterns);
//! tidings::conformance::streams!(streams_in_memory, tidings::conformance::InMemory, ack_groups, commit_groups, cursors, transactions, dedup);
//! // With a subject of your own: `topics!(mine, MySubject, patterns, network);`
//! ```
//!
//! | ability | needs |
//! |---|---|
//! | `patterns` | a backend with [`PatternPubSub`](crate::capability::PatternPubSub) |
//! | `ack_groups` | a backend with [`AckGroups`](crate::capability::AckGroups) |
//! | `commit_groups` | a backend with [`CommitGroups`](crate::capability::CommitGroups) |
//! | `cursors` | a backend with [`Cursors`](crate::capability::Cursors) |
//! | `dedup` | a backend with [`Dedup`](crate::capability::Dedup) |
//! | `transactions` | a backend with [`CommitGroups`](crate::capability::CommitGroups) and [`Transactions`](crate::capability::Transactions) |
//! | `ack_units` | a backend with [`AckGroups`](crate::capability::AckGroups) and [`Transactions`](crate::capability::Transactions) |
//! | `network` | a subject that is a [`Network`] |

#![allow(clippy::missing_panics_doc, reason = "each property panics when it doesn't hold: that is what it is for")]

mod broker;
mod commit;
mod commit_worker;
mod connection;
mod cursors;
mod delivery;
mod durable_worker;
mod ending;
mod in_memory;
mod keys;
mod lifecycle;
mod names;
mod order;
mod patterns;
mod payloads;
mod publish;
mod rule;
mod streams;
mod supervise;
mod wire;
mod worker;

use std::future::Future;
use std::time::Duration;

use crate::address::Namespace;
use crate::capability::{Backend, PubSub};

#[doc(inline)]
pub use crate::__conformance_commit_workers as commit_workers;
#[doc(inline)]
pub use crate::__conformance_durable_workers as durable_workers;
#[doc(inline)]
pub use crate::__conformance_streams as streams;
#[doc(inline)]
pub use crate::__conformance_topics as topics;
#[doc(inline)]
pub use crate::__conformance_workers as workers;
pub use broker::{admission, bind_once, broker_no_io, brokers, stats_true};
pub use commit::{
    commit_cancelled, commit_churn, commit_close, commit_fan_out, commit_group_ensure, commit_group_lost,
    commit_hand_over, commit_high_water, commit_interrupted, commit_kept, commit_lag, commit_limits, commit_names,
    commit_no_create, commit_poison, commit_rebalance, commit_reset, commit_returns, commit_rewind, commit_starts,
    commit_trimmed, unit_acks, unit_atomic, unit_once, unit_refused,
};
pub use commit_worker::{
    commit_worker_churn, commit_worker_close, commit_worker_gap, commit_worker_held_up, commit_worker_moves,
    commit_worker_order, commit_worker_progress, commit_worker_settings, commit_worker_stop,
    commit_worker_stop_bounded, commit_worker_stream_lost, commit_worker_trimmed,
};
pub use connection::{topic_liveness, topic_one_connection, topic_shared_connection};
pub use cursors::{
    cursor_backoff, cursor_bind_only, cursor_cancelled, cursor_close, cursor_count, cursor_ensure, cursor_exhausted,
    cursor_info, cursor_interrupted, cursor_kept, cursor_limits, cursor_lost, cursor_made_anew, cursor_nak,
    cursor_one_in_flight, cursor_owners, cursor_poison, cursor_prefix, cursor_progress, cursor_recorded,
    cursor_release, cursor_settle, cursor_shared, cursor_starts, cursor_term, cursor_trimmed, cursor_update,
};
pub use delivery::{topic_count, topic_fan_out, topic_ready};
pub use durable_worker::{
    durable_worker_close, durable_worker_dropped, durable_worker_durable_lost, durable_worker_gap,
    durable_worker_held_up, durable_worker_hung, durable_worker_kept, durable_worker_made_anew, durable_worker_order,
    durable_worker_read_ahead, durable_worker_restart, durable_worker_retry, durable_worker_settings,
    durable_worker_settle, durable_worker_silence, durable_worker_stop, durable_worker_stop_bounded,
    durable_worker_stream_lost, durable_worker_undelivered,
};
pub use ending::{topic_overflow_isolated, topic_uninterrupted};
pub use in_memory::{InMemory, InMemoryTap};
pub use keys::{topic_keys, topic_malformed};
pub use lifecycle::close_waits;
pub use names::{address_injective, key_injective, key_round_trip};
pub use order::topic_sequential;
pub use patterns::{topic_patterns, topic_patterns_overlap};
pub use publish::{topic_batch, topic_lost_reply, topic_publish_once};
pub use streams::{
    Attributes, Raw, Streams, ack_cancelled, ack_claim, ack_claim_lost, ack_close, ack_competing, ack_depth,
    ack_extend, ack_follow, ack_group_ensure, ack_group_lost, ack_interrupted, ack_limits, ack_pending, ack_poison,
    ack_recorded, ack_release, ack_remove_consumer, ack_settled, ack_starts, ack_trimmed, ack_trimmed_partitions,
    append_all, append_dedup, append_id, append_lost_reply, append_order, append_recorded, append_silent, dedup_window,
    headers, history, poison_in_place, positions, read_after, read_cancelled, read_partitions, read_trimmed,
    read_waits, stream_bind, stream_close, stream_ensure, stream_interrupted, stream_keys, stream_limits, stream_no_io,
    stream_refused, stream_stats, stream_update, stream_wire, stream_wire_foreign, tail, tail_trimmed,
    trim_acknowledged,
};
pub use supervise::{supervise_ends, supervise_forms, supervise_gap, supervise_patterns};
pub use wire::wire_vectors;
pub use worker::{
    worker_claim, worker_close, worker_dropped, worker_gap, worker_group_lost, worker_hung, worker_kept, worker_lost,
    worker_order, worker_read_ahead, worker_restart, worker_settings, worker_settle, worker_silence, worker_stop,
    worker_stop_bounded, worker_stream_lost, worker_trimmed,
};

/// A messaging system under test. Each test starts its own.
///
/// 1. Brokers built from [`backend`](Self::backend), called any number of times, share the system.
/// 2. Nothing else uses it, or its [`namespace`](Self::namespace).
pub trait Subject: Sized + Send + Sync + 'static {
    /// The backend under test.
    type Backend: Backend;

    /// Whether the tests may pause tokio's clock: only where no time passes outside of it.
    const PAUSED: bool = false;

    /// Returns the namespace that the tests bind in: one of their own where several share a system.
    fn namespace(&self) -> Namespace {
        Namespace::new("conformance", "test").expect("the name is good")
    }

    /// Starts the system.
    fn start() -> impl Future<Output = Self> + Send;

    /// Returns a backend that reaches the system.
    fn backend(&self) -> Self::Backend;

    /// Breaks every connection of every client. New ones are served.
    fn interrupt(&self) -> impl Future<Output = ()> + Send;

    /// Puts the system out of reach, or back. Putting it out of reach may break connections too.
    fn refuse(&self, refuse: bool) -> impl Future<Output = ()> + Send;
}

/// A system with topics.
pub trait Topics: Subject<Backend: PubSub> {
    /// What [`tap`](Self::tap) returns.
    type Tap: Tap;

    /// What the count of a publish is of.
    const COUNTS: Counts;

    /// Whether all subscriptions see what several publish in one order. Otherwise each publisher's order holds, and no more.
    const ONE_ORDER: bool = true;

    /// Publishes bytes on a channel, past the backend.
    fn publish_raw(&self, channel: &str, payload: &[u8]) -> impl Future<Output = ()> + Send;

    /// Listens to a channel, past the backend. When it returns, the system has confirmed it.
    fn tap(&self, channel: &str) -> impl Future<Output = Self::Tap> + Send;
}

/// Hears what goes over one channel of a system.
pub trait Tap: Send {
    /// Waits for the next message's payload.
    fn next(&mut self) -> impl Future<Output = Vec<u8>> + Send;
}

/// A system that is reached over connections which can break in more than one way.
pub trait Network: Subject {
    /// Lets no byte pass while connections stay open, or lets them pass again.
    fn silence(&self, silent: bool) -> impl Future<Output = ()> + Send;

    /// Loses every reply while requests arrive. Replies pass again, over new connections, when called with `false`.
    fn lose_replies(&self, lose: bool) -> impl Future<Output = ()> + Send;

    /// Counts the connections that hold subscriptions, taps excepted.
    fn subscribed_connections(&self) -> impl Future<Output = usize> + Send;
}

/// What the count of a publish is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counts {
    /// Subscriptions that it reached, as in memory.
    Subscriptions,
    /// Deliveries to connections, one for each of a connection's subscribed channels and patterns, as on Redis.
    Deliveries,
    /// Nothing: every count is `None`.
    Nothing,
}

/// How long anything may take before it counts as hung.
const PATIENCE: Duration = Duration::from_secs(10);
/// Starting a system may take longer.
const START: Duration = Duration::from_mins(1);

/// Runs one property on a runtime of its own. [`topics!`] and [`streams!`] call it.
pub fn run<S: Subject, F: Future<Output = ()>>(property: impl FnOnce(S) -> F + Send) {
    /// In a debug build a property's future, with a client's in it, can be larger than a test's stack.
    const STACK_BYTES: usize = 32 << 20;

    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().stack_size(STACK_BYTES);
        let running = thread.spawn_scoped(scope, || run_here(property)).expect("a thread can be started");
        if let Err(panic) = running.join() {
            std::panic::resume_unwind(panic);
        }
    });
}

fn run_here<S: Subject, F: Future<Output = ()>>(property: impl FnOnce(S) -> F) {
    let mut builder = if S::PAUSED {
        tokio::runtime::Builder::new_current_thread()
    } else {
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        builder.worker_threads(2);
        builder
    };
    let runtime = builder.enable_all().build().expect("a runtime can be made");
    runtime.block_on(async {
        let subject = tokio::time::timeout(START, S::start()).await.expect("the system starts in time");
        if S::PAUSED {
            tokio::time::pause();
        }
        property(subject).await;
    });
}

/// Makes a module with one test for each property of a [`Subject`] with topics.
///
/// Behind the subject come its abilities: `patterns`, `network`, or both.
#[doc(hidden)]
#[macro_export]
macro_rules! __conformance_topics {
    ($name:ident, $subject:ty $(, $ability:ident)* $(,)?) => {
        mod $name {
            #[allow(unused_imports)]
            use super::*;

            $crate::__conformance_tests!($subject:
                key_round_trip, key_injective, address_injective, wire_vectors, broker_no_io, bind_once, admission,
                close_waits, stats_true, brokers, topic_ready, topic_fan_out, topic_count, topic_batch,
                topic_publish_once, topic_uninterrupted, topic_overflow_isolated, topic_sequential, topic_malformed,
                topic_keys, topic_shared_connection, supervise_gap, supervise_ends, supervise_forms,
            );
            $($crate::__conformance_tests!(@$ability $subject);)*
        }
    };
}

/// Makes a module with one test for each property of a [`Subject`] with streams.
///
/// Behind the subject come its abilities: any of `ack_groups`, `commit_groups`, `cursors`, `transactions`,
/// `ack_units`, `dedup` and `network`.
#[doc(hidden)]
#[macro_export]
macro_rules! __conformance_streams {
    ($name:ident, $subject:ty $(, $ability:ident)* $(,)?) => {
        mod $name {
            #[allow(unused_imports)]
            use super::*;

            $crate::__conformance_tests!($subject:
                stream_no_io, stream_bind, stream_ensure, stream_update, stream_keys, stream_limits, stream_stats, stream_close,
                stream_refused, stream_interrupted, stream_wire, stream_wire_foreign, append_recorded, append_all,
                append_id, append_order, read_after, read_partitions, read_trimmed, read_waits, read_cancelled, tail,
                tail_trimmed, poison_in_place, headers, positions,
            );
            $($crate::__conformance_tests!(@streams $ability $subject);)*
        }
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __conformance_tests {
    (@patterns $subject:ty) => {
        $crate::__conformance_tests!($subject: topic_patterns, topic_patterns_overlap, supervise_patterns,);
    };
    (@network $subject:ty) => {
        $crate::__conformance_tests!($subject: topic_one_connection, topic_liveness, topic_lost_reply,);
    };
    (@streams ack_groups $subject:ty) => {
        $crate::__conformance_tests!($subject:
            ack_group_ensure, ack_starts, ack_competing, ack_recorded, ack_claim, ack_claim_lost, ack_pending, history,
            ack_follow, ack_poison, ack_group_lost, ack_depth, ack_settled, ack_extend, ack_release,
            ack_remove_consumer, trim_acknowledged, ack_trimmed, ack_trimmed_partitions, ack_cancelled, ack_close, ack_interrupted, ack_limits,
        );
    };
    (@streams commit_groups $subject:ty) => {
        $crate::__conformance_tests!($subject:
            commit_high_water, commit_rewind, commit_rebalance, commit_hand_over, commit_returns, commit_churn,
            commit_names, commit_kept, commit_reset, commit_lag, commit_no_create, commit_group_ensure, commit_starts,
            commit_group_lost, commit_trimmed, commit_poison, commit_fan_out, commit_cancelled, commit_close,
            commit_interrupted, commit_limits,
        );
    };
    (@streams cursors $subject:ty) => {
        $crate::__conformance_tests!($subject:
            cursor_one_in_flight, cursor_shared, cursor_release, cursor_count, cursor_nak, cursor_progress, cursor_backoff,
            cursor_term, cursor_recorded, cursor_settle, cursor_poison, cursor_bind_only, cursor_owners, cursor_kept,
            cursor_ensure, cursor_update, cursor_info, cursor_starts, cursor_prefix, cursor_exhausted, cursor_lost, cursor_made_anew,
            cursor_trimmed, cursor_cancelled, cursor_close, cursor_interrupted, cursor_limits,
        );
    };
    (@streams transactions $subject:ty) => {
        $crate::__conformance_tests!($subject: unit_atomic, unit_refused, unit_once,);
    };
    (@streams ack_units $subject:ty) => {
        $crate::__conformance_tests!($subject: unit_acks,);
    };
    (@streams dedup $subject:ty) => {
        $crate::__conformance_tests!($subject: append_dedup, dedup_window,);
    };
    (@streams network $subject:ty) => {
        $crate::__conformance_tests!($subject: append_lost_reply, append_silent,);
    };
    ($subject:ty: $($property:ident,)+) => {
        $(
            #[test]
            fn $property() {
                $crate::conformance::run($crate::conformance::$property::<$subject>);
            }
        )+
    };
}
