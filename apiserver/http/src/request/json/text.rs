//! Replacement of invalid Unicode in JSON: Go's decoder replaces it by U+FFFD, where `serde_json` would refuse the
//! whole body.

use std::borrow::Cow;

use memchr::memchr;

/// Replacement of invalid text.
const REPLACEMENT: &str = "\u{fffd}";

/// Replacement, as an escape.
const ESCAPED: &[u8] = br"\ufffd";

/// Length of an escape, e.g. `\u00fc`. Unit: bytes.
const ESCAPE: usize = 6;

/// Returns the body with U+FFFD for each byte that belongs to no character, and for each unpaired surrogate.
pub(super) fn repaired(body: &[u8]) -> Cow<'_, str> {
    let readable = match std::str::from_utf8(body) {
        Ok(text) => Cow::Borrowed(text),
        Err(_) => Cow::Owned(with_characters(body)),
    };
    match with_pairs(readable.as_bytes()) {
        // Escapes were replaced by escapes, so the text stays valid.
        Some(repaired) => Cow::Owned(String::from_utf8_lossy(&repaired).into_owned()),
        None => readable,
    }
}

fn with_characters(body: &[u8]) -> String {
    let mut text = String::with_capacity(body.len());
    for chunk in body.utf8_chunks() {
        text.push_str(chunk.valid());
        chunk.invalid().iter().for_each(|_| text.push_str(REPLACEMENT));
    }
    text
}

/// Returns the body without unpaired surrogates; `None` if it has none.
fn with_pairs(body: &[u8]) -> Option<Vec<u8>> {
    let mut repaired = None;
    let mut at = 0;
    while let Some(found) = body.get(at..).and_then(|rest| memchr(b'\\', rest)) {
        at += found;
        let (length, is_lone) = match (unit(body, at), unit(body, at + ESCAPE)) {
            (Some(0xd800..=0xdbff), Some(0xdc00..=0xdfff)) => (2 * ESCAPE, false),
            (Some(0xd800..=0xdfff), _) => (ESCAPE, true),
            (Some(_), _) => (ESCAPE, false),
            // Any other escape, also of a backslash.
            (None, _) => (2, false),
        };
        if is_lone {
            let repaired = repaired.get_or_insert_with(|| body.to_vec());
            if let Some(place) = repaired.get_mut(at..at + ESCAPE) {
                place.copy_from_slice(ESCAPED);
            }
        }
        at += length;
    }
    repaired
}

/// Returns the code unit of the escape at this position.
fn unit(body: &[u8], at: usize) -> Option<u16> {
    let digits = body.get(at..at + ESCAPE)?.strip_prefix(br"\u")?;
    if !digits.iter().all(u8::is_ascii_hexdigit) {
        return None;
    }
    u16::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_invalid_unicode_is_replaced() {
        let table: [(&[u8], &[u8]); 12] = [
            (b"", b""),
            (br#""plain""#, br#""plain""#),
            (br#""\ud83d\ude00""#, br#""\ud83d\ude00""#),
            (br#""\ud83d""#, br#""\ufffd""#),
            (br#""\uDE00x""#, br#""\ufffdx""#),
            (br#""\ud83d\ud83d\ude00""#, br#""\ufffd\ud83d\ude00""#),
            (br#""\ud83d\u0041""#, br#""\ufffd\u0041""#),
            (br#""\\ud83d""#, br#""\\ud83d""#),
            (br#""\ud83""#, br#""\ud83""#),
            (br"\", br"\"),
            (b"\"\xff\xe2\x82\"", "\"\u{fffd}\u{fffd}\u{fffd}\"".as_bytes()),
            ("\"\u{fc}\"".as_bytes(), "\"\u{fc}\"".as_bytes()),
        ];
        for (body, expected) in table {
            assert_eq!(repaired(body).as_bytes(), expected, "{}", String::from_utf8_lossy(body));
        }
    }
}
