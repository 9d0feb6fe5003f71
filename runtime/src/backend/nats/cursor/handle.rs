//! A handle to a durable: what it asked for, what came, and how that is settled.

mod place;
mod skipped;

use std::collections::VecDeque;
use std::fmt;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use super::super::client::NatsClient;
use super::super::fault::Fault;
use super::super::log;
use super::super::pipeline::{Listening, Pipeline};
use super::super::wire::{Message, SETTLEMENTS};
use super::bell::Bell;
use super::config::Info;
use super::settled::Settled;
use crate::broker::lock;
use crate::capability::{BackendError, BoundDurable, GroupAddress, Host, Pulled, Stored, Ticket, Verdict};
use crate::error::{ErrorKind, Outcome};
use crate::stream::{DurableSettings, Position, StreamAddress};
use place::{Place, place, verdict};
use skipped::Reached;

/// How often the server tells that a request still waits; one that ends soon does without.
const HEARTBEAT: Duration = Duration::from_secs(2);
/// A request that isn't to wait is given up by the server after so long.
const AT_ONCE: Duration = Duration::from_millis(50);
/// How soon a request is repeated that the server gave up by itself, as when the durable's leader changes.
const REPEAT: Duration = Duration::from_millis(100);

/// A handle to a durable of [`Nats`](super::super::Nats).
pub struct NatsDurable {
    host: Host,
    pipeline: Arc<Pipeline>,
    /// Where requests for deliveries go, and where it is asked whether the durable is there.
    next: String,
    info: String,
    address: Arc<StreamAddress>,
    settings: DurableSettings,
    settled: Arc<Settled>,
    /// One pull at a time.
    pulling: tokio::sync::Mutex<()>,
    state: std::sync::Mutex<State>,
    bell: Option<Bell>,
}

#[derive(Default)]
struct State {
    /// What was asked for and may still come.
    asked: Vec<Asked>,
    /// Where a request was answered that is over, for the next one.
    spare: Option<Listening>,
    /// What came and wasn't taken, with the time at which it did.
    came: VecDeque<(Stored, Ticket, Instant)>,
    /// What came and was settled already, if the durable is the same still.
    doubted: Vec<(Stored, Ticket, Instant)>,
    /// How far the durable is, where that is known.
    reached: Option<Reached>,
    /// After which sequences something was left out, before which.
    skipped: Vec<(u64, u64)>,
}

/// A request for deliveries.
struct Asked {
    replies: Listening,
    left: usize,
    /// When something must have been heard of it.
    heard_by: Instant,
    beats: bool,
}

/// What requests were answered with.
enum Answer {
    /// Deliveries, or the end of a request.
    Some,
    /// Nobody takes requests for the durable at the moment, if ever.
    Nobody,
}

impl State {
    /// A request is over.
    fn end(&mut self, index: usize) {
        self.spare = Some(self.asked.remove(index).replies);
    }
}

impl NatsDurable {
    pub(super) fn new(
        client: &NatsClient,
        durable: &GroupAddress,
        settings: DurableSettings,
        info: &Info,
        bell: Option<Bell>,
    ) -> Self {
        let settled = durable.state(Arc::<Settled>::default).clone();
        settled.is_of(info.identity());
        // Under a prefix most records are left out.
        let reached = settings.prefix.is_none().then(|| Reached::new(info));
        let (stream, name) = (log::name(durable.stream()), durable.name());
        Self {
            host: client.host.clone(),
            pipeline: client.streams.clone(),
            next: format!("$JS.API.CONSUMER.MSG.NEXT.{stream}.{name}"),
            info: format!("$JS.API.CONSUMER.INFO.{stream}.{name}"),
            address: durable.stream().clone(),
            settings,
            settled,
            pulling: tokio::sync::Mutex::default(),
            state: std::sync::Mutex::new(State { reached, ..State::default() }),
            bell,
        }
    }

