//! What is printed: who got what at which attempt, and what became of it.

use std::fmt::Write as _;
use std::io::{Write as _, stdout};

use tidings_examples::write_accounts;

use crate::run::Outcome;

/// Prints the outcome and what is wrong with it.
pub(crate) fn print(outcome: &Outcome, faults: &[String]) {
    let mut text = String::new();
    // Writing to a `String` can't fail.
    let _ = write_report(&mut text, outcome, faults.is_empty());
    // Nobody is there to be told that nobody reads.
    let _ = stdout().lock().write_all(text.as_bytes());
    for fault in faults {
        eprintln!("agents: {fault}");
    }
}

fn write_report(to: &mut String, outcome: &Outcome, is_good: bool) -> std::fmt::Result {
    let Outcome { server, appended, owners, took } = outcome;
    writeln!(to, "Appended {appended} events on {server}, settled in {took:.1?}.\n")?;
    writeln!(
        to,
        "{:<10} {:>10} {:>7} {:>7} {:>7} {:>7} {:>8} {:>11} {:>11}",
        "durable", "deliveries", "1st", "2nd", "later", "acked", "delayed", "terminated", "kept alive"
    )?;
    for (owner, tally, _) in owners {
        let of = |attempt| tally.attempts.get(&attempt).copied().unwrap_or(0);
        let later: u64 = tally.attempts.range(3..).map(|(_, count)| count).sum();
        writeln!(
            to,
            "{:<10} {:>10} {:>7} {:>7} {later:>7} {:>7} {:>8} {:>11} {:>11}",
            owner.to_string(),
            tally.deliveries(),
            of(1),
            of(2),
            tally.acknowledged,
            tally.delayed,
            tally.all_terminated(),
            tally.kept_alive
        )?;
    }
    writeln!(to)?;
    for (owner, tally, _) in owners {
        for (reason, count) in &tally.terminated {
            writeln!(to, "`{owner}` terminated {count}: {reason}.")?;
        }
    }
    let [.., (owner, totals, _)] = owners;
    writeln!(to, "`{owner}` adds up:\n")?;
    write_accounts(to, &totals.accounts)?;
    if is_good {
        writeln!(to, "\nEvery delivery has one outcome, and the sums are the file's own.")?;
    }
    Ok(())
}
