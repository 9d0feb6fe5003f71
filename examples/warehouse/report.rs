//! What is printed: who counted how much, and the counts.

use std::fmt::Write as _;
use std::io::{Write as _, stdout};

use tidings_examples::write_accounts;

use crate::run::{DOOMED, MEMBERS, Outcome, PARTITIONS};

/// Prints the outcome and what is wrong with it.
pub(crate) fn print(outcome: &Outcome, faults: &[String]) {
    let mut text = String::new();
    // Writing to a `String` can't fail.
    let _ = write_report(&mut text, outcome, faults.is_empty());
    // Nobody is there to be told that nobody reads.
    let _ = stdout().lock().write_all(text.as_bytes());
    for fault in faults {
        eprintln!("warehouse: {fault}");
    }
}

fn write_report(to: &mut String, outcome: &Outcome, is_good: bool) -> std::fmt::Result {
    let Outcome { server, appended, accounts, shares, written, took, .. } = outcome;
    writeln!(to, "Appended {appended} events to {PARTITIONS} partitions on {server}, counted in {took:.1?}.\n")?;
    writeln!(to, "{:<10} {:>7}", "member", "counted")?;
    for member in MEMBERS {
        let killed = if member == DOOMED { "  killed with a page that it had counted and not recorded" } else { "" };
        writeln!(to, "{member:<10} {:>7}{killed}", shares.get(member).copied().unwrap_or(0))?;
    }
    writeln!(to, "\n{written} counts were recorded, each in one unit with the positions of what it counts.\n")?;
    write_accounts(to, accounts)?;
    if is_good {
        writeln!(to, "\nEvery event is counted once, and the sums are the file's own.")?;
    }
    Ok(())
}
