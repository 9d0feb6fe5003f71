//! Records that are worked off by the members of a commit group, processes of which some are killed, and an account of
//! what was handled twice and why.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use tempfile::TempDir;
use tidings::backend::{GroupProtocol, Kafka};
use tidings::{
    Broker, CommitGroup, Config, Limits, Namespace, Position, Positions, Start, Stream, StreamSettings, stream_spec,
};

use crate::harness::{PATIENCE, Program, eventually};

/// What is worked off.
#[stream_spec(name = "load.parcels", version = 1, key = u64, requires(commit_groups))]
#[derive(Serialize, Deserialize)]
pub struct Parcel {
    /// Its number.
    pub n: u64,
}

/// How much is to be done, and how.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The program of the members.
    pub program: PathBuf,
    /// Where the cluster is.
    pub url: String,
    /// Records.
    pub records: u64,
    /// Partitions of the stream.
    pub partitions: u32,
    /// Processes at once.
    pub members: usize,
    /// How long a batch takes.
    pub pace: Duration,
    /// How often one is killed.
    pub kill_every: Duration,
}

/// What became of the records.
#[derive(Clone, Debug, Default)]
pub struct Figures {
    /// Records that were appended and that no handler got.
    pub lost: Vec<u64>,
    /// Records that handlers got.
    pub handled: u64,
    /// Those beyond the first time.
    pub duplicates: u64,
    /// Those of a record that was committed before, or without a kill.
    pub unexplained: Vec<String>,
    /// Processes that were killed.
    pub kills: u64,
    /// From the first process until everything was committed.
    pub lasted: Duration,
    /// How long the appending took.
    pub appending: Duration,
}

/// What the brokers of all processes are built from. A member that was killed is missed after a second and a half.
///
/// # Panics
///
/// If the URL is none.
#[must_use]
pub fn broker(url: &str) -> Broker<Kafka> {
    let kafka = Kafka::new(url).expect("a good URL");
    let kafka = kafka.session_timeout(Duration::from_millis(1_500)).group_protocol(GroupProtocol::Classic);
    let limits = Limits::default().timeout(Duration::from_secs(10));
    let config = Config::new(Namespace::new("load", "test").expect("good names")).limits(limits);
    Broker::new(kafka, config).expect("a good configuration")
}

struct Child {
    program: Program,
    journal: PathBuf,
}

impl Child {
    fn start(path: &Path, arguments: &[String], journal: PathBuf) -> Self {
        let program = Program::start(path, arguments, Stdio::piped(), journal.with_extension("out"));
        Self { program, journal }
    }

    fn journal(&self) -> String {
        fs::read_to_string(&self.journal).unwrap_or_default()
    }

    async fn finish(mut self) {
        self.program.close_input();
        eventually("a member ends", || {
            let ended = self.program.ended();
            async move { ended.map(drop).ok_or("it runs") }
        })
        .await;
        let words = self.program.last_words();
        assert!(self.journal().ends_with("ended Ok(Stopped)\n"), "a member didn't end well: {words}");
    }
}

