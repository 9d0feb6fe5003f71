//! A worker in a process of its own, to be killed. It writes down what it does, each line by one write, so that what is
//! written outlives it:
//!
//! | line | |
//! |---|---|
//! | `ready` | the worker is in reach of its group |
//! | `h {position} {attempt} {number}` | a handler got this |
//! | `s {position}` | its acknowledgement is about to be sent |
//! | `a {position}` | its acknowledgement is confirmed |
//! | `g {cause}` | a gap |
//! | `u {position}` | a delivery failed |
//!
//! It ends when its standard input does.

#![allow(clippy::disallowed_methods, reason = "a program of the tests, in which nothing tracks a thread")]

use std::env;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::sync::OnceLock;
use std::time::Duration;

use tidings::backend::{Redis, RedisCluster};
use tidings::capability::{AckGroups, BackendError, GroupAddress};
use tidings::{Broker, Delivery, Position, Stop, SupervisePolicy, WorkerNotice};
use tidings_tests::load::{Item, Task, config};
use tidings_tests::twisted::{ClientOf, Twist, Twisted};

static JOURNAL: OnceLock<File> = OnceLock::new();

fn write(line: &str) {
    let mut journal = JOURNAL.get().expect("it is opened first");
    journal.write_all(line.as_bytes()).expect("the journal can be written to");
}

fn write_each(word: char, positions: &[Position]) {
    let mut lines = String::new();
    for position in positions {
        // Writing to a text can't fail.
        let _ = writeln!(lines, "{word} {position}");
    }
    write(&lines);
}

/// Writes down acknowledgements before and after.
struct Witness<B>(std::marker::PhantomData<fn() -> B>);

impl<B: AckGroups> Twist for Witness<B> {
    type Inner = B;

    async fn ack(client: &ClientOf<Self>, group: &GroupAddress, positions: &[Position]) -> Result<u64, BackendError> {
        write_each('s', positions);
        let count = B::ack(client, group, positions).await?;
        write_each('a', positions);
        Ok(count)
    }
}

#[tokio::main]
async fn main() {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let task = Task::parse(&arguments).unwrap_or_else(|problem| panic!("{problem}"));
    let journal = File::options().create(true).append(true).open(&task.journal).expect("the journal can be opened");
    JOURNAL.set(journal).expect("it is set once");
    if task.urls.len() > 1 {
        work(RedisCluster::new(&task.urls).expect("good URLs"), task).await;
    } else {
        work(Redis::new(&task.urls[0]).expect("a good URL"), task).await;
    }
}

async fn work<B: AckGroups>(backend: B, task: Task) {
    let broker = Broker::new(Twisted::<Witness<B>>(backend), config()).expect("a good configuration");
    let stream = Item::stream(&broker).expect("it is bound once");
    let group = stream.ack_group("crew").expect("a good name");
    let stop = Stop::new();
    let parent = stop.clone();
    std::thread::spawn(move || {
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        parent.stop();
    });
    let worker = group
        .worker(&task.name)
        .concurrency(8)
        .read_ahead(task.read_ahead)
        .claim_after(task.claim_after)
        .backoff(SupervisePolicy::default().initial(Duration::from_millis(10)).max(Duration::from_millis(200)))
        .until(&stop)
        .on_notice(|notice| match notice {
            WorkerNotice::Ready => write("ready\n"),
            WorkerNotice::Gap(gap) => write(&format!("g {}\n", gap.cause.word())),
            WorkerNotice::Unsettled { position, .. } => write(&format!("u {position}\n")),
            _ => {}
        });
    let pace = task.pace;
    let ended = worker
        .run(move |delivery: Delivery<Item>, ()| async move {
            let (position, attempt) = (delivery.position(), delivery.attempt());
            write(&format!("h {position} {attempt} {}\n", delivery.into_value()?.n));
            tokio::time::sleep(pace).await;
            Ok(())
        })
        .await;
    write(&format!("ended {ended:?}\n"));
}
