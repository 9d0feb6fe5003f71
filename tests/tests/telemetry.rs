//! What the library says through `tracing`: OpenTelemetry's names, outcomes and causes, and nothing private.
//!
//! A program of its own with one test: whether anyone listens to a callsite is one cached answer for the whole process,
//! and a thread without a subscriber that meets a callsite first at that moment can cache "nobody" for all.

use std::io;
use std::sync::{Arc, Mutex};

use tidings::backend::Memory;
use tidings::{Broker, Config, Ended, Gap, Namespace, Stop, SupervisePolicy, topic};
use tracing::Level;
use tracing_subscriber::fmt::format::FmtSpan;
use tracing_subscriber::fmt::{MakeWriter, layer};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::registry;

const PRIVATE_KEY: &str = "mrs-jones";
const PRIVATE_TEXT: &str = "flat-12";

#[topic(name = "letters.sent", version = 3, key = String)]
#[derive(serde::Serialize, serde::Deserialize)]
struct LetterSent {
    to: String,
}

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }
}

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl MakeWriter<'_> for Log {
    type Writer = Self;

    fn make_writer(&self) -> Self {
        self.clone()
    }
}

/// Runs a letter's life, a refused publish and a supervision with a failed attempt and a gap.
async fn story() {
    let memory = Memory::new();
    let broker = Broker::new(memory.clone(), Config::new(Namespace::new("post", "test").unwrap())).unwrap();
    let topic = LetterSent::topic(&broker).unwrap();
    let key = PRIVATE_KEY.to_owned();
    let letter = LetterSent { to: PRIVATE_TEXT.to_owned() };
    let mut subscription = topic.subscribe(&key).await.unwrap();
    topic.publish(&key, &letter).await.unwrap();
    subscription.receive().await.unwrap();
    topic.publish_all([(&key, &letter), (&key, &letter)]).await.unwrap();
    memory.refuse(true);
    topic.publish(&key, &letter).await.unwrap_err();

    let stop = Stop::new();
    let supervision = topic.supervise(&key, SupervisePolicy::default()).with(stop.clone()).until(&stop).on_notice({
        let memory = memory.clone();
        move |notice| {
            if matches!(notice, tidings::Notice::Failed { .. }) {
                memory.refuse(false);
            }
        }
    });
    let ended = supervision.run(
        async |_, _| Ok(()),
        async |_: Gap, stop: Stop| {
            stop.stop();
            Ok(())
        },
    );
    assert_eq!(ended.await.unwrap(), Ended::Stopped);
    memory.disconnect();
    while subscription.receive().await.is_ok() {}
}

fn log_of(level: Level) -> String {
    let log = Log::default();
    let fmt = layer().with_ansi(false).with_span_events(FmtSpan::CLOSE).with_writer(log.clone());
    let subscriber = registry().with(tracing_subscriber::filter::LevelFilter::from_level(level)).with(fmt);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    tracing::subscriber::with_default(subscriber, || runtime.block_on(story()));
    log.text()
}

#[test]
fn what_is_said_has_the_fields_of_open_telemetry_and_nothing_private_and_only_warnings_at_their_level() {
    everything_has_its_fields();
    only_what_went_wrong_is_a_warning();
}

fn everything_has_its_fields() {
    let log = log_of(Level::TRACE);
    let line = |words: &[&str]| {
        let found = log.lines().any(|line| words.iter().all(|word| line.contains(word)));
        assert!(found, "no line has {words:?} in\n{log}");
    };
    let common = ["messaging.system=\"memory\"", "messaging.destination.name=letters.sent.v3"];
    let with = |words: &[&str]| line(&[&common[..], words].concat());
    with(&["DEBUG", "publish{otel.kind=\"producer\"", "messaging.operation.type=\"send\"", "tidings.heard=1"]);
    with(&["publish{", "messaging.batch.message_count=2", "tidings.outcome=\"applied\"", "tidings.failed=0"]);
    with(&["publish{", "tidings.outcome=\"not_applied\"", "error.type=\"unavailable\""]);
    with(&["subscribe{otel.kind=\"client\"", "tidings.outcome=\"applied\""]);
    with(&["TRACE", "received", "messaging.message.body.size=16"]);
    with(&["process{otel.kind=\"consumer\"", "messaging.operation.type=\"process\""]);
    with(&["WARN", "couldn't subscribe", "error.type=\"unavailable\"", "`Memory::refuse(true)`", "tidings.attempts=1"]);
    with(&["WARN", "delivery resumed after a gap", "error.type=\"disconnected\"", "tidings.attempts=1"]);
    with(&["DEBUG", "the supervision ended", "tidings.outcome=Stopped"]);
    with(&["WARN", "the subscription ended", "error.type=\"disconnected\"", "`Memory::disconnect`"]);
    for private in [PRIVATE_KEY, PRIVATE_TEXT] {
        assert!(!log.contains(private), "{private} stands in\n{log}");
    }
}

fn only_what_went_wrong_is_a_warning() {
    let log = log_of(Level::WARN);
    assert_eq!(log.lines().count(), 3, "{log}");
    assert!(log.lines().all(|line| line.contains("WARN tidings")), "{log}");
}
