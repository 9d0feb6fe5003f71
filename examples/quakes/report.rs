//! What is printed: a line that lives while it runs, and at the end who got what.

use std::fmt::Write as _;
use std::io::{IsTerminal, Write as _, stdout};

use tidings::Gap;

use crate::check::Verdict;
use crate::run::Outcome;

/// The live line. It shows on a terminal alone; a file or a pipe gets nothing of it.
pub(crate) struct Progress {
    total: usize,
    shown: bool,
}

impl Progress {
    pub(crate) fn new(total: usize) -> Self {
        Self { total, shown: stdout().is_terminal() }
    }

    pub(crate) fn show(&mut self, outcome: &Outcome) {
        let mut line = format!("published {:>5} of {}", outcome.published, self.total);
        for follower in &outcome.followers {
            let seen = follower.seen();
            // Writing to a `String` can't fail.
            let _ = write!(line, " | {}: {}", follower.interest.short(), seen.quakes.len());
            if !seen.gaps.is_empty() {
                let _ = write!(line, " (gap)");
            }
        }
        self.write(&format!("\r\x1b[K{line}"));
    }

    /// A terminal that is gone is no reason to fail: the line is just no longer shown.
    fn write(&mut self, text: &str) {
        if self.shown {
            let mut out = stdout().lock();
            self.shown = out.write_all(text.as_bytes()).and_then(|()| out.flush()).is_ok();
        }
    }
}

/// Nothing of it stays, however the run ended.
impl Drop for Progress {
    fn drop(&mut self) {
        self.write("\r\x1b[K");
    }
}

/// Prints what everyone got, the table, and the verdict.
pub(crate) fn print(outcome: &Outcome, verdict: &Verdict) {
    let mut text = String::new();
    // Writing to a `String` can't fail.
    let _ = write_report(&mut text, outcome, verdict);
    // Nobody is there to be told that nobody reads.
    let _ = stdout().lock().write_all(text.as_bytes());
    for fault in &verdict.faults {
        eprintln!("quakes: {fault}");
    }
}

fn write_report(to: &mut String, outcome: &Outcome, verdict: &Verdict) -> std::fmt::Result {
    write!(to, "Published {} events in {:.1?} on {}", outcome.published, outcome.took, outcome.server)?;
    match outcome.heard {
        Some(heard) => writeln!(to, ", which made {heard} deliveries.\n")?,
        None => writeln!(to, ".\n")?,
    }
    writeln!(to, "{:<36} {:>7} {:>8} {:>6}", "follower", "events", "re-read", "gaps")?;
    for follower in &outcome.followers {
        let seen = follower.seen();
        let (events, reread, gaps) = (seen.quakes.len(), seen.reread, &seen.gaps);
        writeln!(to, "{:<36} {events:>7} {reread:>8} {:>6}", follower.interest.to_string(), gaps.len())?;
        for gap in gaps {
            writeln!(to, "  {}", describe(gap))?;
        }
    }
    if outcome.followers.iter().any(|follower| !follower.seen().gaps.is_empty()) {
        writeln!(
            to,
            "\nWhat was published during a gap never reached the subscription; each follower was told and read"
        )?;
        writeln!(to, "it again from the journal.")?;
    }
    writeln!(to, "\n{:<8} {:>7} {:>10}  place", "network", "events", "strongest")?;
    for (network, line) in &verdict.table {
        let strongest = line.strongest.map_or_else(|| "unknown".to_owned(), |magnitude| format!("{magnitude:.1}"));
        writeln!(to, "{network:<8} {:>7} {strongest:>10}  {}", line.events, line.place)?;
    }
    if verdict.is_good() {
        writeln!(to, "\nEvery follower has every event once and in order, and the table is the file's own.")?;
    }
    Ok(())
}

fn describe(gap: &Gap) -> String {
    let attempts = match gap.attempts {
        0 => "subscribed again at the first attempt".to_owned(),
        failed => format!("subscribed again after {failed} failed attempts"),
    };
    format!("told of a gap: {}; {attempts}, {:.0?} later", gap.cause, gap.lasted)
}
