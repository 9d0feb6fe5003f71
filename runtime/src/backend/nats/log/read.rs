//! Reading: from a consumer of its own on the server, in order, over the loss of that consumer.

use std::time::Duration;

use async_nats::jetstream::ErrorCode;
use serde::de::IgnoredAny;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use super::super::api::{self, NO_RESPONDERS};
use super::super::client::NatsClient;
use super::super::fault::Fault;
use super::consumer::{Consumer, place};
use super::{StreamState, record, state, unchanged};
use crate::capability::{BackendError, Read, Stored, StreamAddress};
use crate::error::{ErrorKind, Outcome};
use crate::stream::{Position, Positions};

/// So much is asked for at once, of a server that closes the connection where it can't get rid of more.
const MOST_MESSAGES: usize = 256;
const MOST_BYTES: usize = 16 << 20;
/// More than a message can have. With a bound the server says when a request is done.
const ANY_BYTES: usize = 1 << 30;
/// A request that waits is sent anew after so long, since its consumer may be gone.
const LONGEST_PULL: Duration = Duration::from_secs(10);
/// An answer to a request that has expired comes soon after.
const GRACE: Duration = Duration::from_secs(2);
/// A consumer that couldn't be made is made again after so long, and after twice as long the next time.
const FIRST_BACKOFF: Duration = Duration::from_millis(10);
const LONGEST_BACKOFF: Duration = Duration::from_millis(500);

pub(in super::super) async fn read(
    client: &NatsClient,
    stream: &StreamAddress,
    after: &Positions,
    max: usize,
    wait: Duration,
) -> Result<Read, BackendError> {
    let host = &client.host;
    let _place = client.reading.place(host.limits().subscriptions)?;
    let after = after.iter().find(|position| position.partition() == 0).map(Position::offset);
    let mut reading = OneRead {
        client,
        state: state(stream),
        // Sequences go no further.
        after: after.map(|offset| u64::try_from(offset).unwrap_or(u64::MAX)),
        max,
        waits: !wait.is_zero(),
        records: Vec::new(),
        hole: None,
        deadline: Instant::now() + wait,
    };
    // A wait isn't an operation's time.
    let most = host.limits().timeout.saturating_add(wait);
    let read = async { Ok(reading.run().await.map_err(unchanged)?) };
    let read = host.within_time(most, Outcome::NotApplied, read).await?;
    Ok(read.unwrap_or(Read::Records(reading.records)))
}

/// A read under way.
struct OneRead<'a> {
    client: &'a NatsClient,
    state: &'a StreamState,
    after: Option<u64>,
    max: usize,
    waits: bool,
    records: Vec<Stored>,
    /// The place of the first record before which others were left out, and the first of those.
    hole: Option<(usize, u64)>,
    deadline: Instant,
}

/// How a request for messages ended.
enum Pulled {
    /// What was asked for came, or there is no more for now.
    Done,
    /// The next message is larger than what was asked for.
    Large,
    /// The consumer is gone.
    Gone,
}

