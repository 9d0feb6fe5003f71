use std::sync::Arc;

use tokio::sync::watch;

/// Stops supervisions. Clones are the same token; once pulled it stays so.
#[derive(Clone, Debug)]
pub struct Stop {
    told: Arc<watch::Sender<bool>>,
}

impl Stop {
    /// Makes a token that isn't pulled.
    #[must_use]
    pub fn new() -> Self {
        Self { told: Arc::new(watch::Sender::new(false)) }
    }

    /// Stops everything that runs under this token: nothing new is taken, and a callback under way finishes.
    pub fn stop(&self) {
        self.told.send_replace(true);
    }

    /// Says whether it was pulled.
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        *self.told.borrow()
    }

    /// Waits until it is pulled.
    pub async fn stopped(&self) {
        // The sender lives in `self`, so the channel can't end first.
        let _ = self.told.subscribe().wait_for(|stopped| *stopped).await;
    }
}

impl Default for Stop {
    fn default() -> Self {
        Self::new()
    }
}
