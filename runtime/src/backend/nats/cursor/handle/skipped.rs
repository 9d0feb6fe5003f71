//! What a handle asks about: records that were left out, settled before, or that nobody hands out.

use serde::Deserialize;
use serde::de::DeserializeOwned;
use tokio::time::Instant;

use super::super::super::api::{self, NO_RESPONDERS};
use super::super::super::fault::Fault;
use super::super::super::log;
use super::super::config::Info;
use super::{NatsDurable, gone};
use crate::broker::lock;
use crate::capability::{BackendError, Pulled};
use crate::error::{ErrorKind, Outcome};
use crate::stream::Position;

/// How far a durable had handed out when a handle last heard of it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Reached {
    deliveries: u64,
    sequence: u64,
}

/// What is asked of a stream here.
#[derive(Deserialize)]
struct Stream {
    state: State,
}

#[derive(Deserialize)]
struct State {
    first_seq: u64,
}

impl Reached {
    pub(super) fn new(info: &Info) -> Self {
        let (deliveries, sequence) = info.reached();
        Self { deliveries, sequence }
    }

    /// Takes note of a delivery. Where records before it were handed out to nobody, it says after which sequence.
    pub(super) fn comes(&mut self, delivery: u64, sequence: u64) -> Option<u64> {
        let Self { deliveries, sequence: after } = *self;
        *self = Self { deliveries: delivery, sequence: sequence.max(after) };
        // Each delivery to others was of one of them at most. One that counts from before is of a server that forgot.
        let to_others = delivery.checked_sub(deliveries)?.checked_sub(1)?;
        let between = sequence.checked_sub(after)?.checked_sub(1)?;
        (between > to_others).then_some(after)
    }
}

impl NatsDurable {
    /// Asks JetStream about something.
    pub(super) async fn asked<T: DeserializeOwned + Send>(&self, subject: &str) -> Result<T, BackendError> {
        let asking = async {
            let reply = self.pipeline.request(subject, &[], &[])?.reply().await?;
            if reply.status().is_some_and(|(status, _)| status == NO_RESPONDERS) {
                let has_jetstream = self.pipeline.known().is_some_and(|facts| facts.jetstream);
                return Err(if has_jetstream { Fault::jetstream_is_away() } else { Fault::no_jetstream() }.into());
            }
            Ok(api::answer(&reply.payload)?)
        };
        self.host.within(Outcome::NotApplied, asking).await
    }

    /// Settles again what was settled already, which a server that was killed hadn't written down. What is handed out by a
    /// durable that was made anew is something else.
    pub(super) async fn settle_doubted(&self) -> Result<(), BackendError> {
        let is_same = match self.asked::<Info>(&self.info).await {
            Ok(info) => self.settled.is_of(info.identity()),
            Err(failed) if failed.kind == ErrorKind::Absent => false,
            Err(failed) => return Err(failed),
        };
        let state = &mut *lock(&self.state);
        for (stored, ticket, at) in state.doubted.drain(..) {
            if is_same {
                // Nothing at all is an acknowledgement.
                self.pipeline.post(&ticket.token);
            } else {
                state.came.push_back((stored, ticket, at));
            }
        }
        Ok(())
    }

    /// Tells what was left out since it was removed from the stream's beginning. From the middle it may be missing.
    pub(super) async fn look_for_removed(&self) -> Result<Vec<Pulled>, BackendError> {
        let looking = async {
            let info = self.asked::<Info>(&self.info).await?;
            let stream = format!("$JS.API.STREAM.INFO.{}", log::name(&self.address));
            Ok::<_, BackendError>((info, self.asked::<Stream>(&stream).await?.state.first_seq))
        };
        let looked = looking.await;
        let state = &mut *lock(&self.state);
        let (info, first) = match looked {
            Ok(looked) => looked,
            Err(failed) => {
                if failed.kind == ErrorKind::Absent {
                    (state.reached, state.skipped) = (None, Vec::new());
                }
                return Err(failed);
            }
        };
        let skipped = std::mem::take(&mut state.skipped);
        // One that was made anew, or hands out something else since, has left out nothing.
        if !self.settled.is_of(info.identity()) || info.is_filtered() {
            return Ok(Vec::new());
        }
        let at = |sequence: u64| Position::new(0, u128::from(sequence));
        let removed = skipped.into_iter().filter(|(after, _)| first > after + 1);
        let told = removed.map(|(after, next)| Pulled::Trimmed {
            after: Some(after).filter(|after| *after > 0).map(at),
            first: at(next),
        });
        Ok(told.collect())
    }

    /// Whether a durable that nobody takes requests for since then is gone, or won't be there soon.
    pub(super) async fn look(&self, since: Instant) -> Result<(), BackendError> {
        let is_long = since.elapsed() >= self.host.limits().timeout;
        match self.asked::<Info>(&self.info).await {
            Err(failed) if failed.kind == ErrorKind::Absent => {
                lock(&self.state).forget();
                Err(gone().into())
            }
            // Its leader changes, or the server has just begun.
            Ok(_) if !is_long => Ok(()),
            Err(failed) if !is_long && failed.kind == ErrorKind::Unavailable => Ok(()),
            Ok(_) => Err(Fault::unreachable("nobody hands out the durable's deliveries; it has no leader").into()),
            Err(failed) => Err(failed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(mut reached: Reached, deliveries: &[(u64, u64)]) -> Vec<Option<u64>> {
        deliveries.iter().map(|(delivery, sequence)| reached.comes(*delivery, *sequence)).collect()
    }

    #[test]
    fn only_what_nobody_can_have_been_handed_is_left_out() {
        let begins = |deliveries, sequence| Reached { deliveries, sequence };
        assert_eq!(after(begins(0, 0), &[(1, 1), (2, 2), (3, 2), (4, 3)]), [None; 4], "one after another, one refused");
        assert_eq!(after(begins(0, 0), &[(1, 101), (2, 102)]), [Some(0), None], "from the beginning");
        assert_eq!(after(begins(7, 10), &[(8, 11), (9, 50), (10, 51)]), [None, Some(11), None]);
        assert_eq!(after(begins(7, 10), &[(13, 16), (14, 14), (15, 17)]), [None; 3], "others were handed the rest");
        assert_eq!(after(begins(7, 10), &[(13, 17)]), [Some(10)], "all but one");
        assert_eq!(after(begins(7, 10), &[(3, 4), (4, 5), (9, 10), (10, 11)]), [None; 4], "a server that forgot");
    }
}
