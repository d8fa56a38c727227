//! Repeated negation in expressions, such as `!!a`. The engine's parser reads two signs as one, which would invert the
//! rule. Pairs of signs are replaced by blanks before parsing, so that offsets stay the same.

/// Returns the expression without pairs of signs.
pub(super) fn without_pairs(source: &str) -> String {
    let mut letters: Vec<char> = source.chars().collect();
    let mut at = 0;
    // Set after the end of a value, where `-` is an operator.
    let mut behind_value = false;
    while let Some(&letter) = letters.get(at) {
        match letter {
            '\'' | '"' => {
                at = end_of_text(&letters, at);
                behind_value = true;
                continue;
            }
            '/' if letters.get(at + 1) == Some(&'/') => {
                at = letters
                    .iter()
                    .skip(at)
                    .position(|one| *one == '\n')
                    .map_or(letters.len(), |end| at + end);
                continue;
            }
            '!' | '-' => {
                let run = run_of(&letters, at);
                let first = usize::from(letter == '-' && behind_value);
                let signs = run.get(first..).unwrap_or_default();
                let pairs = signs.len() - signs.len() % 2;
                for index in signs.iter().take(pairs) {
                    if let Some(sign) = letters.get_mut(*index) {
                        *sign = ' ';
                    }
                }
                at = run.last().copied().unwrap_or(at);
                behind_value = false;
            }
            letter if letter.is_whitespace() => {}
            letter => {
                behind_value = letter.is_alphanumeric() || matches!(letter, '_' | ')' | ']' | '}' | '`')
            }
        }
        at += 1;
    }
    letters.into_iter().collect()
}

/// Returns the offsets of the same sign, separated only by blanks. `!=` is another operator.
fn run_of(letters: &[char], start: usize) -> Vec<usize> {
    let sign = letters.get(start);
    let mut found = Vec::new();
    for (index, letter) in letters.iter().enumerate().skip(start) {
        if Some(letter) == sign && letters.get(index + 1) != Some(&'=') {
            found.push(index);
        } else if !letter.is_whitespace() {
            break;
        }
    }
    found
}

/// Returns the offset after the text that begins here.
fn end_of_text(letters: &[char], start: usize) -> usize {
    let quote = letters.get(start).copied().unwrap_or('"');
    let is_triple = |at: usize| (at..at + 3).all(|index| letters.get(index) == Some(&quote));
    let is_raw =
        start.checked_sub(1).and_then(|before| letters.get(before)).is_some_and(|c| matches!(c, 'r' | 'R'));
    let length = if is_triple(start) { 3 } else { 1 };
    let mut at = start + length;
    while let Some(letter) = letters.get(at) {
        match letter {
            '\\' if !is_raw => at += 2,
            _ if length == 1 && *letter == quote => return at + 1,
            _ if length == 3 && is_triple(at) => return at + 3,
            _ => at += 1,
        }
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_pairs_of_negations_are_blanked() {
        for (source, expected) in [
            ("!a && !!b", "!a &&   b"),
            ("!!!a", "  !a"),
            ("! !a != b", "   a != b"),
            ("a - -b", "a - -b"),
            ("a--b", "a--b"),
            ("a - --b", "a -   b"),
            ("a + --b", "a +   b"),
            ("f(--b)[--c]", "f(  b)[  c]"),
            ("'!!' == \"--\" // !!", "'!!' == \"--\" // !!"),
            ("'''a'!!''' + r'\\' + !!b", "'''a'!!''' + r'\\' +   b"),
            ("é == 'é' && !!a", "é == 'é' &&   a"),
        ] {
            assert_eq!(without_pairs(source), expected);
        }
    }
}
