//! The grammar of topic and stream names, with the spelling that would have been right.

const MAX_BYTES: usize = 128;
const MAX_TOKENS: usize = 8;
const RESERVED: &str = "dead";

/// Why a name is refused, ending in the remedy. `None` if it is a good name.
pub(crate) fn problem(name: &str) -> Option<String> {
    let fault = fault(name)?;
    let version = name.split('.').find_map(version_of);
    Some(match (corrected(name), version) {
        (Some(right), Some(version)) => {
            format!("{fault}; write `{right}` and `version = {version}`")
        }
        (Some(right), None) => format!("{fault}; write `{right}`"),
        (None, _) => format!("{fault}; write a name such as `orders.placed`"),
    })
}

fn fault(name: &str) -> Option<String> {
    if name.is_empty() {
        return Some("the name is empty".to_owned());
    }
    if let Some(bad) = name.chars().find(|letter| !is_allowed(*letter) && *letter != '.') {
        return Some(format!(
            "the name `{}` holds `{}`, but only `a-z`, `0-9`, `-` and `.` are allowed",
            name.escape_debug(),
            bad.escape_debug(),
        ));
    }
    for token in name.split('.') {
        if token.is_empty() {
            return Some(format!("the name `{name}` has an empty part beside a `.`"));
        }
        if token.starts_with('-') {
            return Some(format!("the part `{token}` of the name `{name}` starts with `-`"));
        }
        if version_of(token).is_some() {
            return Some(format!("the part `{token}` of the name `{name}` reads as a version"));
        }
        if token == RESERVED {
            return Some(format!("the part `{token}` of the name `{name}` is reserved for dead letters"));
        }
    }
    if name.split('.').count() > MAX_TOKENS {
        return Some(format!("the name `{name}` has more than {MAX_TOKENS} parts"));
    }
    if name.len() > MAX_BYTES {
        return Some(format!("the name is longer than {MAX_BYTES} bytes"));
    }
    None
}

fn is_allowed(letter: char) -> bool {
    letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '-'
}

/// The digits of a token shaped like a version (`v3`).
fn version_of(token: &str) -> Option<&str> {
    let digits = token.strip_prefix(['v', 'V'])?;
    (!digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())).then_some(digits)
}

/// The nearest good name, if something of the written one can stay.
pub(crate) fn corrected(name: &str) -> Option<String> {
    let tokens: Vec<String> = name
        .split('.')
        .filter(|token| version_of(token).is_none())
        .map(kebab)
        .filter(|token| !token.is_empty() && version_of(token).is_none())
        .map(|token| if token == RESERVED { "dead-letters".to_owned() } else { token })
        .collect();
    let (head, tail) = tokens.split_at(tokens.len().min(MAX_TOKENS - 1));
    let mut right = head.join(".");
    if !tail.is_empty() {
        right.push('.');
        right.push_str(&tail.join("-"));
    }
    right.truncate(MAX_BYTES);
    let right = right.trim_end_matches(['.', '-']);
    fault(right).is_none().then(|| right.to_owned())
}

/// Lower case with `-` between words, whatever separated them before.
fn kebab(token: &str) -> String {
    let mut right = String::with_capacity(token.len());
    let mut after_small = false;
    for letter in token.chars() {
        if letter.is_ascii_alphanumeric() {
            if letter.is_ascii_uppercase() && after_small {
                right.push('-');
            }
            right.push(letter.to_ascii_lowercase());
        } else if !right.is_empty() && !right.ends_with('-') {
            right.push('-');
        }
        after_small = letter.is_ascii_lowercase() || letter.is_ascii_digit();
    }
    right.trim_end_matches('-').to_owned()
}

#[cfg(test)]
mod tests {
    use super::{corrected, problem};

    #[test]
    fn good_names_have_no_problem() {
        let longest = format!("a.{}", "b".repeat(126));
        for name in ["a", "0", "orders.placed", "a-b.c--d-", "v", "vx1", "v1x", "a.b.c.d.e.f.g.h", "deadly", &longest] {
            assert_eq!(problem(name), None, "{name}");
        }
    }

    #[test]
    fn corrects_the_spelling() {
        for (written, right) in [
            ("Orders_Placed", "orders-placed"),
            ("OrdersPlaced", "orders-placed"),
            ("orders/placed", "orders-placed"),
            ("orders..placed", "orders.placed"),
            (".orders.", "orders"),
            ("-orders", "orders"),
            ("orders.v3", "orders"),
            ("orders.V3.placed", "orders.placed"),
            ("orders.dead", "orders.dead-letters"),
            ("ORDERS", "orders"),
            ("a.b.c.d.e.f.g.h.i", "a.b.c.d.e.f.g.h-i"),
            ("orders placed ", "orders-placed"),
        ] {
            assert_eq!(corrected(written).as_deref(), Some(right), "{written}");
            let problem = problem(written).expect(written);
            assert!(problem.contains(&format!("; write `{right}`")), "{problem}");
        }
    }

    #[test]
    fn names_a_version_inside_the_name() {
        assert_eq!(
            problem("orders.v3").as_deref(),
            Some("the part `v3` of the name `orders.v3` reads as a version; write `orders` and `version = 3`"),
        );
    }

    #[test]
    fn gives_an_example_when_nothing_can_stay() {
        for name in ["", ".", "é", "v3", "---"] {
            let problem = problem(name).expect(name);
            assert!(problem.ends_with("; write a name such as `orders.placed`"), "{problem}");
        }
    }

    #[test]
    fn every_correction_is_a_good_name() {
        let long = format!("{}.{}", "A".repeat(127), "b".repeat(40));
        for name in ["a.-", "V3_x", "x_v3.", "a.b.c.d.e.f.g.h.i.j.k", &long, "ä.b", "dead", "a.dead.v1.DEAD"] {
            if let Some(right) = corrected(name) {
                assert_eq!(problem(&right), None, "{name} became {right}");
            }
        }
    }
}
