use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::*;
use crate as tidings;
use crate::backend::Memory;
use crate::{Broker, Config, Namespace, TopicSpec};

#[crate::topic(name = "counted", version = 1, key = u8, crate = tidings)]
#[derive(serde::Serialize, serde::Deserialize)]
struct Counted(u32);

fn broker(memory: &Memory) -> Broker<Memory> {
    Broker::new(memory.clone(), Config::new(Namespace::new("a", "b").unwrap()).random(|| u64::MAX)).unwrap()
}

async fn publish(broker: &Broker<Memory>, value: u32) {
    let topic = Counted::topic(broker).unwrap();
    while topic.publish(&1, &Counted(value)).await.unwrap().count() == Some(0) {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

#[tokio::test(start_paused = true)]
#[allow(clippy::disallowed_methods)]
async fn a_spawned_supervision_backs_off_tells_the_gap_and_every_step_and_stops() {
    let memory = Memory::new();
    let broker = broker(&memory);
    let seen: Arc<Mutex<Vec<String>>> = Arc::default();
    let stop = Stop::new();
    let run = Counted::topic(&broker).unwrap().supervise(&1, SupervisePolicy::default()).until(&stop);
    let news: Arc<Mutex<Vec<String>>> = Arc::default();
    let heard = news.clone();
    let run = run.on_notice(move |notice| {
        tidings::broker::lock(&heard).push(match notice {
            Notice::Ready => "ready".to_owned(),
            Notice::Interrupted { error } => format!("{:?}", error.kind()),
            Notice::Failed { error, attempts } => format!("{:?} {attempts}", error.kind()),
        });
    });
    let task = tokio::spawn(run.with((seen.clone(), stop)).run(
        async |event, (seen, stop)| {
            tidings::broker::lock(&seen).push(event.0.to_string());
            if event.0 == 2 {
                stop.stop();
            }
            Ok(())
        },
        async |gap: Gap, (seen, _)| {
            tidings::broker::lock(&seen).push(format!("{:?} {} {:?}", gap.cause, gap.attempts, gap.lasted));
            Ok(())
        },
    ));
    publish(&broker, 1).await;
    memory.refuse(true);
    memory.disconnect();
    // Waits of 100, 200, 400 and 800 ms; the fourth attempt finds it reachable again.
    tokio::time::sleep(Duration::from_millis(750)).await;
    memory.refuse(false);
    publish(&broker, 2).await;
    assert_eq!(task.await.unwrap().unwrap(), Ended::Stopped);
    assert_eq!(Counted::topic(&broker).unwrap().channel_of(&1).unwrap(), "a.b.topic.counted.v1.1");
    assert_eq!(*tidings::broker::lock(&seen), ["1", "Disconnected 3 1.5s", "2"]);
    let told = tidings::broker::lock(&news);
    let failed = ["Unavailable 1", "Unavailable 2", "Unavailable 3"];
    assert_eq!(*told, [&["ready", "Ended(Disconnected)"], &failed[..], &["ready"]].concat());
    assert_eq!(Counted::DECLARATION.to_string(), "counted.v1");
}

struct Explodes;

impl serde::Serialize for Explodes {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_unit()
    }
}

impl<'de> serde::Deserialize<'de> for Explodes {
    fn deserialize<D: serde::Deserializer<'de>>(_: D) -> Result<Self, D::Error> {
        panic!("while decoding")
    }
}

#[crate::topic(name = "explodes", version = 1, crate = tidings)]
#[derive(serde::Serialize, serde::Deserialize)]
struct Exploding(Explodes);

#[tokio::test]
async fn a_panic_while_decoding_ends_a_supervision_with_an_error() {
    let broker = broker(&Memory::new());
    let topic = Exploding::topic(&broker).unwrap();
    let run = topic.supervise(&(), SupervisePolicy::default()).run(async |_, ()| Ok(()), async |_, ()| Ok(()));
    let publish = async {
        while topic.publish(&(), &Exploding(Explodes)).await.unwrap().count() == Some(0) {
            tokio::task::yield_now().await;
        }
    };
    let (ended, ()) = tokio::join!(run, publish);
    let error = ended.unwrap_err();
    assert_eq!(error.kind(), crate::ErrorKind::Panicked);
    assert!(error.to_string().contains("while decoding"), "{error}");
}
