//! Finds what was meant by a misspelt word.

/// The candidate nearest to `written`, if one is near enough to be what was meant.
pub(crate) fn nearest<'a>(written: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let folded = fold(written);
    candidates
        .into_iter()
        .map(|candidate| (distance(&folded, &fold(candidate)), candidate))
        .filter(|(distance, candidate)| *distance <= candidate.chars().count().max(3) / 3)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// Case and `_` or `-` are no difference in meaning.
fn fold(word: &str) -> Vec<char> {
    word.chars().filter(|letter| !matches!(letter, '_' | '-')).flat_map(char::to_lowercase).collect()
}

/// The optimal string alignment distance: insert, delete, replace, or swap two neighbours.
fn distance(a: &[char], b: &[char]) -> usize {
    let mut rows = vec![vec![0; b.len() + 1]; a.len() + 1];
    for (i, row) in rows.iter_mut().enumerate() {
        row[0] = i;
    }
    for (j, cell) in rows[0].iter_mut().enumerate() {
        *cell = j;
    }
    for i in 1..=a.len() {
        for j in 1..=b.len() {
            let replace = rows[i - 1][j - 1] + usize::from(a[i - 1] != b[j - 1]);
            let mut least = replace.min(rows[i - 1][j] + 1).min(rows[i][j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                least = least.min(rows[i - 2][j - 2] + 1);
            }
            rows[i][j] = least;
        }
    }
    rows[a.len()][b.len()]
}

/// Words as a message lists them: `` `a`, `b` and `c` ``.
pub(crate) fn list<'a>(words: impl IntoIterator<Item = &'a str>) -> String {
    let quoted: Vec<String> = words.into_iter().map(|word| format!("`{word}`")).collect();
    match quoted.as_slice() {
        [] => String::new(),
        [only] => only.clone(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::{list, nearest};

    const WORDS: [&str; 6] = ["name", "version", "key", "codec", "crate", "bind"];

    #[test]
    fn finds_what_was_meant() {
        for (written, meant) in [
            ("nmae", "name"),
            ("Name", "name"),
            ("versoin", "version"),
            ("VERSION", "version"),
            ("keys", "key"),
            ("codecs", "codec"),
            ("crates", "crate"),
        ] {
            assert_eq!(nearest(written, WORDS), Some(meant), "{written}");
        }
    }

    #[test]
    fn stays_silent_when_nothing_is_near() {
        for written in ["group", "x", "", "encryption", "naught"] {
            assert_eq!(nearest(written, WORDS), None, "{written}");
        }
    }

    #[test]
    fn lists_words() {
        assert_eq!(list([]), "");
        assert_eq!(list(["a"]), "`a`");
        assert_eq!(list(["a", "b", "c"]), "`a`, `b` and `c`");
    }
}
