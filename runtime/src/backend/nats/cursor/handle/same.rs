//! Whether the durable is the one still that was bound. One that was made anew has other deliveries at the same addresses,
//! and the server takes a settlement for whatever is there now.

use std::time::Duration;

use tokio::time::Instant;

use super::super::super::fault::Fault;
use super::super::config::Info;
use super::pull::HEARTBEAT;
use super::{NatsDurable, State, gone};
use crate::broker::lock;
use crate::capability::BackendError;
use crate::error::{ErrorKind, Outcome};

/// For so long a durable that was heard of is taken to be there, before a delivery is settled.
const SURE: Duration = Duration::from_millis(100);
/// For so long it is while a request for deliveries waits: its end would be told, unless the server with the request is gone,
/// which is heard of more often than that.
const SURE_WHILE_ASKED: Duration = HEARTBEAT.saturating_add(Duration::from_millis(500));

/// Which durable a handle is of. Who waits for deliveries is told when it is removed, so it is in doubt after a time in
/// which nothing was asked for.
#[derive(Debug)]
pub(super) struct Same {
    /// What its maker has written into it. One that others have made has no such thing, and isn't told from its like.
    identity: Option<String>,
    /// How many deliveries there had been with the last that came here.
    deliveries: u64,
    /// Whether nothing was asked for since.
    paused: bool,
    /// Whether it hadn't been heard of for a while when something was asked for again.
    aged: bool,
    /// Unless something went wrong since.
    heard: Option<Instant>,
}

impl Same {
    pub(super) fn new(info: &Info) -> Self {
        Self {
            identity: info.made().map(str::to_owned),
            deliveries: info.reached().0,
            paused: true,
            aged: false,
            heard: Some(Instant::now()),
        }
    }

    /// Something is asked for, and nothing was before.
    pub(super) fn pause(&mut self) {
        self.paused = true;
        self.aged = !self.is_fresh(SURE);
    }

    /// Something went wrong, and whatever comes next may be of another.
    pub(super) fn doubt(&mut self) {
        (self.paused, self.aged, self.heard) = (true, true, None);
    }

    /// A request is told to wait still.
    pub(super) fn beats(&mut self) {
        if !self.paused {
            self.heard = Some(Instant::now());
        }
    }

    fn is_fresh(&self, sure: Duration) -> bool {
        self.heard.is_some_and(|heard| heard.elapsed() < sure)
    }

    /// Takes note of a delivery, and says whether it may be of another durable.
    pub(super) fn comes(&mut self, delivery: u64) -> bool {
        let is_next = self.deliveries.checked_add(1) == Some(delivery);
        // Another durable may have handed out as many.
        let is_in_doubt = self.paused && (self.aged || !is_next);
        self.deliveries = delivery;
        if !is_in_doubt {
            self.paused = false;
            self.heard = Some(Instant::now());
        }
        is_in_doubt
    }

    pub(super) fn is_of(&self, info: &Info) -> bool {
        self.identity.as_deref() == info.made()
    }

    /// It is there, and whether something is asked of it.
    fn is_there(&mut self, is_asked: bool) {
        self.heard = Some(Instant::now());
        self.aged = false;
        self.paused &= !is_asked;
    }
}

/// A failure that several settlements share.
pub(super) fn again(failed: &BackendError) -> BackendError {
    let again = BackendError::new(failed.kind, failed.outcome);
    match &failed.source {
        Some(source) => again.with_source(source.to_string()),
        None => again,
    }
}

fn made_anew() -> Fault {
    let text =
        "the durable is another one that was made anew, perhaps with its stream; what was handed out before is gone";
    Fault::new(ErrorKind::Absent, Outcome::NotApplied, text)
}

impl NatsDurable {
    async fn info_or_gone(&self) -> Result<Info, BackendError> {
        let info = self.asked::<Info>(&self.info).await;
        if info.as_ref().is_err_and(|failed| failed.kind == ErrorKind::Absent) {
            lock(&self.state).forget();
        }
        info
    }

