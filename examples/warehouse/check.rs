//! Compares what was counted with the plain file.

use serde_json::Value;
use tidings_examples::{accounts, difference};

use crate::run::{DOOMED, Outcome};

/// Everything that isn't as it should be.
pub(crate) fn faults(plain: &Value, outcome: &Outcome) -> Vec<String> {
    let mut faults = Vec::new();
    if let Some(difference) = difference(&outcome.accounts, &accounts(plain)) {
        faults.push(format!("the counts differ from the file: {difference}"));
    }
    if outcome.left > 0 {
        faults.push(format!("{} events were never committed", outcome.left));
    }
    if outcome.shares.get(DOOMED).is_none_or(|events| *events == 0) {
        faults.push(format!("`{DOOMED}` counted nothing before it was killed"));
    }
    faults
}
