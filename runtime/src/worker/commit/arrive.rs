//! How a member that has joined, or was interrupted, finds that it is in the group.

use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use super::{LONGEST_WAIT, Run};
use crate::broker::lock;
use crate::capability::{CommitGroups, Fetched, GroupMember};
use crate::declaration::StreamSpec;
use crate::error::{Error, Operation};

impl<T, B, S> Run<T, B, S>
where
    T: StreamSpec + Send + 'static,
    B: CommitGroups,
    S: Clone + Send + Sync + 'static,
{
    /// Waits until the group has answered, while what the member is told is taken in.
    pub(super) async fn arrive(&self, member: &B::Member) -> Result<(), Error> {
        let mut joined = pin!(self.stream.observe(Operation::Work, member.joined()));
        let mut is_in = false;
        loop {
            // Records come once it is told that it goes on.
            let paused = member.assigned();
            member.pause(&paused, true);
            let wait = if is_in { Duration::ZERO } else { LONGEST_WAIT };
            let mut told = pin!(self.stream.observe(Operation::Work, member.next(1, wait)));
            let next = poll_fn(|cx| {
                if let Poll::Ready(fetched) = told.as_mut().poll(cx) {
                    return Poll::Ready(fetched.map(Some));
                }
                if is_in { Poll::Pending } else { joined.as_mut().poll(cx).map_ok(|()| None) }
            });
            match next.await? {
                // What it was assigned is told before.
                None => is_in = true,
                Some(Fetched::Records(records)) if records.is_empty() && is_in => break,
                Some(fetched) => self.take(member, fetched),
            }
        }
        self.read_on(member, member.assigned());
        Ok(())
    }

    /// Has these partitions read on, except those that are held up.
    pub(super) fn read_on(&self, member: &B::Member, mut paused: Vec<u32>) {
        let held_up = lock(&self.progress).held_up();
        paused.retain(|partition| !held_up.contains(partition));
        member.pause(&paused, false);
    }
}
