//! Quoted text in Go's form (`%q`), as upstream's error messages contain it.

/// Returns a text in quotes, with invisible characters escaped.
pub fn quoted(text: &str) -> String {
    let mut shown = String::from("\"");
    for character in text.chars() {
        match (character, u32::from(character)) {
            ('"' | '\\', _) => shown.extend(['\\', character]),
            (_, _) if is_printable(character) => shown.push(character),
            ('\u{7}', _) => shown.push_str("\\a"),
            ('\u{8}', _) => shown.push_str("\\b"),
            ('\t', _) => shown.push_str("\\t"),
            ('\n', _) => shown.push_str("\\n"),
            ('\u{b}', _) => shown.push_str("\\v"),
            ('\u{c}', _) => shown.push_str("\\f"),
            ('\r', _) => shown.push_str("\\r"),
            (_, code @ (0..0x20 | 0x7f)) => shown.push_str(&format!("\\x{code:02x}")),
            (_, code @ 0..=0xffff) => shown.push_str(&format!("\\u{code:04x}")),
            (_, code) => shown.push_str(&format!("\\U{code:08x}")),
        }
    }
    shown.push('"');
    shown
}

/// Reports whether a character is visible: no control, no format character, and no space other than U+0020.
pub fn is_printable(character: char) -> bool {
    // Rust escapes the same characters in its debug form. The letter is for combining marks, which Rust escapes if
    // nothing precedes them.
    matches!(character, ' '..='~')
        || ['a', character].iter().collect::<String>().escape_debug().eq(['a', character])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The expected text is from kube-apiserver 1.36.3.
    #[test]
    fn invisible_characters_are_escaped() {
        let text = "é\0\u{200b}\n\"\\<>&\u{7f}\u{e0001}'";
        assert_eq!(quoted(text), r#""é\x00\u200b\n\"\\<>&\x7f\U000e0001'""#);
    }
}
