//! Functions on the words of a text: their case, their first letters, and lines of a width.

use super::super::value::{Outcome, Value};
use super::Parameter::{Int, Text};
use super::strings::bytes;
use super::{Function, function, integer, owned, text};

pub(super) const FUNCTIONS: &[Function] = &[
    function("title", &[Text], |_, arguments| owned(title(text(arguments, 0)))),
    function("untitle", &[Text], |_, arguments| owned(untitle(text(arguments, 0)))),
    function("initials", &[Text], |_, arguments| {
        let words = text(arguments, 0).split_whitespace();
        owned(words.filter_map(|word| word.chars().next()).collect())
    }),
    function("swapcase", &[Text], |_, arguments| owned(swap_case(text(arguments, 0)))),
    function("snakecase", &[Text], |_, arguments| owned(joined(text(arguments, 0), '_'))),
    function("kebabcase", &[Text], |_, arguments| owned(joined(text(arguments, 0), '-'))),
    function("camelcase", &[Text], |_, arguments| owned(camel_case(text(arguments, 0)))),
    function("abbrev", &[Int, Text], |_, arguments| {
        let (width, whole) = (integer(arguments, 0), text(arguments, 1));
        if width < 4 { Ok(Value::text(whole)) } else { abbreviated(0, width, whole) }
    }),
    function("abbrevboth", &[Int, Int, Text], |_, arguments| {
        let (left, right, whole) = (integer(arguments, 0), integer(arguments, 1), text(arguments, 2));
        if right < 4 || (left > 0 && right < 7) {
            return Ok(Value::text(whole));
        }
        abbreviated(left, right, whole)
    }),
    function("wrap", &[Int, Text], |_, arguments| {
        owned(wrapped(text(arguments, 1), integer(arguments, 0), "\n", false))
    }),
    function("wrapWith", &[Int, Text, Text], |_, arguments| {
        owned(wrapped(text(arguments, 2), integer(arguments, 0), text(arguments, 1), true))
    }),
];

fn is_separator(letter: char) -> bool {
    !(letter.is_alphanumeric() || letter == '_') && (letter.is_ascii() || letter.is_whitespace())
}

fn title(text: &str) -> String {
    let mut before = ' ';
    let mut result = String::new();
    for letter in text.chars() {
        if is_separator(before) {
            result.extend(letter.to_uppercase());
        } else {
            result.push(letter);
        }
        before = letter;
    }
    result
}

/// Makes the first letter of each word lower case.
fn untitle(text: &str) -> String {
    let mut is_start = true;
    let mut result = String::new();
    for letter in text.chars() {
        if is_start && !letter.is_whitespace() {
            result.extend(letter.to_lowercase());
            is_start = false;
        } else {
            is_start |= letter.is_whitespace();
            result.push(letter);
        }
    }
    result
}

fn swap_case(text: &str) -> String {
    let mut result = String::new();
    for letter in text.chars() {
        if letter.is_uppercase() {
            result.extend(letter.to_lowercase());
        } else {
            result.extend(letter.to_uppercase());
        }
    }
    result
}

fn is_connector(letter: char) -> bool {
    matches!(letter, '-' | '_') || letter.is_whitespace()
}

/// Returns the words in lower case with a connector between them. A word starts at an upper-case letter, and at the
/// last of several upper-case letters before a lower-case one.
fn joined(text: &str, connector: char) -> String {
    let letters: Vec<char> = text.chars().collect();
    let mut result = String::new();
    for (index, letter) in letters.iter().copied().enumerate() {
        if is_connector(letter) {
            result.push(connector);
            continue;
        }
        let before = index.checked_sub(1).and_then(|index| letters.get(index)).copied();
        let after = letters.get(index + 1).copied();
        let starts_word = letter.is_uppercase()
            && before.is_some_and(|before| {
                before.is_lowercase()
                    || before.is_numeric()
                    || (before.is_uppercase() && after.is_some_and(char::is_lowercase))
            });
        if starts_word {
            result.push(connector);
        }
        result.extend(letter.to_lowercase());
    }
    result
}

/// Returns the words without connectors, each with an upper-case first letter.
fn camel_case(text: &str) -> String {
    let mut result = String::new();
    let trimmed = text.trim_start_matches(is_connector);
    result.push_str(text.get(..text.len() - trimmed.len()).unwrap_or_default());
    let mut is_start = true;
    let mut was_upper = false;
    let mut letters = trimmed.chars().peekable();
    while let Some(letter) = letters.next() {
        if is_connector(letter) {
            is_start = true;
            // Only one connector before a word is removed.
            if letters.peek().is_none_or(|next| is_connector(*next)) {
                result.push(letter);
            }
        } else if is_start {
            was_upper = letter.is_uppercase();
            result.extend(letter.to_uppercase());
            is_start = false;
        } else if was_upper && letter.is_uppercase() {
            result.extend(letter.to_lowercase());
        } else {
            was_upper = false;
            result.push(letter);
        }
    }
    result
}

/// Shortens a text to a width with dots. `offset` is the first byte that must be shown.
fn abbreviated(offset: i64, width: i64, whole: &str) -> Outcome<Value> {
    let width = usize::try_from(width).unwrap_or_default();
    let length = whole.len();
    if length <= width {
        return Ok(Value::text(whole));
    }
    let kept = width.saturating_sub(3);
    let offset = usize::try_from(offset).unwrap_or_default().min(length.saturating_sub(kept));
    let shown = |part: Value| if let Value::Text(part) = part { part.to_string() } else { String::new() };
    if offset <= 4 {
        return owned(format!("{}...", shown(bytes(whole, 0, kept)?)));
    }
    if offset.saturating_add(kept) < length {
        let inner = shown(bytes(whole, offset, offset.saturating_add(kept.saturating_sub(3)))?);
        return owned(format!("...{inner}..."));
    }
    owned(format!("...{}", shown(bytes(whole, length.saturating_sub(kept), length)?)))
}

/// Breaks a text into lines. Long words are broken only if `breaks_words` is set.
fn wrapped(text: &str, width: i64, separator: &str, breaks_words: bool) -> String {
    let width = usize::try_from(width).unwrap_or_default().max(1);
    let separator = if separator.is_empty() { "\n" } else { separator };
    let mut result: Vec<u8> = Vec::new();
    let mut rest = text.as_bytes();
    while rest.len() > width {
        if rest.first() == Some(&b' ') {
            rest = rest.get(1..).unwrap_or_default();
            continue;
        }
        let window = rest.get(..=width).unwrap_or(rest);
        let space = window.iter().rposition(|byte| *byte == b' ');
        let (end, next) = match space {
            Some(space) => (space, space + 1),
            None if breaks_words => (width, width),
            None => match rest.iter().skip(width).position(|byte| *byte == b' ') {
                Some(space) => (width + space, width + space + 1),
                None => break,
            },
        };
        result.extend_from_slice(rest.get(..end).unwrap_or_default());
        result.extend_from_slice(separator.as_bytes());
        rest = rest.get(next..).unwrap_or_default();
    }
    result.extend_from_slice(rest);
    String::from_utf8_lossy(&result).into_owned()
}
