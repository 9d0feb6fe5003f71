//! The workers, and how one of them is killed. A real service has no such thing; its machines see to it.

use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use tidings::capability::AckGroups;
use tidings::{AckGroup, Delivery, Ended, Error, HandlerError, Stop, WorkerNotice};
use tidings_examples::with_sources;
use tokio::sync::Notify;
use tokio::time::sleep;

use crate::books::Books;
use crate::entry::QuakeRecorded;

/// All of a group's workers, and the one among them that is killed.
pub(crate) const WORKERS: [&str; 3] = ["ledger-1", "ledger-2", "ledger-3"];
pub(crate) const DOOMED: &str = WORKERS[2];

/// How long an entry must have been idle before another worker takes it over. In a service it is longer than a worker
/// may be out of reach for a moment; here nobody should wait.
pub(crate) const CLAIM_AFTER: Duration = Duration::from_millis(300);

/// How long one event takes, as if a database were asked.
const WORK: Duration = Duration::from_millis(1);

/// One worker's place at the books. The worker hands a clone to every call of its handler.
#[derive(Clone)]
pub(crate) struct Desk {
    pub(crate) worker: &'static str,
    pub(crate) books: Books,
    /// When it is to be killed, where it is.
    pub(crate) doom: Option<Arc<Doom>>,
}

/// How much a worker books before it is killed.
pub(crate) struct Doom {
    pub(crate) after: usize,
    pub(crate) reached: Notify,
}

impl Desk {
    /// Works until the token is pulled, or until its task is dropped.
    pub(crate) async fn work<B: AckGroups>(
        self,
        group: AckGroup<QuakeRecorded, B>,
        stop: Stop,
    ) -> Result<Ended, Error> {
        let (worker, books) = (self.worker, self.books.clone());
        group
            .worker(worker)
            .concurrency(4)
            // What waits here waits for this worker alone, until it is claimed.
            .read_ahead(32)
            .claim_after(CLAIM_AFTER)
            .with(self)
            .until(&stop)
            .on_notice(move |notice| {
                if let WorkerNotice::Unsettled { position, error, .. } = notice {
                    let refused = format!("{worker}: the entry at {position}: {}", with_sources(error));
                    books.pages().refused.push(refused);
                }
            })
            .run(async |delivery, desk: Self| desk.handle(&delivery).await)
            .await
    }

    async fn handle(&self, delivery: &Delivery<QuakeRecorded>) -> Result<(), HandlerError> {
        sleep(WORK).await;
        let booked = self.books.book(self.worker, delivery)?;
        if let Some(doom) = &self.doom
            && booked >= doom.after
        {
            // Booked, and not yet acknowledged: from here on nothing happens any more.
            doom.reached.notify_one();
            pending::<()>().await;
        }
        Ok(())
    }
}
