//! Works out from the plain file what the books should say, and compares. It knows nothing of streams.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::books::Account;
use crate::run::Outcome;
use crate::work::DOOMED;

/// Everything that isn't as it should be.
pub(crate) fn faults(plain: &Value, outcome: &Outcome) -> Vec<String> {
    let Outcome { appended, repeated, duplicates, left, pending, pages, .. } = outcome;
    let mut faults = pages.refused.clone();
    let wanted = accounts(plain);
    if pages.accounts != wanted {
        let networks = wanted.keys().chain(pages.accounts.keys()).collect::<std::collections::BTreeSet<_>>();
        let (none, mut differences) = (Account::default(), Vec::new());
        for network in networks {
            let account = |of: &BTreeMap<_, _>| *of.get(network).unwrap_or(&none);
            let (wanted, got) = (account(&wanted), account(&pages.accounts));
            if wanted != got {
                differences.push(format!(
                    "`{network}` has {} events and {} hundredths, not {} and {}",
                    got.events, got.hundredths, wanted.events, wanted.hundredths
                ));
            }
        }
        faults.push(format!("the books differ from the file: {}", differences.join("; ")));
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

/// Each network's account, straight from the file.
fn accounts(plain: &Value) -> BTreeMap<String, Account> {
    let mut accounts: BTreeMap<String, Account> = BTreeMap::new();
    for feature in plain["features"].as_array().into_iter().flatten() {
        let properties = &feature["properties"];
        let network = properties["net"].as_str().unwrap_or_default();
        #[allow(clippy::cast_possible_truncation, reason = "magnitudes are small")]
        let hundredths = properties["mag"].as_f64().map(|magnitude| (magnitude * 100.0).round() as i64);
        accounts.entry(network.to_owned()).or_default().add(hundredths);
    }
    accounts
}
