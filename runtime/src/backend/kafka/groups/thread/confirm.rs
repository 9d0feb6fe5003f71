//! How it is found out that a member is in its group and the group answers.

use std::time::Duration;

use tokio::sync::oneshot;
use tokio::sync::oneshot::error::TryRecvError;
use tokio::time::Instant;

use super::super::{PIECE, desk, is_live};
use super::{Fault, GroupProtocol, Polling};
use crate::error::ErrorKind;

/// After so long a member that the server has given no partition has none.
const SETTLED: Duration = Duration::from_millis(500);

/// What is known while somebody waits for the group's answer.
pub(super) struct Waits {
    since: Instant,
    /// When it is asked whether the group answers others, though the member isn't in.
    ask: Instant,
    asked: Option<oneshot::Receiver<Result<(), Fault>>>,
}

impl Polling {
    /// Tells who waits for it that the member is in and the group answers, or that it doesn't.
    ///
    /// A group lets its members wait while others join, or until one that was killed has lost its place. So a member that isn't
    /// answered is no trouble while others are.
    pub(super) fn confirm(&mut self) {
        if !self.poller.held().has_arrivals() {
            self.waits = None;
            return;
        }
        let now = Instant::now();
        let since = self.waits.get_or_insert(Waits { since: now, ask: now + PIECE, asked: None }).since;
        let mut answer = None;
        if self.is_in(since) && self.is_ready() {
            match desk::answers(&self.consumer, &self.poller.state.topic, PIECE) {
                Ok(()) => return self.poller.held().arrived(&Ok(())),
                Err(fault) if fault.kind == ErrorKind::Timeout => {}
                Err(fault) => answer = Some(fault),
            }
        }
        // A partition that can't be begun, because nobody answers, doesn't keep that from being told.
        match answer.or_else(|| self.ask_at_desk()) {
            Some(fault) if is_live(&fault) => self.later(),
            Some(fault) if fault.kind == ErrorKind::Absent => {
                self.is_there();
                self.later();
            }
            Some(fault) => self.poller.held().arrived(&Err(fault)),
            None => {}
        }
    }

    /// Asks past the member whether the group answers, now and then, and says why it doesn't.
    fn ask_at_desk(&mut self) -> Option<Fault> {
        let poller = &self.poller;
        let waits = self.waits.as_mut()?;
        let Some(asked) = &mut waits.asked else {
            if waits.ask <= Instant::now() {
                let shared = poller.shared.clone();
                let told = move || shared.wake();
                let asked = desk::ask_for_life(&poller.clients, &poller.group, &poller.state.topic, told);
                // Where too many ask already, the next time.
                waits.asked = asked.ok();
                waits.ask = Instant::now() + PIECE;
            }
            return None;
        };
        let answer = match asked.try_recv() {
            Err(TryRecvError::Empty) => return None,
            Err(TryRecvError::Closed) => Err(Fault::unreachable("a thread of Kafka's client panicked")),
            Ok(answer) => answer,
        };
        waits.asked = None;
        waits.ask = Instant::now() + PIECE;
        answer.err()
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
