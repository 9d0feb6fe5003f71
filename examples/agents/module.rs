//! The module: a worker over its durable, which handles several at once and refuses what fails for a while.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tidings::capability::Cursors;
use tidings::{Delivery, Durable, DurableSettings, Ended, Error, HandlerError, Stop, WorkerNotice};

use crate::entry::QuakeReported;
use crate::tally::Tally;

/// How many it handles at once.
const CONCURRENCY: usize = 8;
/// The first attempt fails for every so many events, as if a database were away for a moment.
pub(crate) const FAILS: u64 = 40;

/// What its durable is set up with: what it handles at once, and what it has ahead.
pub(crate) fn settings() -> DurableSettings {
    DurableSettings::new().in_flight(64).ack_wait(Duration::from_secs(10))
}

/// Counts what it gets.
#[derive(Clone, Default)]
pub(crate) struct Totals(Arc<Mutex<Tally>>);

impl Totals {
    pub(crate) fn tally(&self) -> MutexGuard<'_, Tally> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Works until the token is pulled.
    pub(crate) async fn work<B: Cursors>(self, durable: Durable<QuakeReported, B>, stop: Stop) -> Result<Ended, Error> {
        let totals = self.clone();
        durable
            .worker()
            .concurrency(CONCURRENCY)
            .read_ahead(32)
            .retry_after(Duration::from_millis(20), Duration::from_secs(1))
            .with(self)
            .until(&stop)
            .on_notice(move |notice| {
                if let WorkerNotice::Retrying { .. } = notice {
                    totals.tally().delayed += 1;
                }
            })
            .run(async |delivery, totals: Self| totals.handle(&delivery))
            .await
    }

    fn handle(&self, delivery: &Delivery<QuakeReported>) -> Result<(), HandlerError> {
        let quake = delivery.value()?;
        let mut tally = self.tally();
        tally.deliver(delivery.attempt());
        if delivery.attempt() == 1 && tally.attempts[&1].is_multiple_of(FAILS) {
            return Err("the database is away".into());
        }
        tally.acknowledge(&quake.network, quake.hundredths);
        Ok(())
    }
}
