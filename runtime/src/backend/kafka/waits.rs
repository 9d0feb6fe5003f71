//! Those who wait for the client to tell what became of their records.
//!
//! A timer and a look-out for the broker's closing for each would cost more than handing a record over does. So all stand in
//! one table, which the thread of the client looks through for those whose time is over.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::time::Instant;

use super::fault::Fault;
use crate::broker::lock;
use crate::error::Outcome;

/// Where an append ended: partition and offset.
pub(super) type Placed = Result<(i32, i64), Fault>;

#[derive(Default)]
pub(super) struct Waits {
    table: Mutex<Table>,
}

#[derive(Default)]
struct Table {
    places: Vec<Option<(Instant, Arc<Wait>)>>,
    free: Vec<usize>,
    looked: Option<Instant>,
    closed: bool,
}

/// Who waits for an append, as the client has it.
#[derive(Default)]
pub(super) struct Wait {
    told: Mutex<Told>,
}

#[derive(Default)]
struct Told {
    placed: Option<Placed>,
    waker: Option<Waker>,
}

impl Wait {
    /// Says what became of it. What was said first holds.
    pub(super) fn tell(&self, placed: Placed) {
        let waker = {
            let mut told = lock(&self.told);
            told.placed.get_or_insert(placed);
            told.waker.take()
        };
        // Who appended may have given up.
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

/// Ready when it is told, its time is over or the broker closes. Dropped, it waits no more.
pub(super) struct Waiting<'a> {
    waits: &'a Waits,
    wait: Arc<Wait>,
    place: usize,
}

impl Waiting<'_> {
    /// What is told.
    pub(super) fn wait(&self) -> Arc<Wait> {
        self.wait.clone()
    }
}

impl Future for Waiting<'_> {
    type Output = Placed;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Placed> {
        let mut told = lock(&self.wait.told);
        if let Some(placed) = told.placed.take() {
            return Poll::Ready(placed);
        }
        match &mut told.waker {
            Some(waker) => waker.clone_from(cx.waker()),
            none => *none = Some(cx.waker().clone()),
        }
        Poll::Pending
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let mut table = lock(&self.waits.table);
        table.places[self.place] = None;
        table.free.push(self.place);
    }
}

impl Waits {
    /// Waits for an append that is about to be handed over.
    pub(super) fn begin(&self, deadline: Instant) -> Result<Waiting<'_>, Fault> {
        let wait = Arc::<Wait>::default();
        let waiting = Some((deadline, wait.clone()));
        let mut table = lock(&self.table);
        if table.closed {
            return Err(Fault::closed(Outcome::NotApplied));
        }
        let place = if let Some(place) = table.free.pop() {
            table.places[place] = waiting;
            place
        } else {
            table.places.push(waiting);
            table.places.len() - 1
        };
        Ok(Waiting { waits: self, wait, place })
    }

    /// Tells those whose time is over, where nobody has looked for so long.
    pub(super) fn expire(&self, every: Duration) {
        let now = Instant::now();
        let late = {
            let mut table = lock(&self.table);
            if table.looked.is_some_and(|looked| now.duration_since(looked) < every) {
                return;
            }
            table.looked = Some(now);
            table.waiting(|deadline| deadline <= now)
        };
        for wait in late {
            wait.tell(Err(Fault::timeout(Outcome::Unknown)));
        }
    }

    /// Lets nobody wait any longer.
    pub(super) fn close(&self) {
        let all = {
            let mut table = lock(&self.table);
            table.closed = true;
            table.waiting(|_| true)
        };
        for wait in all {
            wait.tell(Err(Fault::closed(Outcome::Unknown)));
        }
    }
}

impl Table {
    fn waiting(&self, wanted: impl Fn(Instant) -> bool) -> Vec<Arc<Wait>> {
        let wanted = self.places.iter().flatten().filter(|(deadline, _)| wanted(*deadline));
        wanted.map(|(_, wait)| wait.clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::{Instant, advance};

    use super::{Placed, Waits, lock};
    use crate::error::{ErrorKind, Outcome};

    const EVERY: Duration = Duration::from_millis(10);

    fn failed(placed: &Placed) -> (ErrorKind, Outcome) {
        let fault = placed.as_ref().unwrap_err();
        (fault.kind, fault.outcome)
    }

    #[tokio::test(start_paused = true)]
    async fn each_is_told_its_own_and_who_is_late_that() {
        let waits = Waits::default();
        let now = Instant::now();
        let first = waits.begin(now + EVERY * 5).unwrap();
        let given_up = waits.begin(now + EVERY).unwrap();
        let second = waits.begin(now + EVERY * 8).unwrap();
        let (tell_first, tell_nobody) = (first.wait(), given_up.wait());
        drop(given_up);
        // It stands where the other stood.
        let third = waits.begin(now + EVERY * 5).unwrap();
        tell_nobody.tell(Ok((9, 9)));
        waits.expire(EVERY);
        tell_first.tell(Ok((1, 7)));
        assert_eq!(first.await.unwrap(), (1, 7));
        advance(EVERY * 5).await;
        waits.expire(EVERY);
        assert_eq!(failed(&third.await), (ErrorKind::Timeout, Outcome::Unknown));
        let said = second.wait();
        said.tell(Ok((2, 3)));
        said.tell(Ok((2, 4)));
        assert_eq!(second.await.unwrap(), (2, 3));
    }

    #[tokio::test(start_paused = true)]
    async fn nobody_looks_more_often_than_wanted() {
        let waits = Waits::default();
        waits.expire(EVERY);
        let late = waits.begin(Instant::now()).unwrap();
        let is_told = || lock(&late.wait.told).placed.is_some();
        waits.expire(EVERY);
        assert!(!is_told());
        advance(EVERY).await;
        waits.expire(EVERY);
        assert!(is_told());
    }

    #[tokio::test]
    async fn a_close_ends_every_wait_and_lets_none_begin() {
        let waits = Waits::default();
        let waiting = waits.begin(Instant::now() + EVERY).unwrap();
        waits.close();
        assert_eq!(failed(&waiting.await), (ErrorKind::Closed, Outcome::Unknown));
        let refused = waits.begin(Instant::now() + EVERY).map(drop).unwrap_err();
        assert_eq!((refused.kind, refused.outcome), (ErrorKind::Closed, Outcome::NotApplied));
    }
}
