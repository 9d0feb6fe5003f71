//! Works out from the plain file what should have become of every event, and compares. It knows nothing of streams.

use serde_json::Value;
use tidings_examples::{accounts, difference, hundredths};

use crate::agents::{FELT, SLOW, STRONG};
use crate::module::FAILS;
use crate::run::Outcome;
use crate::tally::Tally;

/// Everything that isn't as it should be.
pub(crate) fn faults(plain: &Value, outcome: &Outcome) -> Vec<String> {
    let mut faults = Vec::new();
    let features: Vec<&Value> = plain["features"].as_array().into_iter().flatten().collect();
    let magnitudes: Vec<_> = features.iter().map(|feature| feature["properties"]["mag"].as_f64()).collect();
    let count = |is_meant: &dyn Fn(&Option<f64>) -> bool| magnitudes.iter().filter(|one| is_meant(one)).count() as u64;
    let all = magnitudes.len() as u64;
    let useless = count(&|magnitude| magnitude.is_none_or(|magnitude| hundredths(magnitude) < FELT));
    let strong = count(&|magnitude| magnitude.is_some_and(|magnitude| hundredths(magnitude) >= STRONG));
    let wanted = accounts(plain);
    let alaska = wanted.get("ak").copied().unwrap_or_default();

    let [(_, triage, _), (_, agent, _), (_, totals, _)] = &outcome.owners;
    let mut same = |what: &str, got: u64, wanted: u64| {
        if got != wanted {
            faults.push(format!("{what}: {got}, not {wanted}"));
        }
    };
    same("appended", outcome.appended as u64, all);
    same("refused for ever by triage", triage.all_terminated(), useless);
    same("looked at twice by triage", triage.delayed, strong);
    same("second attempts of triage", triage.attempts.get(&2).copied().unwrap_or(0), strong);
    same("acknowledged by triage", triage.acknowledged, all - useless);
    same("acknowledged by Alaska's agent", agent.acknowledged, alaska.events);
    same("first attempts of Alaska's agent", agent.deliveries(), alaska.events);
    same("acknowledged by the module", totals.acknowledged, all);
    same("refused for now by the module", totals.delayed, all / FAILS);
    if alaska.events >= SLOW as u64 && agent.kept_alive == 0 {
        faults.push("Alaska's agent was never slow".to_owned());
    }
    for (owner, tally, info) in &outcome.owners {
        let Tally { acknowledged, delayed, .. } = tally;
        let outcomes = acknowledged + delayed + tally.all_terminated();
        if tally.deliveries() != outcomes {
            faults.push(format!("`{owner}` got {} deliveries with {outcomes} outcomes", tally.deliveries()));
        }
        if (info.waiting, info.in_flight) != (0, 0) {
            faults.push(format!("`{owner}` has {} left and {} in flight", info.waiting, info.in_flight));
        }
    }
    faults.extend(difference(&totals.accounts, &wanted).map(|differs| format!("the totals differ: {differs}")));
    faults
}
