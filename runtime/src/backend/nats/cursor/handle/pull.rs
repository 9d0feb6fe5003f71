//! Asking for deliveries, and what is answered.

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::Instant;

use super::super::super::fault::Fault;
use super::super::super::log;
use super::super::super::pipeline::Listening;
use super::super::super::wire::Message;
use super::place::{Place, place};
use super::same::Same;
use super::{Asked, NatsDurable, State, gone};
use crate::broker::lock;
use crate::capability::{BackendError, Pulled, Stored, Ticket};
use crate::error::{ErrorKind, Outcome};
use crate::stream::Position;

/// How often the server tells that a request still waits; one that ends soon does without.
pub(super) const HEARTBEAT: Duration = Duration::from_secs(2);
/// A request that isn't to wait is given up by the server after so long.
const AT_ONCE: Duration = Duration::from_millis(50);
/// One that waits is given up by the server so much before the pull ends, so that nothing is handed to nobody.
const EARLIER: Duration = Duration::from_millis(10);
/// And not before so long, which even a busy server needs to answer it.
const SHORTEST: Duration = Duration::from_millis(5);

/// What requests were answered with.
enum Answer {
    /// Deliveries, or the end of a request.
    Some,
    /// Nobody takes requests for the durable at the moment, if ever.
    Nobody,
}

/// Where a pull has got to.
pub(super) enum Step {
    Done(Vec<Pulled>),
    /// It is to be seen whether what came is of the durable that was bound.
    InDoubt,
    /// It is to be seen whether what came was settled.
    Doubted,
    /// It is to be seen whether what was left out was removed.
    Skipped,
    /// It is to be seen whether the durable is there.
    Nobody,
}

/// One call of `pull`.
pub(super) struct Pull {
    pub(super) max: usize,
    pub(super) until: Instant,
    /// It doesn't wait longer than the server takes to say that there is nothing.
    pub(super) at_once: bool,
    pub(super) asked: bool,
}

impl NatsDurable {
    /// Asks for so many, to be handed out within the time.
    fn ask(&self, spare: Option<Listening>, batch: usize, wait: Duration) -> Result<Asked, Fault> {
        // A short one for several ends with what is there, so that nothing comes to it behind.
        let at_once = wait.is_zero() || batch > 1 && wait < AT_ONCE;
        let expires = if at_once { AT_ONCE } else { wait.saturating_sub(EARLIER).max(SHORTEST) };
        let beats = expires >= HEARTBEAT * 3;
        let nanos = |duration: Duration| u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        let body = serde_json::json!({
            "batch": batch,
            "expires": nanos(expires),
            "no_wait": at_once,
            "idle_heartbeat": if beats { nanos(HEARTBEAT) } else { 0 },
        });
        // The server forgets a request to which nobody listens, so each has a place of its own to be answered at.
        let mut replies = match spare.filter(Listening::is_open) {
            Some(replies) => replies,
            None => self.pipeline.listen()?,
        };
        replies.send(&self.next, body.to_string().as_bytes())?;
        let heard_by = Instant::now() + if beats { HEARTBEAT * 3 } else { expires + self.host.limits().timeout };
        Ok(Asked { replies, left: batch, heard_by, beats, is_stale: false })
    }

    /// Takes in what requests were answered with, in the order in which it was handed out: the server answers several in
    /// turn.
    fn poll_asked(&self, state: &mut State, cx: &mut Context<'_>) -> Poll<Result<Answer, Fault>> {
        let (now, mut given) = (Instant::now(), Vec::new());
        let mut answer = Poll::Pending;
        loop {
            let before = given.len();
            let polled = Self::poll_each(state, cx, &mut given);
            let is_over = matches!(polled, Poll::Ready(Err(_) | Ok(Answer::Nobody)));
            if polled.is_ready() {
                answer = polled;
            }
            // What was handed out before something that is here is here, too, in answer to a request that was polled before.
            if is_over || given.len() == before {
                break;
            }
        }
        given.sort_by_key(|(place, _): &(Place, Message)| place.delivery);
        for (place, message) in given {
            let (stored, ticket) = self.read(&place, message);
            let is_in_doubt = state.same.as_mut().is_none_or(|same| same.comes(place.delivery));
            if is_in_doubt || !state.in_doubt.is_empty() {
                state.in_doubt.push((place, stored, ticket, now));
            } else {
                self.sort_in(state, &place, (stored, ticket, now));
            }
        }
        if matches!(&answer, Poll::Ready(Err(fault)) if fault.kind == ErrorKind::Absent) {
            state.forget();
            state.in_doubt.clear();
        }
        answer
    }

