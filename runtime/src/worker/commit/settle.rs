//! How what was handled is noted, committed and handed over.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::Run;
use crate::broker::lock;
use crate::capability::{CommitGroups, GroupMember};
use crate::declaration::StreamSpec;
use crate::error::Error;
use crate::stream::Position;

/// A commit comes so long after the one before, since each costs the servers a write.
const COMMIT_EVERY: Duration = Duration::from_millis(50);
/// Meanwhile what was handled is noted so often: one by one, each handler would wake who notes it.
const NOTE_EVERY: Duration = Duration::from_millis(2);
/// How often it is looked whether nothing is under way any more of what is to move, since what fails isn't told.
const LOOK_EVERY: Duration = Duration::from_millis(10);

impl<T, B, S> Run<T, B, S>
where
    T: StreamSpec + Send + 'static,
    B: CommitGroups,
    S: Clone + Send + Sync + 'static,
{
    /// Commits what was handled, all that there is each time, until the handlers have ended.
    pub(super) async fn settle(&self, member: &B::Member) -> Result<(), Error> {
        let mut ended = false;
        let mut not_before = Instant::now();
        loop {
            if !lock(&self.progress).can_commit() {
                if ended {
                    return Ok(());
                }
                ended = self.wait(member).await;
                continue;
            }
            while !ended && Instant::now() < not_before && !lock(&self.progress).hurries() {
                sleep(NOTE_EVERY).await;
                ended = self.queue.has_ended();
                self.note();
                self.hand_over(member);
            }
            let mut committing = pin!(self.commit(member));
            // What is handled meanwhile is noted, too: it mustn't seem to hold its partition up.
            loop {
                let mut handled = pin!(async {
                    sleep(NOTE_EVERY).await;
                    self.queue.to_settle(usize::MAX).await
                });
                let next = poll_fn(|cx| {
                    if let Poll::Ready(committed) = committing.as_mut().poll(cx) {
                        return Poll::Ready(Err(committed));
                    }
                    if ended { Poll::Pending } else { handled.as_mut().poll(cx).map(Ok) }
                });
                match next.await {
                    Err(committed) => break committed?,
                    Ok(positions) => {
                        ended = positions.is_empty();
                        self.handled(&positions);
                    }
                }
            }
            not_before = Instant::now() + COMMIT_EVERY;
        }
    }

    /// Waits until something was handled or there is something to look at, and says whether the handlers have ended.
    async fn wait(&self, member: &B::Member) -> bool {
        self.hand_over(member);
        let mut handled = pin!(self.queue.to_settle(usize::MAX));
        let mut looks = pin!(self.looks.notified());
        let mut moving = lock(&self.progress).is_moving().then(|| Box::pin(sleep(LOOK_EVERY)));
        let next = poll_fn(|cx| {
            if let Poll::Ready(positions) = handled.as_mut().poll(cx) {
                return Poll::Ready(Some(positions));
            }
            if moving.as_mut().is_some_and(|moving| moving.as_mut().poll(cx).is_ready()) {
                return Poll::Ready(None);
            }
            looks.as_mut().poll(cx).map(|()| None)
        });
        let Some(positions) = next.await else { return false };
        self.handled(&positions);
        positions.is_empty()
    }

    /// Notes what was handled so far.
    pub(super) fn note(&self) {
        self.handled(&self.queue.finished());
    }

    fn handled(&self, positions: &[Position]) {
        // What is known here needs no second look.
        self.queue.settled();
        lock(&self.progress).handled(positions);
    }

    async fn commit(&self, member: &B::Member) -> Result<(), Error> {
        let positions = lock(&self.progress).to_commit();
        if !positions.is_empty() {
            // What isn't this member's any longer is told by the member.
            let others = self.operate(member.commit(&positions)).await?;
            let mut committed = positions;
            for partition in &others {
                committed.remove(*partition);
            }
            let free = {
                let mut progress = lock(&self.progress);
                progress.refused(&others);
                progress.committed(&committed);
                progress.let_go(self.worker.settings.uncommitted)
            };
            if !free.is_empty() {
                member.pause(&free, false);
            }
        }
        self.hand_over(member);
        Ok(())
    }

    /// Hands over the partitions that are to move, once nothing of them is to be handled here any more.
    pub(super) fn hand_over(&self, member: &B::Member) {
        if !lock(&self.progress).is_moving() {
            return;
        }
        let busy = self.queue.busy();
        let ready = lock(&self.progress).to_hand_over(|partition| busy.contains(&partition));
        if !ready.is_empty() {
            member.hand_over(&ready);
        }
    }
}
