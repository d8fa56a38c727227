//! Escape sequences of Go's quoted texts.

use std::str::Chars;

/// Returns the text without its escapes, or `None` if an escape is wrong.
pub(super) fn unquote(text: &str, quote: char) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut letters = text.chars();
    let mut push = |letter: char| {
        bytes.extend_from_slice(letter.encode_utf8(&mut [0; 4]).as_bytes());
    };
    let mut found = Vec::new();
    while let Some(letter) = letters.next() {
        found.push(if letter == '\\' { escape(&mut letters, quote)? } else { Unit::Letter(letter) });
    }
    // Escaped bytes can be parts of one letter.
    let mut raw = Vec::new();
    for unit in found {
        match unit {
            Unit::Letter(letter) => {
                push_raw(&mut raw, &mut push);
                push(letter);
            }
            Unit::Byte(byte) => raw.push(byte),
        }
    }
    push_raw(&mut raw, &mut push);
    String::from_utf8(bytes).ok()
}

enum Unit {
    Letter(char),
    Byte(u8),
}

fn push_raw(raw: &mut Vec<u8>, push: &mut impl FnMut(char)) {
    String::from_utf8_lossy(raw).chars().for_each(push);
    raw.clear();
}

/// Reads an escape after its backslash.
fn escape(letters: &mut Chars<'_>, quote: char) -> Option<Unit> {
    let letter = match letters.next()? {
        'a' => '\u{7}',
        'b' => '\u{8}',
        'f' => '\u{c}',
        'n' => '\n',
        'r' => '\r',
        't' => '\t',
        'v' => '\u{b}',
        '\\' => '\\',
        letter if letter == quote => letter,
        'x' => return Some(Unit::Byte(u8::try_from(digits(letters, 2, 16, None)?).ok()?)),
        'u' => char::from_u32(digits(letters, 4, 16, None)?)?,
        'U' => char::from_u32(digits(letters, 8, 16, None)?)?,
        first @ '0'..='7' => {
            return Some(Unit::Byte(u8::try_from(digits(letters, 2, 8, Some(first))?).ok()?));
        }
        _ => return None,
    };
    Some(Unit::Letter(letter))
}

fn digits(letters: &mut Chars<'_>, count: usize, radix: u32, first: Option<char>) -> Option<u32> {
    let text: String = first.into_iter().chain(letters.by_ref().take(count)).collect();
    let is_whole = text.len() == count + usize::from(first.is_some());
    if is_whole && text.chars().all(|digit| digit.is_digit(radix)) {
        u32::from_str_radix(&text, radix).ok()
    } else {
        None
    }
}