/// Works off the plan's records.
///
/// # Panics
///
/// If something fails that isn't about the records.
pub async fn work_off(plan: &Plan) -> Figures {
    let broker = broker(&plan.url);
    let stream = Parcel::stream(&broker).expect("it is bound once");
    stream.ensure(StreamSettings::new().partitions(plan.partitions)).await.expect("the stream is made");
    let group = stream.commit_group("crew").expect("a good name");
    group.ensure(Start::Earliest).await.expect("the group is recorded");
    let began = Instant::now();
    append(&stream, plan.records).await;
    let appending = began.elapsed();

    let folder = TempDir::with_prefix("tidings-load-").expect("the folder for temporary files is writable");
    let mut journals = Vec::new();
    let mut start = || {
        let journal = folder.path().join(format!("{}", journals.len()));
        journals.push(journal.clone());
        let arguments = [plan.url.clone(), journal.display().to_string(), plan.pace.as_micros().to_string()];
        (Child::start(&plan.program, &arguments, journal), journals.len() - 1)
    };
    let began = Instant::now();
    let mut members: Vec<_> = (0..plan.members).map(|_| start()).collect();
    let mut killed: BTreeMap<usize, Positions> = BTreeMap::new();
    loop {
        // The plan's own pace, not a wait for anything.
        tokio::time::sleep(plan.kill_every).await;
        if left(&group).await == Some(0) {
            break;
        }
        let index = killed.len() % members.len();
        let (member, process) = members.remove(index);
        // One that has nothing yet is no loss.
        if !member.journal().contains("h ") {
            members.insert(index, (member, process));
            continue;
        }
        drop(member);
        // Nobody else has its partitions yet, so what is committed of them is what it committed.
        let committed = eventually("what is committed is told", || async { group.committed().await }).await;
        killed.insert(process, committed);
        members.insert(index, start());
    }
    let lasted = began.elapsed();
    for (member, _) in members {
        member.finish().await;
    }
    let journals: Vec<String> = journals.iter().map(|path| fs::read_to_string(path).unwrap_or_default()).collect();
    let figures = account(&journals, &killed, plan.records);
    broker.close(PATIENCE).await.expect("it closes");
    Figures { lasted, appending, kills: killed.len() as u64, ..figures }
}

async fn append(stream: &Stream<Parcel, Kafka>, records: u64) {
    for first in (0..records).step_by(4_000) {
        let parcels: Vec<(u64, Parcel)> =
            (first..records.min(first + 4_000)).map(|n| (n % 1_000, Parcel { n })).collect();
        let receipts = stream.append_all(parcels.iter().map(|(key, parcel)| (key, parcel))).await.expect("a batch");
        for receipt in receipts {
            receipt.expect("each is appended");
        }
    }
}

async fn left(group: &CommitGroup<Parcel, Kafka>) -> Option<u64> {
    Some(group.lag().await.ok()?.iter().map(|lag| lag.records).sum())
}

/// Adds up what the processes wrote down; for those that were `killed` there is what was committed right after.
#[must_use]
pub fn account(journals: &[String], killed: &BTreeMap<usize, Positions>, records: u64) -> Figures {
    let mut calls: BTreeMap<u64, Vec<(usize, Position)>> = BTreeMap::new();
    let mut figures = Figures::default();
    for (process, journal) in journals.iter().enumerate() {
        for line in journal.lines() {
            let mut words = line.split(' ');
            if let (Some("h"), Some(position), Some(number)) = (words.next(), words.next(), words.next())
                && let (Ok(position), Ok(n)) = (position.parse(), number.parse())
            {
                calls.entry(n).or_default().push((process, position));
                figures.handled += 1;
            }
        }
    }
    for n in 0..records {
        let Some(calls) = calls.get(&n) else {
            figures.lost.push(n);
            continue;
        };
        figures.duplicates += calls.len() as u64 - 1;
        // All but one were in processes that were killed before they had committed it.
        let is_explained = |(process, position): &&(usize, Position)| {
            let committed = killed.get(process).map(|committed| committed.get(position.partition()));
            committed.is_some_and(|committed| committed.is_none_or(|committed| committed < *position))
        };
        if calls.len() - calls.iter().filter(is_explained).count() > 1 {
            figures.unexplained.push(format!("{n}: {calls:?}"));
        }
    }
    figures
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duplicate_is_explained_by_a_kill_before_its_commit_alone() {
        let journals = ["h 0:1 1\nh 0:2 2\n".to_owned(), "h 0:2 2\nh 0:3 3\n".to_owned(), "h 0:1 1\n".to_owned()];
        let killed = |at: u128| BTreeMap::from([(0, Positions::from(Position::new(0, at)))]);
        let figures = account(&journals[..2], &killed(1), 5);
        assert_eq!((figures.handled, figures.duplicates, figures.unexplained.len()), (4, 1, 0));
        assert_eq!(figures.lost, [0, 4]);
        assert_eq!(account(&journals, &killed(1), 5).unexplained.len(), 1);
        assert_eq!(account(&journals[..2], &killed(2), 5).unexplained.len(), 1);
        assert_eq!(account(&journals[..2], &BTreeMap::new(), 5).unexplained.len(), 1);
    }
}