    /// Looks which durable is there, before anything is asked of it.
    pub(super) async fn look_up(&self) -> Result<Info, BackendError> {
        let info = self.info_or_gone().await?;
        self.compare(&mut lock(&self.state), &info)?;
        Ok(info)
    }

    /// Looks whether what came is of the durable that was bound. What is of another comes next, once that is told.
    pub(super) async fn tell_apart(&self) -> Result<(), BackendError> {
        let info = self.info_or_gone().await?;
        let state = &mut *lock(&self.state);
        let told = self.compare(state, &info);
        for (place, stored, ticket, at) in std::mem::take(&mut state.in_doubt) {
            self.sort_in(state, &place, (stored, ticket, at));
        }
        told
    }

    /// Takes note of which durable is there, and tells once that it is another.
    fn compare(&self, state: &mut State, info: &Info) -> Result<(), BackendError> {
        let is_asked = state.is_asked();
        let known = state.same.as_mut().map(|same| {
            same.is_there(is_asked);
            same.is_of(info)
        });
        if known != Some(true) {
            state.forget();
            self.settled.is_of(info.identity());
            state.reached = self.settings.prefix.is_none().then(|| super::Reached::new(info));
            let mut same = Same::new(info);
            same.is_there(is_asked);
            state.same = Some(same);
        }
        if known == Some(false) {
            // What comes of these is of the other.
            state.asked.retain(|one| !one.is_stale);
            return Err(made_anew().into());
        }
        Ok(())
    }

    /// Sees to it that a settlement isn't taken for a delivery of another durable.
    pub(super) async fn is_same(&self) -> Result<(), BackendError> {
        {
            let state = lock(&self.state);
            let Some(same) = &state.same else { return Err(gone().into()) };
            // What was asked for after a pause may be another durable's, and on its way.
            let is_asked = state.is_asked();
            if if is_asked { !same.paused && same.is_fresh(SURE_WHILE_ASKED) } else { same.is_fresh(SURE) } {
                return Ok(());
            }
        }
        let info = self.asked::<Info>(&self.info).await?;
        let state = &mut *lock(&self.state);
        let is_asked = state.is_asked();
        match &mut state.same {
            Some(same) if same.is_of(&info) => {
                same.is_there(is_asked);
                Ok(())
            }
            // A pull tells it, too.
            _ => Err(made_anew().into()),
        }
    }

    /// Why nobody takes a settlement.
    pub(super) async fn why_nobody(&self) -> BackendError {
        match self.asked::<Info>(&self.info).await {
            Err(failed) if failed.kind == ErrorKind::Absent => gone().into(),
            _ => Fault::unreachable("nobody takes settlements for the durable at the moment").into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn only_what_follows_is_sure_after_a_pause() {
        let mut same = Same { identity: None, deliveries: 3, paused: true, aged: false, heard: Some(Instant::now()) };
        assert!(!same.comes(4) && !same.comes(9) && !same.comes(2), "who asks all the time is told");
        same.pause();
        assert!(same.comes(2) && same.comes(4), "it is in doubt until it is looked up");
        assert!(!same.comes(5));
        tokio::time::advance(SURE).await;
        same.pause();
        assert!(same.comes(6), "another may have handed out as many meanwhile");
        same.is_there(false);
        assert!(same.is_fresh(SURE) && same.comes(9));
        same.is_there(true);
        assert!(!same.comes(20));
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_counts_for_as_long_as_it_is_heard_of() {
        let mut same = Same { identity: None, deliveries: 3, paused: true, aged: false, heard: None };
        same.is_there(true);
        for _ in 0..3 {
            tokio::time::advance(HEARTBEAT).await;
            assert!(same.is_fresh(SURE_WHILE_ASKED));
            same.beats();
        }
        tokio::time::advance(SURE_WHILE_ASKED).await;
        assert!(!same.is_fresh(SURE_WHILE_ASKED), "its server may be gone");
        same.is_there(true);
        same.doubt();
        same.beats();
        assert!(!same.is_fresh(SURE_WHILE_ASKED) && same.comes(4), "whatever comes once something went wrong");
    }
}
