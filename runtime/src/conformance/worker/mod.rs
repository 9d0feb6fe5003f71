//! What a worker over an ack group must do. See [`workers!`](super::workers).

mod bounds;
mod claim;
pub(super) mod crew;
mod ends;
mod gap;
mod lost;
mod order;
mod restart;
mod settings;
mod settle;
mod stop;

pub use bounds::worker_read_ahead;
pub use claim::{worker_claim, worker_lost, worker_trimmed};
pub use ends::{worker_close, worker_dropped, worker_hung};
pub use gap::{worker_gap, worker_silence};
pub use lost::{worker_group_lost, worker_stream_lost};
pub use order::worker_order;
pub use restart::worker_restart;
pub use settings::worker_settings;
pub use settle::{worker_kept, worker_settle};
pub use stop::{worker_stop, worker_stop_bounded};

/// Makes a module with one test for each property of a worker over a [`Subject`](super::Subject) whose backend has
/// [`AckGroups`](crate::capability::AckGroups). `network` is for a [`Network`](super::Network).
#[doc(hidden)]
#[macro_export]
macro_rules! __conformance_workers {
    ($name:ident, $subject:ty $(, $ability:ident)* $(,)?) => {
        mod $name {
            #[allow(unused_imports)]
            use super::*;

            $crate::__conformance_tests!($subject:
                worker_order, worker_settle, worker_kept, worker_stop, worker_stop_bounded, worker_restart,
                worker_claim, worker_lost, worker_trimmed, worker_group_lost, worker_stream_lost, worker_gap, worker_read_ahead,
                worker_dropped, worker_close, worker_settings,
            );
            $($crate::__conformance_workers!(@$ability $subject);)*
        }
    };
    (@network $subject:ty) => {
        $crate::__conformance_tests!($subject: worker_silence, worker_hung,);
    };
}
