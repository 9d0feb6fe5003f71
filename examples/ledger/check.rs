//! Works out from the plain file what the books should say, and compares. It knows nothing of streams.

use serde_json::Value;
use tidings_examples::{accounts, difference};

use crate::run::Outcome;
use crate::work::DOOMED;

/// Everything that isn't as it should be.
pub(crate) fn faults(plain: &Value, outcome: &Outcome) -> Vec<String> {
    let Outcome { appended, repeated, duplicates, left, pending, pages, .. } = outcome;
    let mut faults = pages.refused.clone();
    if let Some(difference) = difference(&pages.accounts, &accounts(plain)) {
        faults.push(format!("the books differ from the file: {difference}"));
    }
    if pages.booked() != *appended {
        faults.push(format!("{} events are booked, and {appended} were appended", pages.booked()));
    }
    if duplicates != repeated {
        faults.push(format!("{repeated} were appended again, and {duplicates} were told as duplicates"));
    }
    if pages.claimed(left, DOOMED) == 0 {
        faults.push(format!("`{DOOMED}` was killed, and nothing of it was claimed"));
    }
    if *pending > 0 {
        faults.push(format!("{pending} entries were never acknowledged"));
    }
    faults
}