    pub(super) fn sort_in(&self, state: &mut State, place: &Place, came: (Stored, Ticket, Instant)) {
        let after = state.reached.as_mut().and_then(|reached| reached.comes(place.delivery, place.sequence));
        state.skipped.extend(after.map(|after| (after, place.sequence)));
        if self.settled.has(place.sequence, place.stored) {
            state.doubted.push(came);
        } else {
            state.came.push_back(came);
        }
    }

    /// Takes what has come of each request.
    fn poll_each(
        state: &mut State,
        cx: &mut Context<'_>,
        given: &mut Vec<(Place, Message)>,
    ) -> Poll<Result<Answer, Fault>> {
        let now = Instant::now();
        let mut index = 0;
        let mut answer = Poll::Pending;
        while let Some(one) = state.asked.get_mut(index) {
            let Poll::Ready(reply) = pin!(one.replies.next()).poll(cx) else {
                if one.heard_by <= now && one.is_stale {
                    state.asked.remove(index);
                    continue;
                }
                if one.heard_by <= now {
                    state.lost();
                    let text = "JetStream gave no sign of life; is there a leader for the durable?";
                    return Poll::Ready(Err(Fault::unreachable(text)));
                }
                index += 1;
                continue;
            };
            let message = match reply {
                Ok(message) => message,
                Err(_) if one.is_stale => {
                    state.asked.remove(index);
                    continue;
                }
                Err(fault) => {
                    state.lost();
                    return Poll::Ready(Err(Fault { outcome: Outcome::NotApplied, ..fault }));
                }
            };
            let one = &mut state.asked[index];
            if one.beats {
                one.heard_by = now + HEARTBEAT * 3;
            }
            match message.status() {
                Some((100, _)) => {
                    let same = state.same.as_mut().filter(|_| !one.is_stale);
                    same.into_iter().for_each(Same::beats);
                    continue;
                }
                // It may be about one that was answered here before.
                Some(_) if !one.replies.is_of_last(&message) => continue,
                Some((status, words)) => {
                    let is_stale = one.is_stale;
                    state.end(index);
                    match over(status, words) {
                        // It was no answer to what is asked now.
                        Ok(_) if is_stale => {}
                        Ok(Answer::Some) => answer = Poll::Ready(Ok(Answer::Some)),
                        is_over => return Poll::Ready(is_over),
                    }
                    continue;
                }
                None => one.left = one.left.saturating_sub(1),
            }
            if one.left == 0 {
                state.end(index);
            }
            let Some(place) = place(&message.reply) else { return Poll::Ready(Err(Fault::malformed())) };
            given.push((place, message));
            answer = Poll::Ready(Ok(Answer::Some));
        }
        answer
    }

    pub(super) fn read(&self, given: &Place, message: Message) -> (Stored, Ticket) {
        let position = Position::new(0, u128::from(given.sequence));
        let stored = Stored { position, attempt: given.attempt, record: log::record(&self.address, &message) };
        (stored, Ticket { position, token: message.reply })
    }

    /// Takes what came, unless its time was over while nobody took it: then it comes again.
    fn take(&self, state: &mut State, max: usize, to: &mut Vec<Pulled>) {
        let now = Instant::now();
        while to.len() < max
            && let Some((stored, ticket, at)) = state.came.pop_front()
        {
            let is_late = now.duration_since(at) >= self.settings.wait_of(stored.attempt);
            // Another handle may have settled it meanwhile.
            if place(&ticket.token).is_some_and(|given| self.settled.has(given.sequence, given.stored)) {
                state.doubted.push((stored, ticket, at));
            } else if !is_late {
                to.push(Pulled::Delivery(stored, ticket));
            }
        }
    }

