//! The grammar of `address = ".."`: what a backend can be asked for at all. The backend itself refuses more.

/// The longest that any of the backends takes.
const MAX_BYTES: usize = 249;

/// Why an address is refused, ending in the remedy. `None` if it may be one.
pub(crate) fn problem(address: &str) -> Option<String> {
    if address.is_empty() {
        return Some(
            "the address is empty; write the stream's own, such as `legacy-orders`, or leave the word out".to_owned(),
        );
    }
    if let Some(bad) = address.chars().find(|letter| letter.is_control() || letter.is_whitespace()) {
        let bad = bad.escape_debug();
        return Some(format!("the address holds `{bad}`; write one without white space and control characters"));
    }
    if let Some(bad) = address.chars().find(|letter| matches!(letter, '{' | '}')) {
        return Some(format!("the address holds `{bad}`, which would move its keys on a cluster; write one without"));
    }
    if address.len() > MAX_BYTES {
        return Some(format!("the address has {} bytes; write one of at most {MAX_BYTES}", address.len()));
    }
    None
}
