//! Entries that are worked off by processes of which some are killed, and an account of what was handled twice and why.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use tempfile::TempDir;
use tidings::capability::AckGroups;
use tidings::{AckGroup, Broker, Config, Limits, Namespace, Start, Stream, StreamSettings, stream_spec};

use crate::harness::{PATIENCE, Program, eventually};

/// What is worked off.
#[stream_spec(name = "load.items", version = 1, key = u64, requires(ack_groups))]
#[derive(Serialize, Deserialize)]
pub struct Item {
    /// Its number.
    pub n: u64,
}

/// What the brokers of all processes are built from.
#[must_use]
pub fn config() -> Config {
    let limits = Limits::default().timeout(Duration::from_secs(2)).heartbeat(Duration::from_millis(500));
    Config::new(Namespace::new("load", "test").expect("good names")).limits(limits)
}

/// What one process is to do.
#[derive(Clone, Debug)]
pub struct Task {
    /// Where the server is; several for a cluster.
    pub urls: Vec<String>,
    /// The consumer's name.
    pub name: String,
    /// Where it writes down what it does.
    pub journal: PathBuf,
    /// How long a handler takes.
    pub pace: Duration,
    /// When what others left is claimed.
    pub claim_after: Duration,
    /// Entries that wait.
    pub read_ahead: usize,
}

impl Task {
    /// The arguments by which a process is told.
    #[must_use]
    pub fn arguments(&self) -> Vec<String> {
        vec![
            self.urls.join(","),
            self.name.clone(),
            self.journal.display().to_string(),
            self.pace.as_micros().to_string(),
            self.claim_after.as_millis().to_string(),
            self.read_ahead.to_string(),
        ]
    }

    /// Reads the arguments.
    ///
    /// # Errors
    ///
    /// What is wrong with them.
    pub fn parse(arguments: &[String]) -> Result<Self, String> {
        let [urls, name, journal, pace, claim_after, read_ahead] = arguments else {
            return Err("give URLs joined by commas, a name, a journal, µs for each entry, ms to claim after, and how many may wait".to_owned());
        };
        let number = |text: &str| text.parse::<u64>().map_err(|_| format!("`{text}` is no number"));
        Ok(Self {
            urls: urls.split(',').map(ToOwned::to_owned).collect(),
            name: name.clone(),
            journal: journal.into(),
            pace: Duration::from_micros(number(pace)?),
            claim_after: Duration::from_millis(number(claim_after)?),
            read_ahead: usize::try_from(number(read_ahead)?).map_err(|error| error.to_string())?,
        })
    }
}

/// A worker in a process of its own.
#[derive(Debug)]
pub struct Child {
    program: Program,
    task: Task,
}

impl Child {
    /// Starts the program at `path`.
    #[must_use]
    pub fn start(path: &Path, task: Task) -> Self {
        let log = task.journal.with_extension("out");
        let program = Program::start(path, &task.arguments(), Stdio::piped(), log);
        Self { program, task }
    }

    /// Kills it, as `kill -9` does.
    pub fn kill(self) {
        drop(self.program);
    }

    /// Lets it finish and end, and returns when it has.
    pub async fn finish(mut self) {
        self.program.close_input();
        eventually(format!("`{}` ends", self.task.name), || {
            let ended = self.program.ended();
            async move { ended.map(drop).ok_or("it runs") }
        })
        .await;
        let words = self.program.last_words();
        let journal = fs::read_to_string(&self.task.journal).unwrap_or_default();
        assert!(journal.contains("ended Ok(Stopped)"), "`{}` didn't end well: {words}", self.task.name);
    }

    /// What it wrote down so far.
    #[must_use]
    pub fn journal(&self) -> String {
        fs::read_to_string(&self.task.journal).unwrap_or_default()
    }

