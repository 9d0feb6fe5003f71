//! The agents: each takes one delivery at a time, and settles it by hand.

use std::time::Duration;

use tidings::capability::Cursors;
use tidings::{Cursor, DurableSettings};
use tidings_examples::Failure;
use tokio::time::{Instant, sleep};

use crate::entry::{QuakeReported, QuakeReportedStreamKey};
use crate::tally::Tally;

/// From here on an event is looked at twice.
pub(crate) const STRONG: i64 = 450;
/// How long a strong event waits for its second look.
const SECOND_LOOK: Duration = Duration::from_millis(20);
/// Below that, nobody felt it.
pub(crate) const FELT: i64 = 0;
/// Why an event is refused for ever.
const UNKNOWN: &str = "the magnitude is unknown";
const TINY: &str = "the magnitude is negative";

/// Alaska's agent takes long over every so many events.
pub(crate) const SLOW: usize = 60;
/// How long it may keep an event without a sign of life, how long it takes over a slow one, and how often it gives one.
const ACK_WAIT: Duration = Duration::from_millis(200);
const LONG: Duration = Duration::from_millis(500);
const SIGN: Duration = Duration::from_millis(60);

/// Whether an agent has had all: nothing comes for so long, and its durable has nothing left.
const QUIET: Duration = Duration::from_millis(300);

/// What the durable of triage is set up with: one delivery in flight, whatever it is.
pub(crate) fn triage_settings() -> DurableSettings {
    DurableSettings::new().ack_wait(Duration::from_secs(10))
}

/// Looks at every event: those that nobody felt are refused for ever, and strong ones are looked at twice.
pub(crate) async fn triage<B: Cursors>(mut cursor: Cursor<QuakeReported, B>) -> Result<Tally, Failure> {
    let mut tally = Tally::default();
    while !is_done(&cursor).await? {
        // It borrows the cursor, so that nothing else comes before this one is settled.
        while let Some(quake) = cursor.next_within(QUIET).await? {
            tally.deliver(quake.attempt());
            let QuakeReported { network, hundredths, .. } = quake.value()?.clone();
            let useless = match hundredths {
                None => Some(UNKNOWN),
                Some(magnitude) => (magnitude < FELT).then_some(TINY),
            };
            if let Some(reason) = useless {
                *tally.terminated.entry(reason).or_default() += 1;
                quake.term(reason).await?;
            } else if hundredths >= Some(STRONG) && quake.attempt() == 1 {
                tally.delayed += 1;
                quake.nak(SECOND_LOOK).await?;
            } else {
                tally.acknowledge(&network, hundredths);
                quake.ack().await?;
            }
        }
    }
    Ok(tally)
}

/// What the durable of Alaska's agent is set up with: one network's events, and a short ack wait.
pub(crate) fn alaska_settings() -> DurableSettings {
    DurableSettings::new().ack_wait(ACK_WAIT).under::<QuakeReportedStreamKey>(("ak",))
}

/// Handles Alaska's events. Some take longer than the ack wait, and don't come twice all the same.
pub(crate) async fn alaska<B: Cursors>(mut cursor: Cursor<QuakeReported, B>) -> Result<Tally, Failure> {
    let mut tally = Tally::default();
    let mut count = 0;
    while !is_done(&cursor).await? {
        while let Some(quake) = cursor.next_within(QUIET).await? {
            tally.deliver(quake.attempt());
            count += 1;
            if count % SLOW == 0 {
                let begun = Instant::now();
                while begun.elapsed() < LONG {
                    sleep(SIGN).await;
                    quake.in_progress().await?;
                    tally.kept_alive += 1;
                }
            }
            let QuakeReported { network, hundredths, .. } = quake.value()?.clone();
            quake.ack().await?;
            tally.acknowledge(&network, hundredths);
        }
    }
    Ok(tally)
}

async fn is_done<B: Cursors>(cursor: &Cursor<QuakeReported, B>) -> Result<bool, Failure> {
    let info = cursor.durable().info().await?;
    Ok(info.waiting == 0 && info.in_flight == 0)
}
