//! What a network's events add up to, and the same straight from the file.

use std::collections::BTreeMap;
use std::fmt::{self, Write};

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What one network's events add up to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Account {
    /// How many there are.
    pub events: u64,
    /// How many of them have no magnitude.
    pub unknown: u64,
    /// The sum of the magnitudes, in hundredths.
    pub hundredths: i64,
}

/// Accounts by network.
pub type Accounts = BTreeMap<String, Account>;

impl Account {
    /// Adds one event.
    pub fn add(&mut self, hundredths: Option<i64>) {
        self.events += 1;
        match hundredths {
            Some(hundredths) => self.hundredths += hundredths,
            None => self.unknown += 1,
        }
    }

    /// Adds what other events add up to.
    pub fn join(&mut self, other: &Self) {
        self.events += other.events;
        self.unknown += other.unknown;
        self.hundredths += other.hundredths;
    }
}

/// A magnitude in hundredths, since sums of floats depend on the order.
#[must_use]
#[allow(clippy::cast_possible_truncation, reason = "magnitudes are small")]
pub fn hundredths(magnitude: f64) -> i64 {
    (magnitude * 100.0).round() as i64
}

/// Each network's account, straight from the file. It shares nothing with the types.
#[must_use]
pub fn accounts(plain: &Value) -> Accounts {
    let mut accounts = Accounts::new();
    for feature in plain["features"].as_array().into_iter().flatten() {
        let properties = &feature["properties"];
        let network = properties["net"].as_str().unwrap_or_default();
        accounts.entry(network.to_owned()).or_default().add(properties["mag"].as_f64().map(hundredths));
    }
    accounts
}

/// Says where accounts differ from what they should be.
#[must_use]
pub fn difference(got: &Accounts, wanted: &Accounts) -> Option<String> {
    let networks = wanted.keys().chain(got.keys()).collect::<std::collections::BTreeSet<_>>();
    let none = Account::default();
    let differences = networks.into_iter().filter_map(|network| {
        let account = |of: &Accounts| *of.get(network).unwrap_or(&none);
        let (wanted, got) = (account(wanted), account(got));
        (wanted != got).then(|| {
            format!(
                "`{network}` has {} events and {} hundredths, not {} and {}",
                got.events, got.hundredths, wanted.events, wanted.hundredths
            )
        })
    });
    let differences: Vec<String> = differences.collect();
    (!differences.is_empty()).then(|| differences.join("; "))
}

/// Prints a table of them, with the sum of all.
///
/// # Errors
///
/// The writer's.
pub fn write_accounts(to: &mut impl Write, accounts: &Accounts) -> fmt::Result {
    writeln!(to, "{:<8} {:>7} {:>8} {:>11}", "network", "events", "unknown", "magnitudes")?;
    let mut all = Account::default();
    for (network, account) in accounts {
        write_account(to, network, account)?;
        all.join(account);
    }
    write_account(to, "all", &all)
}

fn write_account(to: &mut impl Write, network: &str, account: &Account) -> fmt::Result {
    let Account { events, unknown, hundredths } = account;
    let sign = if *hundredths < 0 { "-" } else { "" };
    let (whole, rest) = (hundredths.unsigned_abs() / 100, hundredths.unsigned_abs() % 100);
    writeln!(to, "{network:<8} {events:>7} {unknown:>8} {:>11}", format!("{sign}{whole}.{rest:02}"))
}
