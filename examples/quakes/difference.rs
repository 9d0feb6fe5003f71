//! Tells how what was received differs from what should have been.

use std::collections::HashMap;

/// Says how the ids that were received differ from the wanted ones: every one once, in this order.
pub(crate) fn difference(wanted: &[&str], got: &[&str]) -> Option<String> {
    if wanted == got {
        return None;
    }
    let missing = surplus(wanted, got);
    let extra = surplus(got, wanted);
    let mut said = Vec::new();
    if !missing.is_empty() {
        said.push(format!("{} of {} missing ({})", missing.len(), wanted.len(), first_few(&missing)));
    }
    if !extra.is_empty() {
        said.push(format!("{} too many ({})", extra.len(), first_few(&extra)));
    }
    if said.is_empty() {
        let at = wanted.iter().zip(got).position(|(wanted, got)| wanted != got).unwrap_or_default();
        said.push(format!("out of order from event {} (`{}`) on", at + 1, got[at]));
    }
    Some(said.join(", "))
}

/// What is left of some ids when each of the others has taken one that is the same.
fn surplus<'a>(ids: &[&'a str], others: &[&str]) -> Vec<&'a str> {
    let mut left: HashMap<&str, usize> = HashMap::new();
    for other in others {
        *left.entry(other).or_default() += 1;
    }
    let is_over = |id: &&&str| match left.get_mut(**id) {
        Some(left @ 1..) => {
            *left -= 1;
            false
        }
        _ => true,
    };
    ids.iter().filter(is_over).copied().collect()
}

fn first_few(ids: &[&str]) -> String {
    let shown: Vec<_> = ids.iter().take(3).map(|id| format!("`{id}`")).collect();
    let more = if ids.len() > shown.len() { ", .." } else { "" };
    format!("{}{more}", shown.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_difference_is_told() {
        let wanted = ["a", "b", "c", "d"];
        let said = |got: &[&str]| difference(&wanted, got);
        assert_eq!(said(&wanted), None);
        assert_eq!(said(&["a", "c", "d"]).as_deref(), Some("1 of 4 missing (`b`)"));
        assert_eq!(said(&[]).as_deref(), Some("4 of 4 missing (`a`, `b`, `c`, ..)"));
        assert_eq!(said(&["a", "b", "b", "c", "d"]).as_deref(), Some("1 too many (`b`)"));
        assert_eq!(said(&["a", "b", "b", "d"]).as_deref(), Some("1 of 4 missing (`c`), 1 too many (`b`)"));
        assert_eq!(said(&["a", "c", "b", "d"]).as_deref(), Some("out of order from event 2 (`c`) on"));
    }
}
