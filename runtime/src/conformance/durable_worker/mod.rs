//! What a worker over a durable must do. See [`durable_workers!`](super::durable_workers).

mod bounds;
mod crew;
mod ends;
mod gap;
mod lost;
mod order;
mod restart;
mod settings;
mod settle;
mod stop;
mod undelivered;

pub use bounds::{durable_worker_held_up, durable_worker_read_ahead};
pub use ends::{durable_worker_close, durable_worker_dropped, durable_worker_hung};
pub use gap::{durable_worker_gap, durable_worker_silence};
pub use lost::{durable_worker_durable_lost, durable_worker_made_anew, durable_worker_stream_lost};
pub use order::durable_worker_order;
pub use restart::durable_worker_restart;
pub use settings::durable_worker_settings;
pub use settle::{durable_worker_kept, durable_worker_retry, durable_worker_settle};
pub use stop::{durable_worker_stop, durable_worker_stop_bounded};
pub use undelivered::durable_worker_undelivered;

/// Makes a module with one test for each property of a worker over a [`Streams`](super::Streams) subject whose backend has
/// [`Cursors`](crate::capability::Cursors). `network` is for a [`Network`](super::Network).
#[doc(hidden)]
#[macro_export]
macro_rules! __conformance_durable_workers {
    ($name:ident, $subject:ty $(, $ability:ident)* $(,)?) => {
        mod $name {
            #[allow(unused_imports)]
            use super::*;

            $crate::__conformance_tests!($subject:
                durable_worker_order, durable_worker_settle, durable_worker_retry, durable_worker_kept,
                durable_worker_stop, durable_worker_stop_bounded, durable_worker_restart, durable_worker_undelivered,
                durable_worker_durable_lost, durable_worker_made_anew, durable_worker_stream_lost,
                durable_worker_gap,
                durable_worker_read_ahead, durable_worker_held_up, durable_worker_dropped, durable_worker_close,
                durable_worker_settings,
            );
            $($crate::__conformance_durable_workers!(@$ability $subject);)*
        }
    };
    (@network $subject:ty) => {
        $crate::__conformance_tests!($subject: durable_worker_silence, durable_worker_hung,);
    };
}
