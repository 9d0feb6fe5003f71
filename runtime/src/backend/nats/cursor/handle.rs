//! A handle to a durable: what it asked for, what came, and how that is settled.

mod place;
mod pull;
mod same;
mod settle;
mod skipped;

use std::collections::VecDeque;
use std::fmt;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::{Instant, sleep_until, timeout_at};

use super::super::client::NatsClient;
use super::super::fault::Fault;
use super::super::link::Facts;
use super::super::log;
use super::super::pipeline::{Listening, Pipeline};
use super::super::wire::Message;
use super::bell::Bell;
use super::config::Info;
use super::settled::Settled;
use crate::broker::lock;
use crate::capability::{BackendError, BoundDurable, GroupAddress, Host, Pulled, Stored, Ticket, Verdict};
use crate::error::{ErrorKind, Outcome};
use crate::stream::{DurableSettings, StreamAddress};
pub(super) use place::{Place, place};
use pull::{Pull, Step};
use same::Same;
use skipped::Reached;

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
    /// What went wrong while something was to be told first.
    failed: Option<Fault>,
    /// What the server said of itself that knows what was settled.
    told: Option<Facts>,
    /// Which durable it is, unless it is known to be gone.
    same: Option<Same>,
    /// What came and may be of another durable.
    in_doubt: Vec<(Place, Stored, Ticket, Instant)>,
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
    /// Whether something went wrong since, so that it may be with a server that is gone. What still comes of it is taken.
    is_stale: bool,
}

impl State {
    /// A request is over.
    fn end(&mut self, index: usize) {
        self.spare = Some(self.asked.remove(index).replies);
    }

    /// Whether the durable's end would be told.
    fn is_asked(&self) -> bool {
        self.asked.iter().any(|one| !one.is_stale && one.replies.waits())
    }

    /// The connection broke under what was asked for, or the server is out of reach.
    fn lost(&mut self) {
        self.interrupt();
        self.asked.clear();
    }

    /// Something went wrong: nothing that was asked for counts any longer, and the next pull looks what is there.
    fn interrupt(&mut self) {
        self.asked.iter_mut().for_each(|one| one.is_stale = true);
        self.told = None;
        if let Some(same) = &mut self.same {
            same.doubt();
        }
    }

    /// The durable is gone, and what it handed out with it.
    fn forget(&mut self) {
        (self.same, self.reached) = (None, None);
        self.came.clear();
        self.doubted.clear();
        self.skipped.clear();
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
            state: std::sync::Mutex::new(State {
                reached,
                same: Some(Same::new(info)),
                told: client.streams.known(),
                ..State::default()
            }),
            bell,
        }
    }
}

/// The next answer, if it came.
fn there(replies: &mut Listening) -> Option<Message> {
    let polled = pin!(replies.next()).poll(&mut Context::from_waker(std::task::Waker::noop()));
    if let Poll::Ready(Ok(message)) = polled { Some(message) } else { None }
}

fn gone() -> Fault {
    Fault::new(ErrorKind::Absent, Outcome::NotApplied, "the durable is gone; `ensure` creates it")
}

impl BoundDurable for NatsDurable {
    async fn pull(&self, max: usize, wait: Duration) -> Result<Vec<Pulled>, BackendError> {
        let now = Instant::now();
        // One that can't be expressed is as good as a year.
        let until = now.checked_add(wait).unwrap_or(now + Duration::from_hours(24 * 365));
        let mut pull = Pull { max, until, at_once: wait.is_zero(), asked: false };
        let mut nobody = None;
        let _pulling = self.pulling.lock().await;
        // Who doesn't wait and has asked before may come back after something that went wrong elsewhere.
        if pull.at_once && lock(&self.state).is_asked() {
            lock(&self.state).interrupt();
        }
        if let Some(bell) = &self.bell {
            self.host.within(Outcome::NotApplied, async { Ok(bell.listen().await?) }).await?;
        }
        // Another server, or one that was killed, may have forgotten what was settled, and wait for it.
        if let Ok(Err(failed)) = timeout_at(until.max(now + REPEAT), self.remind()).await {
            return Err(failed);
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
                Step::InDoubt => {
                    self.tell_apart().await?;
                    pull.asked = false;
                }
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
                    // The durable's server may have been killed, which needn't be the one that this is connected to. One that
                    // doesn't answer yet is told by the next pull.
                    lock(&self.state).interrupt();
                    if let Err(gone) = self.remind().await
                        && gone.kind == ErrorKind::Absent
                    {
                        return Err(gone);
                    }
                    pull.asked = false;
                }
            }
        }
    }

    async fn settle(&self, settlements: Vec<(Ticket, Verdict)>) -> Vec<Result<(), BackendError>> {
        if settlements.is_empty() {
            return Vec::new();
        }
        let answers = match self.is_same().await {
            Ok(()) => self.tell_all(&settlements).await,
            Err(failed) => settlements.iter().map(|_| Err(same::again(&failed))).collect(),
        };
        let interrupts = |answer: &Result<(), BackendError>| {
            let kind = answer.as_ref().err().map(|failed| failed.kind);
            matches!(kind, Some(ErrorKind::Absent | ErrorKind::Timeout | ErrorKind::Unavailable))
        };
        if answers.iter().any(interrupts) {
            lock(&self.state).interrupt();
        }
        answers
    }

    async fn release(&self) {
        let _pulling = self.pulling.lock().await;
        let (mut asked, mut came) = {
            let mut state = lock(&self.state);
            let mut came = std::mem::take(&mut state.came);
            came.extend(state.doubted.drain(..));
            came.extend(state.in_doubt.drain(..).map(|(_, stored, ticket, at)| (stored, ticket, at)));
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
