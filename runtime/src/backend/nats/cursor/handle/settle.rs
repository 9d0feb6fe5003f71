//! Settling, each settlement confirmed by the server.

use std::time::Duration;

use tokio::time::{Instant, timeout_at};

use super::super::super::api::NO_RESPONDERS;
use super::super::super::fault::Fault;
use super::super::super::pipeline::Request;
use super::super::super::wire::SETTLEMENTS;
use super::super::config::Info;
use super::place::verdict;
use super::{NatsDurable, gone, same};
use crate::broker::lock;
use crate::capability::{BackendError, Ticket, Verdict};
use crate::error::{ErrorKind, Outcome};

/// How long an answer is waited for before the server is asked what it knows.
const PATIENCE: Duration = Duration::from_millis(500);

type Answer = Result<(), BackendError>;

impl NatsDurable {
    fn tell(&self, (ticket, given): &(Ticket, Verdict)) -> Result<Request, Fault> {
        let subject = std::str::from_utf8(&ticket.token).ok().filter(|subject| subject.starts_with(SETTLEMENTS));
        let foreign = || Fault::new(ErrorKind::Invalid, Outcome::NotApplied, "the ticket isn't NATS's");
        self.pipeline.request(subject.ok_or_else(foreign)?, &[], verdict(given).as_bytes())
    }

    /// Settles deliveries of the durable that is there.
    ///
    /// A server that was killed may have forgotten that it handed something out. It answers nothing that is said of that,
    /// until it has handed it out again. So what isn't answered in a while is said again, which changes nothing where it was
    /// recorded, but for a delay that begins anew.
    pub(super) async fn tell_all(&self, settlements: &[(Ticket, Verdict)]) -> Vec<Answer> {
        let timeout = self.host.limits().timeout;
        let deadline = Instant::now() + timeout;
        let mut answers: Vec<Option<Answer>> = settlements.iter().map(|_| None).collect();
        let mut waiting = Vec::with_capacity(settlements.len());
        // All are on their way before the first is waited for.
        for (index, settlement) in settlements.iter().enumerate() {
            match self.tell(settlement) {
                Ok(request) => waiting.push((index, request)),
                Err(fault) => answers[index] = Some(Err(fault.into())),
            }
        }
        while !waiting.is_empty() {
            let until = deadline.min(Instant::now() + PATIENCE.min(timeout / 8));
            let silent = self.hear(waiting, until, &mut answers).await;
            waiting = Vec::new();
            if silent.is_empty() || until == deadline {
                break;
            }
            let delivered = self.delivered(deadline).await;
            for (index, request) in silent {
                let sequence = settlements[index].0.position.offset();
                let again = match delivered {
                    None => Ok(request),
                    Some(delivered) if sequence > u128::from(delivered) => {
                        Err(BackendError::new(ErrorKind::Forgotten, Outcome::NotApplied))
                    }
                    Some(_) => self.tell(&settlements[index]).map_err(|fault| Fault::sent(&fault).into()),
                };
                match again {
                    Ok(request) => waiting.push((index, request)),
                    Err(failed) => answers[index] = Some(Err(failed)),
                }
            }
        }
        let silent = || Err(Fault::timeout(Outcome::Unknown).into());
        let answers: Vec<Answer> = answers.into_iter().map(|answer| answer.unwrap_or_else(silent)).collect();
        let for_good = settlements
            .iter()
            .zip(&answers)
            .filter(|((_, given), answer)| answer.is_ok() && matches!(given, Verdict::Ack | Verdict::Term(_)));
        self.settled.add(for_good.map(|((ticket, _), _)| &ticket.token[..]));
        answers
    }

    /// Waits for the replies, and returns the requests that have none by then.
    async fn hear(
        &self,
        waiting: Vec<(usize, Request)>,
        until: Instant,
        answers: &mut [Option<Answer>],
    ) -> Vec<(usize, Request)> {
        let (mut silent, mut nobody) = (Vec::new(), None);
        for (index, mut request) in waiting {
            let hearing = async { Ok(timeout_at(until, request.reply()).await) };
            let heard = self.host.within(Outcome::Unknown, hearing).await;
            answers[index] = Some(match heard {
                Ok(Err(_)) => {
                    silent.push((index, request));
                    continue;
                }
                Ok(Ok(Ok(reply))) if reply.status().is_some_and(|(status, _)| status == NO_RESPONDERS) => {
                    if nobody.is_none() {
                        nobody = Some(self.why_nobody().await);
                    }
                    Err(nobody.as_ref().map_or_else(|| gone().into(), same::again))
                }
                Ok(Ok(Ok(_))) => Ok(()),
                Ok(Ok(Err(fault))) => Err(fault.into()),
                Err(failed) => Err(failed),
            });
        }
        silent
    }

    /// The last record that the server knows to have handed out. Where it doesn't say, the settlements' own time decides.
    async fn delivered(&self, deadline: Instant) -> Option<u64> {
        let asking = self.asked::<Info>(&self.info);
        let left = deadline.saturating_duration_since(Instant::now());
        self.host.within_time(left, Outcome::NotApplied, asking).await.ok().map(|info| info.delivered())
    }

    /// Tells a server to which nothing was told yet what is settled: one that was killed has written that down late, and waits
    /// for it before it hands out more. A server has another id each time it is started.
    pub(super) async fn remind(&self) -> Result<(), BackendError> {
        let facts = match self.pipeline.known() {
            Some(facts) => facts,
            None => self.host.within(Outcome::NotApplied, async { Ok(self.pipeline.facts().await?) }).await?,
        };
        if lock(&self.state).told.as_ref().is_some_and(|told| told.server_id == facts.server_id) {
            return Ok(());
        }
        let info = self.look_up().await?;
        if let Some((floor, delivered)) = info.unsettled() {
            for address in self.settled.between(floor, delivered) {
                // Nothing at all is an acknowledgement.
                self.pipeline.post(address.as_bytes());
            }
        }
        lock(&self.state).told = Some(facts);
        Ok(())
    }
}