    /// The process's id.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.program.id()
    }

    /// Waits until what it wrote down is as wanted.
    pub async fn wrote(&self, what: &str, wanted: impl Fn(&str) -> bool) {
        eventually(format!("`{}` {what}", self.task.name), || async {
            let journal = self.journal();
            if wanted(&journal) { Ok(()) } else { Err(format!("it wrote {} bytes", journal.len())) }
        })
        .await;
    }
}

/// How much is to be done, and how.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The program of the children.
    pub program: PathBuf,
    /// Where the server is.
    pub urls: Vec<String>,
    /// Entries.
    pub entries: u64,
    /// Partitions of the stream.
    pub partitions: u32,
    /// Processes at once.
    pub processes: usize,
    /// How long a handler takes.
    pub pace: Duration,
    /// When what was left is claimed.
    pub claim_after: Duration,
    /// When one is killed.
    pub kill: Kill,
}

/// When a process is killed.
#[derive(Clone, Copy, Debug)]
pub enum Kill {
    /// Each time that so long has passed, until all was handed out.
    Every(Duration),
    /// So many times, evenly by what was acknowledged.
    Times(u64),
}

/// What became of the entries.
#[derive(Clone, Debug, Default)]
pub struct Figures {
    /// Entries that were appended and that no handler got.
    pub lost: Vec<u64>,
    /// Handlers' calls.
    pub handled: u64,
    /// Calls beyond the first of an entry.
    pub duplicates: u64,
    /// Those that no kill explains.
    pub unexplained: Vec<String>,
    /// Processes that were killed, under their own name again and under another.
    pub kills: (u64, u64),
    /// From the first process until everything was acknowledged.
    pub lasted: Duration,
    /// How long the appending took.
    pub appending: Duration,
    /// Gaps that the processes told.
    pub gaps: u64,
}

/// Works off the plan's entries.
pub async fn work_off<B: AckGroups>(backend: B, plan: &Plan) -> Figures {
    let broker = Broker::new(backend, config()).expect("a good configuration");
    let stream = Item::stream(&broker).expect("it is bound once");
    let settings = StreamSettings::new().partitions(plan.partitions);
    stream.ensure(settings).await.expect("the stream is made");
    let group = stream.ack_group("crew").expect("a good name");
    group.ensure(Start::Earliest).await.expect("the group is made");
    let began = Instant::now();
    append(&stream, plan.entries).await;
    let appending = began.elapsed();

    let folder = TempDir::with_prefix("tidings-load-").expect("the folder for temporary files is writable");
    let mut incarnations = 0;
    let mut journals = Vec::new();
    let mut start = |name: String| {
        incarnations += 1;
        let journal = folder.path().join(format!("{incarnations}-{name}"));
        journals.push(journal.clone());
        let (urls, pace, claim_after) = (plan.urls.clone(), plan.pace, plan.claim_after);
        let child = Child::start(&plan.program, Task { urls, name, journal, pace, claim_after, read_ahead: 256 });
        (child, incarnations)
    };
    let began = Instant::now();
    let mut children: Vec<_> = (0..plan.processes).map(|index| start(format!("hand-{index}"))).collect();
    let mut killed = Vec::new();
    let mut kills = (0, 0);
    loop {
        let done = match plan.kill {
            Kill::Every(time) => {
                // The plan's own pace, not a wait for anything.
                tokio::time::sleep(time).await;
                settled(&group, plan.entries).await >= plan.entries
            }
            Kill::Times(times) => {
                let count = killed.len() as u64;
                if count < times {
                    let mark = plan.entries * (count + 1) / (times + 2);
                    reached(&group, plan.entries, mark).await;
                }
                count >= times
            }
        };
        if done {
            break;
        }
        let index = killed.len() % children.len();
        let (child, incarnation) = &children[index];
        child.wrote("is ready", |journal| journal.starts_with("ready")).await;
        let name = child.task.name.clone();
        killed.push(*incarnation);
        // Every other time it comes back under another name, so that what it left has to be claimed.
        let again = if killed.len().is_multiple_of(2) {
            kills.1 += 1;
            format!("hand-{index}-{}", killed.len())
        } else {
            kills.0 += 1;
            name
        };
        children.remove(index).0.kill();
        children.insert(index, start(again));
    }
    reached(&group, plan.entries, plan.entries).await;
    let lasted = began.elapsed();
    for (child, _) in children {
        child.finish().await;
    }
    let journals: Vec<String> = journals.iter().map(|path| fs::read_to_string(path).unwrap_or_default()).collect();
    let mut figures = account(&journals, &killed, plan.entries);
    figures.kills = kills;
    figures.lasted = lasted;
    figures.appending = appending;
    broker.close(PATIENCE).await.expect("it closes");
    figures
}

