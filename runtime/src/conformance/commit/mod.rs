//! What every backend with commit groups must do.

mod ending;
mod group;
mod moves;
mod names;
mod positions;
mod rebalance;
mod reset;
mod steps;
mod unit;

pub use ending::{commit_cancelled, commit_close, commit_interrupted, commit_limits};
pub use group::{commit_group_ensure, commit_group_lost, commit_no_create, commit_starts, commit_trimmed};
pub use moves::{commit_churn, commit_returns};
pub use names::commit_names;
pub use positions::{commit_fan_out, commit_high_water, commit_kept, commit_poison, commit_rewind};
pub use rebalance::{commit_hand_over, commit_rebalance};
pub use reset::{commit_lag, commit_reset};
pub use unit::{unit_acks, unit_atomic, unit_once, unit_refused};
