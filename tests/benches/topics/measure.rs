//! Runs ways of doing one thing in turns, and says how they compare.

use std::fs;
use std::time::Duration;

/// What a round may take; one that takes longer has lost a message or hangs.
pub(crate) const ROUND: Duration = Duration::from_secs(30);
/// Rounds of each way, after one that isn't counted.
pub(crate) const ROUNDS: usize = 7;
/// The kernel's unit in `/proc/<pid>/stat`, on every Linux that runs here.
const TICKS_A_SECOND: f64 = 100.0;

type Step<'a> = Box<dyn FnMut() -> Result<(), String> + 'a>;

/// One way of doing a thing. A round says how long it took, or what went wrong.
pub(crate) struct Way<'a> {
    name: &'static str,
    before: Step<'a>,
    round: Box<dyn FnMut() -> Result<Duration, String> + 'a>,
    after: Step<'a>,
}

impl<'a> Way<'a> {
    pub(crate) fn new(name: &'static str, round: impl FnMut() -> Result<Duration, String> + 'a) -> Self {
        Self { name, before: Box::new(|| Ok(())), round: Box::new(round), after: Box::new(|| Ok(())) }
    }

    /// Prepares each round and checks what it left, neither of which is measured.
    #[allow(dead_code, reason = "each bench uses a part of this module")]
    pub(crate) fn between(
        mut self,
        before: impl FnMut() -> Result<(), String> + 'a,
        after: impl FnMut() -> Result<(), String> + 'a,
    ) -> Self {
        self.before = Box::new(before);
        self.after = Box::new(after);
        self
    }
}

/// What the rounds of one way came to.
pub(crate) struct Row {
    pub(crate) name: &'static str,
    /// Nanoseconds for a message, sorted.
    each: Vec<f64>,
    /// How much of a core the server took, if there is a server.
    server: Option<f64>,
}

impl Row {
    pub(crate) fn median(&self) -> f64 {
        self.each[self.each.len() / 2]
    }

    fn best(&self) -> f64 {
        self.each[0]
    }

    /// Whether the middle halves of the rounds overlap.
    fn is_like(&self, other: &Self) -> bool {
        let middle = |row: &Self| (row.each[row.each.len() / 4], row.each[row.each.len() * 3 / 4]);
        let ((low, high), (other_low, other_high)) = (middle(self), middle(other));
        low <= other_high && other_low <= high
    }
}

/// Runs every way in turns.
pub(crate) fn take_turns(messages: u32, server: Option<u32>, ways: Vec<Way<'_>>) -> Result<Vec<Row>, String> {
    take_turns_of(ROUNDS, messages, server, ways)
}

/// Runs every way in so many turns.
pub(crate) fn take_turns_of(
    rounds: usize,
    messages: u32,
    server: Option<u32>,
    mut ways: Vec<Way<'_>>,
) -> Result<Vec<Row>, String> {
    let mut rows: Vec<_> =
        ways.iter().map(|way| Row { name: way.name, each: Vec::new(), server: server.map(|_| 0.0) }).collect();
    let mut walls = vec![0.0; ways.len()];
    for round in 0..=rounds {
        for ((way, row), wall) in ways.iter_mut().zip(&mut rows).zip(&mut walls) {
            let named = |problem| format!("{}: {problem}", way.name);
            (way.before)().map_err(named)?;
            let before = server.map(cpu_seconds);
            let took = (way.round)().map_err(named)?;
            let after = server.map(cpu_seconds);
            (way.after)().map_err(named)?;
            if round == 0 {
                continue;
            }
            row.each.push(took.as_secs_f64() * 1e9 / f64::from(messages));
            *wall += took.as_secs_f64();
            if let (Some(before), Some(after), Some(total)) = (before, after, &mut row.server) {
                *total += after - before;
            }
        }
    }
    for (row, wall) in rows.iter_mut().zip(walls) {
        row.each.sort_unstable_by(f64::total_cmp);
        row.server = row.server.map(|seconds| seconds / wall);
    }
    Ok(rows)
}

/// The CPU time that this thread has taken: unlike the wall clock it leaves out what else the machine runs.
#[allow(dead_code, reason = "each bench uses a part of this module")]
pub(crate) fn thread_time() -> Duration {
    let schedule = fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    Duration::from_nanos(schedule.split(' ').next().and_then(|nanos| nanos.parse().ok()).unwrap_or_default())
}

