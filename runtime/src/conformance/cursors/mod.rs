//! What every backend with durables and cursors must do.

mod admin;
mod bind;
mod count;
mod ending;
mod exhausted;
mod in_flight;
mod lost;
mod settle;
mod starts;
mod steps;

pub use admin::{cursor_ensure, cursor_info, cursor_limits, cursor_update};
pub use bind::{cursor_bind_only, cursor_kept, cursor_owners};
pub use count::{cursor_backoff, cursor_count, cursor_nak, cursor_progress};
pub use ending::{cursor_cancelled, cursor_close, cursor_interrupted};
pub use exhausted::cursor_exhausted;
pub use in_flight::{cursor_one_in_flight, cursor_release, cursor_shared};
pub use lost::{cursor_lost, cursor_made_anew, cursor_trimmed};
pub use settle::{cursor_poison, cursor_recorded, cursor_settle, cursor_term};
pub use starts::{cursor_prefix, cursor_starts};