    /// Polls for deliveries, asking for more where too few are on their way.
    pub(super) fn poll_pull(&self, pull: &mut Pull, cx: &mut Context<'_>) -> Poll<Result<Step, BackendError>> {
        let state = &mut *lock(&self.state);
        loop {
            let mut pulled = Vec::new();
            if let Some(bell) = &self.bell {
                bell.poll(cx, &mut pulled)?;
            }
            if let Some(failed) = state.failed.take_if(|_| pulled.is_empty()) {
                return Poll::Ready(Err(failed.into()));
            }
            let answer = match self.poll_asked(state, cx) {
                // What was heard before would be lost.
                Poll::Ready(Err(failed)) if !pulled.is_empty() => {
                    state.failed = Some(failed);
                    return Poll::Ready(Ok(Step::Done(pulled)));
                }
                answer => answer?,
            };
            if !state.in_doubt.is_empty() {
                return Poll::Ready(Ok(if pulled.is_empty() { Step::InDoubt } else { Step::Done(pulled) }));
            }
            if !state.skipped.is_empty() {
                return Poll::Ready(Ok(if pulled.is_empty() { Step::Skipped } else { Step::Done(pulled) }));
            }
            self.take(state, pull.max + pulled.len(), &mut pulled);
            if !pulled.is_empty() {
                return Poll::Ready(Ok(Step::Done(pulled)));
            }
            if !state.doubted.is_empty() {
                return Poll::Ready(Ok(Step::Doubted));
            }
            match answer {
                Poll::Ready(Answer::Nobody) => return Poll::Ready(Ok(Step::Nobody)),
                Poll::Ready(Answer::Some) if pull.at_once && pull.asked => return Poll::Ready(Ok(Step::Done(pulled))),
                Poll::Ready(Answer::Some) => continue,
                Poll::Pending => {}
            }
            let now = Instant::now();
            let left = pull.until.saturating_duration_since(now);
            let coming: usize = state.asked.iter().filter(|one| !one.is_stale).map(|one| one.left).sum();
            let is_due = left > EARLIER || !pull.asked && (pull.at_once || !left.is_zero());
            if coming < pull.max.div_ceil(2) && is_due {
                let asked = self.ask(state.spare.take(), pull.max - coming, left)?;
                if let Some(same) = state.same.as_mut().filter(|_| state.asked.iter().all(|one| one.is_stale)) {
                    same.pause();
                }
                state.asked.push(asked);
                pull.asked = true;
                continue;
            }
            let is_answering = pull.at_once && pull.asked && coming > 0;
            if left.is_zero() && !is_answering {
                return Poll::Ready(Ok(Step::Done(pulled)));
            }
            return Poll::Pending;
        }
    }
}

/// What it means that the server answers with a status instead of deliveries.
fn over(status: u16, words: &str) -> Result<Answer, Fault> {
    let lower = words.to_ascii_lowercase();
    let failed = |kind, text: &str| Err(Fault::new(kind, Outcome::NotApplied, text));
    match status {
        409 if lower.contains("deleted") => Err(gone()),
        409 if lower.contains("exceeded maxwaiting") => {
            failed(ErrorKind::Refused, "the durable takes no more requests; fewer handles, or raise its `max_waiting`")
        }
        409 if lower.contains("exceeded") => {
            failed(ErrorKind::Refused, "the durable bounds what is asked for; remove its `max_batch` and `max_expires`")
        }
        // Asked again at once, it says the same.
        400 => failed(
            ErrorKind::Conflict,
            "the durable doesn't take requests of this kind; remove it, and call `ensure`, or take another owner",
        ),
        409 if lower.contains("push based") => {
            failed(ErrorKind::Conflict, "the consumer of this name pushes; remove it, or take another owner")
        }
        404 | 408 => Ok(Answer::Some),
        409 if lower.contains("completed") => Ok(Answer::Some),
        // Its leader changes, the server goes down, or it says what isn't known here.
        _ => Ok(Answer::Nobody),
    }
}
