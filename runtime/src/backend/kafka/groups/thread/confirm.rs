//! How it is found out that a member is in its group and the group answers.

use std::time::Duration;

use tokio::time::Instant;

use super::super::{PIECE, desk, is_live};
use super::{GroupProtocol, Polling};
use crate::error::ErrorKind;

/// After so long a member that the server has given no partition has none.
const SETTLED: Duration = Duration::from_millis(500);

impl Polling {
    /// Tells who waits for it that the member is in and the group answers, or that it doesn't.
    pub(super) fn confirm(&mut self) {
        if !self.poller.held().has_arrivals() {
            self.waits = None;
            return;
        }
        let now = Instant::now();
        let (since, ask) = *self.waits.get_or_insert((now, now + PIECE));
        let is_in = self.is_in(since);
        // A partition that can't be begun, because nobody answers, doesn't keep that from being told.
        let may_ask = if is_in { self.is_ready() } else { now >= ask };
        if !may_ask {
            return;
        }
        // What a unit is committing to would be answered once that has ended, so it is asked of a partition that isn't there.
        let answer = match desk::committed(&self.consumer, &self.poller.state.topic, [u32::MAX], PIECE) {
            Ok(_) if !is_in => return self.waits = Some((since, Instant::now() + PIECE)),
            Ok(_) => Ok(()),
            Err(fault) if is_live(&fault) => return self.later(),
            Err(fault) if fault.kind == ErrorKind::Absent => {
                self.is_there();
                return self.later();
            }
            Err(fault) => Err(fault),
        };
        self.poller.held().arrived(&answer);
    }

    /// Whether the group has told the member what it is assigned.
    fn is_in(&self, since: Instant) -> bool {
        if !self.changes.is_empty() {
            return false;
        }
        // Where the server decides, a member without a partition is told nothing.
        if self.poller.clients.settings.group_protocol == Some(GroupProtocol::Consumer) {
            return !self.readers.is_empty() || since.elapsed() >= SETTLED;
        }
        !self.listener.is_joining()
    }
}
