//! Reasons that are similar to a text, for typing errors.

/// Number of reasons that are named.
const MOST: usize = 5;

/// Returns the reasons that are similar to a text: those that contain it, and those with few other letters.
pub(super) fn matches<'a>(text: &str, reasons: &[&'a str]) -> Vec<&'a str> {
    let wanted = text.to_lowercase();
    if wanted.is_empty() {
        return Vec::new();
    }
    let allowed = (wanted.chars().count() / 3).min(4);
    let rank = |reason: &&'a str| -> Option<(usize, &'a str)> {
        let known = reason.to_lowercase();
        let distance = distance(&wanted, &known);
        let is_part = wanted.len() > 2 && known.contains(&wanted);
        (distance <= allowed || is_part).then_some((distance, *reason))
    };
    let mut found: Vec<(usize, &str)> = reasons.iter().filter_map(rank).collect();
    found.sort_unstable();
    found.into_iter().take(MOST).map(|(_, reason)| reason).collect()
}

/// Returns the number of letters to insert, remove or replace. Levenshtein's distance.
fn distance(from: &str, to: &str) -> usize {
    let to: Vec<char> = to.chars().collect();
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (index, letter) in from.chars().enumerate() {
        let mut diagonal = index;
        let mut left = index + 1;
        for (above, other) in row.iter_mut().skip(1).zip(&to) {
            let replaced = diagonal + usize::from(letter != *other);
            diagonal = *above;
            left = replaced.min(left + 1).min(diagonal + 1);
            *above = left;
        }
        if let Some(first) = row.first_mut() {
            *first = index + 1;
        }
    }
    row.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_distance_counts_letters() {
        for (from, to, expected) in
            [("", "", 0), ("abc", "abc", 0), ("abc", "", 3), ("kitten", "sitting", 3), ("ab", "ba", 2)]
        {
            assert_eq!((distance(from, to), distance(to, from)), (expected, expected), "{from} {to}");
        }
    }

    #[test]
    fn typing_errors_and_parts_are_found_best_first() {
        let reasons = ["NotFound", "NetworkNotFound", "QuotaExceeded", "Ready", "NotReady"];
        let table: [(&str, &[&str]); 5] = [
            ("notfond", &["NotFound"]),
            ("notfound", &["NotFound", "NetworkNotFound"]),
            ("quota", &["QuotaExceeded"]),
            ("Redy", &["Ready"]),
            ("", &[]),
        ];
        for (text, expected) in table {
            assert_eq!(matches(text, &reasons), expected, "{text}");
        }
    }
}
