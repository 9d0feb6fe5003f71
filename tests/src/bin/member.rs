//! A member of a commit group in a process of its own, to be killed. It writes down what it gets, `h {position} {number}`
//! for each record, a batch by one write, so that what is written outlives it. It ends when its standard input does.

#![allow(clippy::disallowed_methods, reason = "a program of the tests, in which nothing tracks a thread")]

use std::env;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::sync::Arc;
use std::time::Duration;

use tidings::{Delivery, Stop, SupervisePolicy};
use tidings_tests::members::{Parcel, broker};

const BATCH: usize = 256;

#[tokio::main]
async fn main() {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let [url, journal, pace] = &arguments[..] else { panic!("give a URL, a journal, and µs for each batch") };
    let pace = Duration::from_micros(pace.parse().expect("a number of µs"));
    let journal = Arc::new(File::options().create(true).append(true).open(journal).expect("the journal can be opened"));
    let broker = broker(url);
    let stream = Parcel::stream(&broker).expect("it is bound once");
    let group = stream.commit_group("crew").expect("a good name");
    let stop = Stop::new();
    let parent = stop.clone();
    std::thread::spawn(move || {
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        parent.stop();
    });
    let worker = group
        .worker()
        .concurrency(4)
        .read_ahead(2_048)
        .backoff(SupervisePolicy::default().initial(Duration::from_millis(10)).max(Duration::from_millis(200)))
        .until(&stop)
        .on_notice(|notice| eprintln!("{notice}"))
        .with(journal.clone());
    let ended = worker
        .run_batches(BATCH, move |deliveries: Vec<Delivery<Parcel>>, journal: Arc<File>| async move {
            let mut lines = String::new();
            for delivery in deliveries {
                // Writing to a text can't fail.
                let _ = write!(lines, "h {} ", delivery.position());
                let _ = writeln!(lines, "{}", delivery.into_value()?.n);
            }
            (&*journal).write_all(lines.as_bytes())?;
            tokio::time::sleep(pace).await;
            Ok(())
        })
        .await;
    (&*journal).write_all(format!("ended {ended:?}\n").as_bytes()).expect("the journal can be written to");
}
