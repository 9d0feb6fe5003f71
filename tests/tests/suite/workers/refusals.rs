//! A worker over a durable whose connection breaks while it refuses something.

use std::sync::Mutex;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tidings::backend::Memory;
use tidings::capability::{BackendError, BoundDurable as _, Pulled, Ticket, Verdict};
use tidings::{
    Broker, Config, Delivery, DurableOwner, DurableSettings, Ended, ErrorKind, Namespace, Outcome, Stop,
    StreamSettings, stream_spec,
};
use tidings_tests::twisted::{CursorTwist, Twist, Twisted, TwistedDurable};
use tokio::sync::Notify;
use tokio::time::{Instant, timeout};

#[stream_spec(name = "refusals.jobs", version = 1, key = u32, requires(cursors))]
#[derive(Serialize, Deserialize)]
struct Job {
    number: u32,
}

/// Its first refusal is never answered, and its connection breaks meanwhile.
struct BreaksMeanwhile;

/// How many refusals were sent.
static REFUSALS: Mutex<u32> = Mutex::new(0);
/// Told when the first is on its way.
static SENT: Notify = Notify::const_new();

impl Twist for BreaksMeanwhile {
    type Inner = Memory;
}

impl CursorTwist for BreaksMeanwhile {
    async fn pull(durable: &TwistedDurable<Self>, max: usize, wait: Duration) -> Result<Vec<Pulled>, BackendError> {
        tokio::select! {
            biased;
            () = SENT.notified() => Err(BackendError::new(ErrorKind::Unavailable, Outcome::NotApplied)),
            pulled = durable.inner.pull(max, wait) => pulled,
        }
    }

    async fn settle(
        durable: &TwistedDurable<Self>,
        settlements: Vec<(Ticket, Verdict)>,
    ) -> Vec<Result<(), BackendError>> {
        if settlements.iter().any(|(_, verdict)| matches!(verdict, Verdict::Nak(_))) {
            let count = {
                let mut refusals = REFUSALS.lock().unwrap();
                *refusals += 1;
                *refusals
            };
            if count == 1 {
                SENT.notify_one();
                return std::future::pending().await;
            }
        }
        durable.inner.settle(settlements).await
    }
}

#[tokio::test(start_paused = true)]
async fn a_refusal_that_wasnt_confirmed_is_repeated() {
    const ACK_WAIT: Duration = Duration::from_mins(10);
    let config = Config::new(Namespace::new("refusals", "test").unwrap());
    let broker = Broker::new(Twisted::<BreaksMeanwhile>(Memory::new()), config).unwrap();
    let jobs = Job::stream(&broker).unwrap();
    jobs.ensure(StreamSettings::new()).await.unwrap();
    let durable = jobs.durable(&DurableOwner::module("crew").unwrap()).unwrap();
    durable.ensure(DurableSettings::new().ack_wait(ACK_WAIT)).await.unwrap();
    for number in 0..3 {
        jobs.append(&1, &Job { number }).await.unwrap();
    }
    let (stop, seen) = (Stop::new(), std::sync::Arc::new(Mutex::new(Vec::new())));
    let handler = async |delivery: Delivery<Job>, (seen, stop): (std::sync::Arc<Mutex<Vec<_>>>, Stop)| {
        let (number, attempt) = (delivery.value()?.number, delivery.attempt());
        seen.lock().unwrap().push((number, attempt));
        match (number, attempt) {
            (0, 1) => return Err("it failed".into()),
            (2, _) => stop.stop(),
            _ => {}
        }
        Ok(())
    };
    let began = Instant::now();
    let working = durable.worker().with((seen.clone(), stop.clone())).until(&stop).run(handler);
    let ended = timeout(ACK_WAIT * 2, working).await.expect("the worker stops");
    assert_eq!(ended.unwrap(), Ended::Stopped);
    // In order, and long before its ack wait was over.
    assert_eq!(*seen.lock().unwrap(), [(0, 1), (0, 2), (1, 1), (2, 1)]);
    assert_eq!(*REFUSALS.lock().unwrap(), 2);
    assert!(began.elapsed() < ACK_WAIT / 10, "it came after {:?}", began.elapsed());
    let left = durable.info().await.unwrap();
    assert_eq!((left.waiting, left.in_flight), (0, 0));
}
