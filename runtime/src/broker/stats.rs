use super::host::Shared;
use super::tracker::Tracked;

/// What runs on a broker at a moment. All zero after a close.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Operations under way: publishes and subscription set-ups.
    pub operations: usize,
    /// Subscriptions being set up.
    pub setting_up: usize,
    /// Subscriptions that someone holds.
    pub live: usize,
    /// Subscriptions let go whose end the server hasn't confirmed yet.
    pub draining: usize,
    /// Supervisions under way.
    pub callbacks: usize,
    /// Tasks of the backend: connections and heartbeats.
    pub tasks: usize,
    /// Whether the broker is closed or closing.
    pub closing: bool,
}

impl Stats {
    pub(super) fn of(shared: &Shared, closing: bool) -> Self {
        let count = |tracked| shared.tracker.count(tracked);
        Self {
            operations: shared.operations(),
            setting_up: count(Tracked::SettingUp),
            live: count(Tracked::Live),
            draining: count(Tracked::Draining),
            callbacks: count(Tracked::Callback),
            tasks: count(Tracked::Task),
            closing,
        }
    }
}