async fn append<B: AckGroups>(stream: &Stream<Item, B>, entries: u64) {
    let items: Vec<(u64, Item)> = (0..entries).map(|n| (n % 1_000, Item { n })).collect();
    for part in items.chunks(2_000) {
        let receipts = stream.append_all(part.iter().map(|(key, item)| (key, item))).await.expect("a batch");
        for receipt in receipts {
            receipt.expect("each is appended");
        }
    }
}

/// How many entries are acknowledged.
async fn settled<B: AckGroups>(group: &AckGroup<Item, B>, entries: u64) -> u64 {
    match group.depth().await {
        Ok(depth) => entries.saturating_sub(depth.pending + depth.unread.unwrap_or(entries)),
        Err(_) => 0,
    }
}

/// Waits until so many are acknowledged.
async fn reached<B: AckGroups>(group: &AckGroup<Item, B>, entries: u64, mark: u64) {
    let mut last = settled(group, entries).await;
    // As long as something happens it goes on, however slow the machine is.
    while last < mark {
        let now = eventually(format!("more than {last} of {entries} are acknowledged"), || async {
            let now = settled(group, entries).await;
            if now > last { Ok(now) } else { Err(format!("{now} are")) }
        })
        .await;
        last = now;
    }
}

/// Adds up what the processes wrote down; those that were `killed` are named by their number, from 1.
#[must_use]
pub fn account(journals: &[String], killed: &[usize], entries: u64) -> Figures {
    struct Call {
        process: usize,
        attempt: u32,
        confirmed: bool,
    }
    let mut calls: BTreeMap<u64, Vec<Call>> = BTreeMap::new();
    let mut figures = Figures::default();
    for (index, journal) in journals.iter().enumerate() {
        let process = index + 1;
        let mut numbers: HashMap<&str, u64> = HashMap::new();
        for line in journal.lines() {
            let mut words = line.split(' ');
            match (words.next(), words.next(), words.next(), words.next()) {
                (Some("h"), Some(position), Some(attempt), Some(number)) => {
                    let (Ok(attempt), Ok(n)) = (attempt.parse(), number.parse()) else { continue };
                    numbers.insert(position, n);
                    calls.entry(n).or_default().push(Call { process, attempt, confirmed: false });
                    figures.handled += 1;
                }
                (Some("a"), Some(position), ..) => {
                    let n = numbers.get(position).copied();
                    let of = n.and_then(|n| calls.get_mut(&n));
                    let own = of.and_then(|calls| calls.iter_mut().rev().find(|call| call.process == process));
                    if let Some(call) = own {
                        call.confirmed = true;
                    }
                }
                (Some("g"), ..) => figures.gaps += 1,
                _ => {}
            }
        }
    }
    for n in 0..entries {
        let Some(calls) = calls.get(&n) else {
            figures.lost.push(n);
            continue;
        };
        figures.duplicates += calls.len() as u64 - 1;
        // All but one were in processes that were killed before the acknowledgement was confirmed.
        let cut_short = calls.iter().filter(|call| !call.confirmed && killed.contains(&call.process)).count();
        if calls.len() - cut_short > 1 {
            let told: Vec<_> = calls
                .iter()
                .map(|call| format!("process {} attempt {} confirmed {}", call.process, call.attempt, call.confirmed))
                .collect();
            figures.unexplained.push(format!("{n}: {}", told.join(", ")));
        }
    }
    figures
}
