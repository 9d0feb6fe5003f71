//! What is printed: who did what, what became of the one that was killed, and the books.

use std::fmt::Write as _;
use std::io::{Write as _, stdout};

use tidings_examples::write_accounts;

use crate::run::{Outcome, PARTITIONS};
use crate::work::{DOOMED, WORKERS};

/// Prints the outcome and what is wrong with it.
pub(crate) fn print(outcome: &Outcome, faults: &[String]) {
    let mut text = String::new();
    // Writing to a `String` can't fail.
    let _ = write_report(&mut text, outcome, faults.is_empty());
    // Nobody is there to be told that nobody reads.
    let _ = stdout().lock().write_all(text.as_bytes());
    for fault in faults {
        eprintln!("ledger: {fault}");
    }
}

fn write_report(to: &mut String, outcome: &Outcome, is_good: bool) -> std::fmt::Result {
    let Outcome { server, appended, repeated, duplicates, left, pages, took, .. } = outcome;
    writeln!(to, "Appended {appended} events to {PARTITIONS} partitions on {server}, booked in {took:.1?}.")?;
    writeln!(to, "Appended {repeated} of them again: {duplicates} were told as duplicates and stored nothing.\n")?;

    writeln!(to, "{:<10} {:>7} {:>12} {:>15}", "worker", "booked", "redelivered", "booked already")?;
    for worker in WORKERS {
        let share = pages.shares.get(worker).cloned().unwrap_or_default();
        let killed = if worker == DOOMED { "  killed" } else { "" };
        writeln!(to, "{worker:<10} {:>7} {:>12} {:>15}{killed}", share.booked, share.redelivered, share.repeated)?;
    }
    let claimed = pages.claimed(left, DOOMED);
    writeln!(to, "\n`{DOOMED}` left {} entries pending; the others claimed {claimed} of them.\n", left.len())?;

    write_accounts(to, &pages.accounts)?;
    if is_good {
        writeln!(to, "\nEvery event is booked once, and the sums are the file's own.")?;
    }
    Ok(())
}
