//! What the parts share: sending by many tasks, RustStream's apps, and ways of consuming.

use std::sync::Arc;
use std::time::{Duration, Instant};

use ruststream::runtime::{App, HandlerOutcome};
use tidings::capability::{Log, PubSub};
use tidings::{Stream, Topic};
use tokio::runtime::Runtime;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use crate::measure::Way;
use crate::text::{FIRST, Seen, Text};
use crate::{all_done, in_time, shown};

/// Tasks that send at once where nothing else is said.
pub(crate) const TASKS: u32 = 256;

/// A library's way of sending.
pub(crate) trait Sender: Clone + Send + 'static {
    fn send(&self, text: &Text) -> impl Future<Output = Result<(), String>> + Send;
}

impl<B: Log> Sender for Stream<Text, B> {
    async fn send(&self, text: &Text) -> Result<(), String> {
        self.append(&(), text).await.map_err(shown).map(drop)
    }
}

impl<B: PubSub> Sender for Topic<Text, B> {
    async fn send(&self, text: &Text) -> Result<(), String> {
        self.publish(&(), text).await.map_err(shown).map(drop)
    }
}

/// Sends each entry once, by so many tasks, each of which sends one after the other.
pub(crate) async fn sends(to: &impl Sender, text: &Text, tasks: u32, entries: u32) -> Result<Duration, String> {
    let start = Instant::now();
    let mut running = JoinSet::new();
    for task in 0..tasks {
        let (to, mut text) = (to.clone(), text.clone());
        running.spawn(async move {
            for number in (FIRST + task..FIRST + entries).step_by(tasks as usize) {
                text.number = number;
                to.send(&text).await?;
            }
            Ok(())
        });
    }
    all_done(running, start).await
}

/// A way of consuming so many entries, each of which has to come once. A round says when it was done.
pub(crate) fn consuming<'a, F>(
    runtime: &'a Runtime,
    name: &'static str,
    entries: u32,
    round: impl Fn(Arc<Seen>) -> F + 'a,
) -> Way<'a>
where
    F: Future<Output = Result<Instant, String>>,
{
    Way::new(name, move || {
        let seen = Arc::new(Seen::new(entries));
        in_time(runtime, async {
            let start = Instant::now();
            Ok(round(seen.clone()).await?.duration_since(start))
        })
        .and_then(|took| seen.is_complete().map(|()| took))
    })
}

pub(crate) async fn now(round: impl Future<Output = Result<(), String>>) -> Result<Instant, String> {
    round.await.map(|()| Instant::now())
}

/// What RustStream's handlers work on.
pub(crate) struct Handled {
    seen: Arc<Seen>,
    done: mpsc::Sender<Result<(), String>>,
}

impl Handled {
    pub(crate) fn take<'t>(&self, texts: impl IntoIterator<Item = &'t Text>) -> HandlerOutcome {
        for text in texts {
            let done = match self.seen.mark(text) {
                Ok(false) => continue,
                Ok(true) => Ok(()),
                Err(problem) => Err(problem),
            };
            // The first outcome counts.
            let _ = self.done.try_send(done);
        }
        HandlerOutcome::ack()
    }
}

/// Runs an app of RustStream until its handler has had everything. What it is let go on for, and stopping it, isn't measured.
pub(crate) async fn handles<A: App>(
    seen: Arc<Seen>,
    app: impl FnOnce(Handled) -> A,
    goes_on: impl Future<Output = ()>,
) -> Result<Instant, String> {
    let (done, mut is_done) = mpsc::channel(1);
    let app = app(Handled { seen, done }).start().await.map_err(shown)?;
    let outcome = is_done.recv().await.unwrap_or_else(|| Err("the app ended".to_owned()));
    let at = Instant::now();
    goes_on.await;
    app.shutdown().await.map_err(shown).and(outcome).map(|()| at)
}