impl OneRead<'_> {
    /// Fills the records, or says that something was removed.
    async fn run(&mut self) -> Result<Option<Read>, Fault> {
        let (mut backoff, mut anew) = (FIRST_BACKOFF, false);
        loop {
            let begun = Instant::now();
            let kept = self.after.filter(|_| !anew);
            let kept = kept.and_then(|after| self.client.reading.take(&self.state.name, after));
            let fresh = kept.is_none();
            let made = match kept {
                Some(consumer) => Ok(Err(consumer)),
                None => self.begin().await.map(Ok),
            };
            let pulled = match made {
                Ok(Ok(Begun::Trimmed(trimmed))) => return Ok(Some(trimmed)),
                Ok(Ok(Begun::Consumer(consumer)) | Err(consumer)) => self.pull(consumer).await?,
                // A stream that has no leader for a moment, after its server was lost.
                Err(fault) if is_passing(&fault) && begun + LONGEST_BACKOFF < self.deadline => Pulled::Gone,
                Err(fault) => return Err(fault),
            };
            match pulled {
                Pulled::Large => break,
                Pulled::Done if self.has_enough() || !self.is_behind(fresh).await? => break,
                Pulled::Done if !fresh => anew = true,
                Pulled::Gone if !self.records.is_empty() => break,
                // One that was kept may have been forgotten.
                Pulled::Gone if !fresh => {}
                Pulled::Done | Pulled::Gone => {
                    sleep(backoff).await;
                    backoff = (backoff * 2).min(LONGEST_BACKOFF);
                }
            }
        }
        match self.hole {
            Some((place, next)) => self.cut_off(place, next).await,
            None if self.records.is_empty() => self.trimmed().await,
            None => Ok(None),
        }
    }

    /// Whether nothing more is looked for: one who waits has something, one who doesn't has all that may be.
    fn has_enough(&self) -> bool {
        if self.waits { !self.records.is_empty() } else { self.records.len() >= self.max }
    }

    /// Whether the stream has more than a consumer has told. The server tells its consumers of a record after its
    /// appender, so that one that was kept may not have heard of it. A new one has, unless its server isn't the stream's
    /// leader and has yet to get the record.
    async fn is_behind(&self, fresh: bool) -> Result<bool, Fault> {
        let by = self.client.deadline();
        let info = self.state.info(self.client, by).await?;
        let next = self.after.map_or(1, |after| after.saturating_add(1));
        if next > info.state.last_seq || fresh && info.config.num_replicas <= 1 {
            return Ok(false);
        }
        if !fresh {
            return Ok(true);
        }
        // What was last may have been removed: the leader knows.
        let what = format!("STREAM.MSG.GET.{}", self.state.name);
        let body = json!({ "seq": next, "next_by_subj": ">" });
        match api::call::<IgnoredAny>(self.client, by, &what, &body).await {
            Ok(_) => Ok(true),
            // One who may not ask goes by what the consumer's server has.
            Err(fault) if fault.code == ErrorCode::NO_MESSAGE_FOUND || fault.kind == ErrorKind::Forbidden => Ok(false),
            Err(fault) => Err(fault),
        }
    }

    /// Records were left out before the one at this place. Where they were removed from the beginning, which others are
    /// told of, nothing behind them is read; from the middle they may be missing.
    async fn cut_off(&mut self, place: usize, next: u64) -> Result<Option<Read>, Fault> {
        let first = self.state.info(self.client, self.client.deadline()).await?.state.first_seq;
        if first <= next {
            return Ok(None);
        }
        self.records.truncate(place);
        let trimmed = Read::Trimmed { first: Position::new(0, u128::from(first)), certain: true };
        Ok(self.records.is_empty().then_some(trimmed))
    }

    /// Makes a consumer where reading goes on, unless what comes next was removed.
    async fn begin(&self) -> Result<Begun, Fault> {
        let next = self.after.map_or(1, |after| after.saturating_add(1));
        let policy = json!({ "deliver_policy": "by_start_sequence", "opt_start_seq": next });
        let creating = Consumer::create(self.client, self.state, policy);
        let (mut consumer, trimmed) = both(creating, self.trimmed()).await;
        if let Some(trimmed) = trimmed? {
            return Ok(Begun::Trimmed(trimmed));
        }
        if let (Ok(consumer), Some(after)) = (&mut consumer, self.after) {
            consumer.before = after;
        }
        consumer.map(Begun::Consumer)
    }

    /// Says whether what comes next was removed before it was read.
    async fn trimmed(&self) -> Result<Option<Read>, Fault> {
        let Some(after) = self.after else { return Ok(None) };
        let there = self.state.info(self.client, self.client.deadline()).await?.state;
        let gone = after < there.last_seq && there.first_seq > after + 1;
        Ok(gone.then(|| Read::Trimmed { first: Position::new(0, u128::from(there.first_seq)), certain: true }))
    }

    /// Asks for messages until there are enough, or none for now and the wait is over.
    async fn pull(&mut self, mut consumer: Consumer) -> Result<Pulled, Fault> {
        loop {
            let left = self.deadline.saturating_duration_since(Instant::now());
            let wanted = (self.max - self.records.len()).min(MOST_MESSAGES);
            let waits = self.records.is_empty() && !left.is_zero();
            let pulled = if waits && consumer.at_end {
                let expires = left.min(LONGEST_PULL).max(Duration::from_millis(1));
                let expires_nanos = u64::try_from(expires.as_nanos()).unwrap_or(u64::MAX);
                let body = json!({ "batch": 1, "expires": expires_nanos, "max_bytes": ANY_BYTES });
                self.request(&mut consumer, &body, 1, Some(expires + GRACE)).await?
            } else {
                let body = |batch: usize, bytes: usize| json!({ "batch": batch, "no_wait": true, "max_bytes": bytes });
                match self.request(&mut consumer, &body(wanted, MOST_BYTES), wanted, None).await? {
                    Pulled::Large if self.records.is_empty() => {
                        self.request(&mut consumer, &body(1, ANY_BYTES), 1, None).await?
                    }
                    pulled => pulled,
                }
            };
            let over = self.deadline <= Instant::now();
            match pulled {
                Pulled::Done
                    if self.records.len() < self.max && !(consumer.at_end && (over || !self.records.is_empty())) => {}
                Pulled::Done | Pulled::Large => {
                    self.client.reading.keep(consumer);
                    return Ok(pulled);
                }
                Pulled::Gone => return Ok(pulled),
            }
        }
    }

    /// Sends one request for messages and takes what comes of it.
    async fn request(
        &mut self,
        consumer: &mut Consumer,
        body: &Value,
        count: usize,
        limit: Option<Duration>,
    ) -> Result<Pulled, Fault> {
        consumer.inbox.send(&consumer.next, body.to_string().as_bytes())?;
        let mut came = 0;
        consumer.at_end = false;
        while came < count {
            let next = consumer.inbox.next();
            let message = match limit {
                None => next.await?,
                Some(limit) => match tokio::time::timeout(limit, next).await {
                    Ok(message) => message?,
                    // The server that kept the consumer may be gone, and this client's be there.
                    Err(_) => return Ok(Pulled::Gone),
                },
            };
            if let Some((status, words)) = message.status() {
                match status {
                    // Of a request that had all it wanted before.
                    _ if !consumer.inbox.is_of_last(&message) => continue,
                    100 => continue,
                    409 if words.contains("Batch Completed") => {}
                    404 | 408 => consumer.at_end = true,
                    409 if words.contains("MaxBytes") => return Ok(Pulled::Large),
                    409 | NO_RESPONDERS => return Ok(Pulled::Gone),
                    _ => return Err(Fault::unreachable(format!("JetStream ended a read with {status}"))),
                }
                return Ok(Pulled::Done);
            }
            came += 1;
            let Some((sequence, left)) = place(&message) else { return Err(Fault::malformed()) };
            consumer.at_end = left == 0;
            // A sequence begins again where a server has lost what it had.
            if sequence > consumer.before {
                let next = consumer.before + 1;
                if self.after.is_some() && sequence > next {
                    self.hole.get_or_insert((self.records.len(), next));
                }
                let record = record::read(&self.state.known, &self.state.address, &message);
                self.records.push(Stored { position: Position::new(0, u128::from(sequence)), attempt: 1, record });
                consumer.before = sequence;
                self.after = Some(sequence);
            }
            if left == 0 {
                break;
            }
        }
        Ok(Pulled::Done)
    }
}

enum Begun {
    Consumer(Consumer),
    Trimmed(Read),
}

/// Awaits both at once.
async fn both<A, B>(a: impl Future<Output = A>, b: impl Future<Output = B>) -> (A, B) {
    let (mut a, mut b) = (std::pin::pin!(a), std::pin::pin!(b));
    let (mut one, mut other) = (None, None);
    std::future::poll_fn(|cx| {
        use std::task::Poll;
        if one.is_none()
            && let Poll::Ready(done) = a.as_mut().poll(cx)
        {
            one = Some(done);
        }
        if other.is_none()
            && let Poll::Ready(done) = b.as_mut().poll(cx)
        {
            other = Some(done);
        }
        match (one.take(), other.take()) {
            (Some(a), Some(b)) => Poll::Ready((a, b)),
            (a, b) => {
                (one, other) = (a, b);
                Poll::Pending
            }
        }
    })
    .await
}

/// Whether a consumer may be made a moment later.
fn is_passing(fault: &Fault) -> bool {
    fault.kind == ErrorKind::Unavailable && fault.code != ErrorCode(0)
}
