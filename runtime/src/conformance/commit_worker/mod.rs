//! What a worker over a commit group must do. See [`commit_workers!`](super::commit_workers).

mod crew;
mod ends;
mod moves;
mod order;
mod progress;
mod settings;
mod stop;

pub use ends::{commit_worker_close, commit_worker_gap, commit_worker_stream_lost};
pub use moves::{commit_worker_churn, commit_worker_moves};
pub use order::commit_worker_order;
pub use progress::{commit_worker_held_up, commit_worker_progress, commit_worker_trimmed};
pub use settings::commit_worker_settings;
pub use stop::{commit_worker_stop, commit_worker_stop_bounded};

/// Makes a module with one test for each property of a worker over a [`Streams`](super::Streams) subject whose backend has
/// [`CommitGroups`](crate::capability::CommitGroups).
#[doc(hidden)]
#[macro_export]
macro_rules! __conformance_commit_workers {
    ($name:ident, $subject:ty $(,)?) => {
        mod $name {
            #[allow(unused_imports)]
            use super::*;

            $crate::__conformance_tests!($subject:
                commit_worker_order, commit_worker_progress, commit_worker_held_up, commit_worker_trimmed,
                commit_worker_stop, commit_worker_stop_bounded, commit_worker_moves, commit_worker_churn,
                commit_worker_gap, commit_worker_stream_lost, commit_worker_close, commit_worker_settings,
            );
        }
    };
}