    /// Asks for so many, to be handed out within the time.
    fn ask(&self, spare: Option<Listening>, batch: usize, wait: Duration) -> Result<Asked, Fault> {
        let (expires, at_once) = if wait < AT_ONCE { (AT_ONCE, true) } else { (wait, false) };
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
        Ok(Asked { replies, left: batch, heard_by, beats })
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
            let after = state.reached.as_mut().and_then(|reached| reached.comes(place.delivery, place.sequence));
            state.skipped.extend(after.map(|after| (after, place.sequence)));
            let (stored, ticket) = self.read(&place, message);
            if self.settled.has(place.sequence, place.stored) {
                state.doubted.push((stored, ticket, now));
            } else {
                state.came.push_back((stored, ticket, now));
            }
        }
        answer
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
                if one.heard_by <= now {
                    state.asked.clear();
                    let text = "JetStream gave no sign of life; is there a leader for the durable?";
                    return Poll::Ready(Err(Fault::unreachable(text)));
                }
                index += 1;
                continue;
            };
            let message = reply.inspect_err(|_| state.asked.clear());
            let message = match message {
                Ok(message) => message,
                Err(fault) => return Poll::Ready(Err(Fault { outcome: Outcome::NotApplied, ..fault })),
            };
            let one = &mut state.asked[index];
            if one.beats {
                one.heard_by = now + HEARTBEAT * 3;
            }
            match message.status() {
                Some((100, _)) => continue,
                // It may be about one that was answered here before.
                Some(_) if !one.replies.is_of_last(&message) => continue,
                Some((status, words)) => {
                    state.end(index);
                    match over(status, words) {
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

    fn read(&self, given: &Place, message: Message) -> (Stored, Ticket) {
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
    fn poll_pull(&self, pull: &mut Pull, cx: &mut Context<'_>) -> Poll<Result<Step, BackendError>> {
        let state = &mut *lock(&self.state);
        loop {
            let mut pulled = Vec::new();
            if let Some(bell) = &self.bell {
                bell.poll(cx, &mut pulled)?;
            }
            let answer = self.poll_asked(state, cx)?;
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
                Poll::Ready(Answer::Some) if pull.at_once => return Poll::Ready(Ok(Step::Done(pulled))),
                Poll::Ready(Answer::Some) => continue,
                Poll::Pending => {}
            }
            let now = Instant::now();
            let left = pull.until.saturating_duration_since(now);
            let coming: usize = state.asked.iter().map(|one| one.left).sum();
            if coming < pull.max.div_ceil(2) && (!left.is_zero() || pull.at_once && !pull.asked) {
                let asked = self.ask(state.spare.take(), pull.max - coming, left)?;
                state.asked.push(asked);
                pull.asked = true;
                continue;
            }
            let is_answering = pull.at_once && pull.asked && !state.asked.is_empty();
            if left.is_zero() && !is_answering {
                return Poll::Ready(Ok(Step::Done(pulled)));
            }
            return Poll::Pending;
        }
    }
}

/// Where a pull has got to.
enum Step {
    Done(Vec<Pulled>),
    /// It is to be seen whether what came was settled.
    Doubted,
    /// It is to be seen whether what was left out was removed.
    Skipped,
    /// It is to be seen whether the durable is there.
    Nobody,
}

/// One call of `pull`.
struct Pull {
    max: usize,
    until: Instant,
    /// It doesn't wait longer than the server takes to say that there is nothing.
    at_once: bool,
    asked: bool,
}

/// The next answer, if it came.
fn there(replies: &mut Listening) -> Option<Message> {
    let polled = pin!(replies.next()).poll(&mut Context::from_waker(std::task::Waker::noop()));
    if let Poll::Ready(Ok(message)) = polled { Some(message) } else { None }
}

fn gone() -> Fault {
    Fault::new(ErrorKind::Absent, Outcome::NotApplied, "the durable is gone; `ensure` creates it")
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

impl BoundDurable for NatsDurable {
    async fn pull(&self, max: usize, wait: Duration) -> Result<Vec<Pulled>, BackendError> {
        let now = Instant::now();
        // One that can't be expressed is as good as a year.
        let until = now.checked_add(wait).unwrap_or(now + Duration::from_hours(24 * 365));
        let mut pull = Pull { max, until, at_once: wait.is_zero(), asked: false };
        let mut nobody = None;
        let _pulling = self.pulling.lock().await;
        if let Some(bell) = &self.bell {
            self.host.within(Outcome::NotApplied, async { Ok(bell.listen().await?) }).await?;
        }
        loop {
            let mut closing = pin!(self.host.closing());
            let mut timer = pin!(sleep_until(until));
            let pulled = std::future::poll_fn(|cx| {
                if closing.as_mut().poll(cx).is_ready() {
                    return Poll::Ready(Err(Fault::closed(Outcome::NotApplied).into()));
                }
                loop {
                    if let Poll::Ready(pulled) = self.poll_pull(&mut pull, cx) {
                        return Poll::Ready(pulled);
                    }
                    // It also wakes to see whether a request was heard of.
                    let next = lock(&self.state).asked.iter().map(|one| one.heard_by).min();
                    let next = next.filter(|next| *next < until || until <= Instant::now()).unwrap_or(until);
                    if timer.deadline() != next {
                        timer.as_mut().reset(next);
                    }
                    if timer.as_mut().poll(cx).is_pending() {
                        return Poll::Pending;
                    }
                }
            });
            match pulled.await? {
                Step::Done(pulled) => return Ok(pulled),
                Step::Doubted => {
                    self.settle_doubted().await?;
                    pull.asked = false;
                }
                Step::Skipped => {
                    let told = self.look_for_removed().await?;
                    if !told.is_empty() {
                        return Ok(told);
                    }
                    pull.asked = false;
                }
                Step::Nobody => {
                    self.look(*nobody.get_or_insert_with(Instant::now)).await?;
                    tokio::time::sleep(REPEAT).await;
                    pull.asked = false;
                }
            }
        }
    }

    async fn settle(&self, settlements: Vec<(Ticket, Verdict)>) -> Vec<Result<(), BackendError>> {
        // All are on their way before the first is waited for.
        let ask = |(ticket, given): &(Ticket, Verdict)| {
            let subject = std::str::from_utf8(&ticket.token).ok().filter(|subject| subject.starts_with(SETTLEMENTS));
            let foreign = || Fault::new(ErrorKind::Invalid, Outcome::NotApplied, "the ticket isn't NATS's");
            self.pipeline.request(subject.ok_or_else(foreign)?, &[], verdict(given).as_bytes())
        };
        let requests: Vec<_> = settlements.iter().map(ask).collect();
        let deadline = Instant::now() + self.host.limits().timeout;
        let mut settled = Vec::with_capacity(requests.len());
        let mut for_good = Vec::new();
        for (request, (ticket, given)) in requests.into_iter().zip(&settlements) {
            let left = deadline.saturating_duration_since(Instant::now());
            let settling = async {
                let reply = request?.reply().await?;
                if reply.status().is_some_and(|(status, _)| status == 503) {
                    return Err(gone().into());
                }
                Ok(())
            };
            settled.push(self.host.within_time(left, Outcome::Unknown, settling).await);
            if matches!((settled.last(), given), (Some(Ok(())), Verdict::Ack | Verdict::Term(_))) {
                for_good.extend(place(&ticket.token).map(|given| (given.sequence, given.stored)));
            }
        }
        self.settled.add(for_good);
        settled
    }

    async fn release(&self) {
        let _pulling = self.pulling.lock().await;
        let (mut asked, mut came) = {
            let mut state = lock(&self.state);
            let mut came = std::mem::take(&mut state.came);
            came.extend(state.doubted.drain(..));
            (std::mem::take(&mut state.asked), came)
        };
        // The server hands out nothing more for these, and what it sent before comes before its answer.
        for one in &asked {
            one.replies.hush();
        }
        let confirmed = async { Ok(self.pipeline.facts().await?) };
        if !asked.is_empty() && self.host.within(Outcome::NotApplied, confirmed).await.is_err() {
            return;
        }
        for one in &mut asked {
            while let Some(message) = there(&mut one.replies) {
                if let Some(given) = place(&message.reply) {
                    let (stored, ticket) = self.read(&given, message);
                    came.push_back((stored, ticket, Instant::now()));
                }
            }
        }
        let refusals = came.into_iter().map(|(_, ticket, _)| (ticket, Verdict::Nak(Duration::ZERO))).collect();
        self.settle(refusals).await;
    }
}

impl fmt::Debug for NatsDurable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NatsDurable").field("next", &self.next).finish_non_exhaustive()
    }
}