/// The CPU time that a process has taken.
fn cpu_seconds(pid: u32) -> f64 {
    let line = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // The name stands in parentheses; user and system time are the 12th and 13th field behind it.
    let fields = line.rsplit_once(") ").map_or("", |(_, fields)| fields).split(' ').skip(11).take(2);
    fields.filter_map(|ticks| ticks.parse::<f64>().ok()).sum::<f64>() / TICKS_A_SECOND
}

/// Prints a table: the first row is the library's, the others are twins. `least` is the ratio of rates to the better
/// twin that is aimed at.
pub(crate) fn print(title: &str, rows: &[Row], least: f64) {
    print_each(title, rows, &[Some(least)]);
}

/// Prints a table whose first rows are the library's, as many as there are aims; the others are twins.
pub(crate) fn print_each(title: &str, rows: &[Row], least: &[Option<f64>]) {
    let (ours, twins) = rows.split_at(least.len());
    let Some(twin) = twins.iter().min_by(|a, b| a.median().total_cmp(&b.median())) else { return };
    print_rows(title, rows);
    for (row, least) in ours.iter().zip(least) {
        print_ratio(row, twin, *least, ours.len() > 1);
    }
}

/// Prints a table whose last rows are twins, each with its aim if there is one; the others are the library's.
#[allow(dead_code, reason = "each bench uses a part of this module")]
pub(crate) fn print_beside(title: &str, rows: &[Row], least: &[Option<f64>]) {
    let (ours, twins) = rows.split_at(rows.len() - least.len());
    print_rows(title, rows);
    for row in ours {
        for (twin, least) in twins.iter().zip(least) {
            print_ratio(row, twin, *least, ours.len() > 1);
        }
    }
}

/// Prints a table of the library's rows and then their twins; each of the library's has an aim beside twins of its own, the
/// fastest of which counts.
#[allow(dead_code, reason = "each bench uses a part of this module")]
pub(crate) fn print_own(title: &str, rows: &[Row], own: &[(&[&str], f64)]) {
    let (ours, twins) = rows.split_at(own.len());
    print_rows(title, rows);
    for (row, (names, least)) in ours.iter().zip(own) {
        let fastest = |twins: &mut dyn Iterator<Item = &'_ Row>| {
            twins.min_by(|a, b| a.median().total_cmp(&b.median())).map(|twin| twin.name)
        };
        let aim = fastest(&mut twins.iter().filter(|twin| names.contains(&twin.name)));
        for twin in twins {
            print_ratio(row, twin, (Some(twin.name) == aim).then_some(*least), true);
        }
    }
}

fn print_rows(title: &str, rows: &[Row]) {
    println!("\n{title}");
    for row in rows {
        let server = row.server.map_or(String::new(), |share| format!("   server {:3.0} %", share * 100.0));
        println!("  {:34} median {:9.1}   best {:9.1} ns a message{server}", row.name, row.median(), row.best());
    }
}

fn print_ratio(row: &Row, twin: &Row, least: Option<f64>, named: bool) {
    /// Above this share of a core the server is what limits both.
    const BOUND: f64 = 0.9;
    let bound = |row: &Row| row.server.is_some_and(|share| share > BOUND);
    let ratio = twin.median() / row.median();
    let label = match (bound(row) && bound(twin), row.is_like(twin)) {
        (true, _) => ", broker-bound",
        (false, true) => ", indistinguishable",
        (false, false) => "",
    };
    let verdict = least.map_or(String::new(), |least| {
        format!("; at least {least:.2}: {}", if ratio >= least { "holds" } else { "missed" })
    });
    let name = if named { format!("{}: ", row.name) } else { String::new() };
    println!("  {name}rate {ratio:.2} of `{}`{label}{verdict}", twin.name);
}

/// Prints a table: the last row is what the others are built on, and what each may take over it, in nanoseconds.
#[allow(dead_code, reason = "each bench uses a part of this module")]
pub(crate) fn print_over(title: &str, rows: &[Row], most: &[Option<f64>]) {
    let Some((base, rows)) = rows.split_last() else { return };
    println!("\n{title}");
    println!("  {:34} median {:9.1}   best {:9.1} ns a message", base.name, base.median(), base.best());
    for (row, most) in rows.iter().zip(most) {
        let over = row.median() - base.median();
        let verdict = most.map_or(String::new(), |most| {
            format!("; at most {most:.0}: {}", if over <= most { "holds" } else { "missed" })
        });
        println!(
            "  {:34} median {:9.1}   best {:9.1} ns a message, {over:.1} more{verdict}",
            row.name,
            row.median(),
            row.best()
        );
    }
}
