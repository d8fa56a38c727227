//! Keys, and ranges of them.

use std::fmt;

/// Name of one value.
///
/// Shape: a path such as `/capstan/cluster.x-k8s.io/machines/default/m1`: starts with `/`,
/// no empty, `.` or `..` segment, no control character, at most [`Key::MAX_LENGTH`] bytes.
/// Keys sort bytewise; that order is the order of a list.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key(String);

/// Error of a text that is not a key.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("{text:?} is not a storage key: {reason}")]
pub struct InvalidKey {
    /// The text.
    pub text: String,
    /// The broken rule.
    pub reason: &'static str,
}

impl Key {
    /// Longest key in bytes: prefix, group (253), resource (63), namespace (63), name (253), and a reserve.
    pub const MAX_LENGTH: usize = 1024;

    /// Checks `text` and creates a key.
    ///
    /// # Errors
    /// [`InvalidKey`] says which rule is broken.
    pub fn new(text: impl Into<String>) -> Result<Self, InvalidKey> {
        let text = text.into();
        match Self::broken_rule(&text) {
            None => Ok(Self(text)),
            Some(reason) => Err(InvalidKey { text, reason }),
        }
    }

    fn broken_rule(text: &str) -> Option<&'static str> {
        let Some(rest) = text.strip_prefix('/') else { return Some("it must start with a slash") };
        if text.len() > Self::MAX_LENGTH {
            return Some("it is too long");
        }
        if text.chars().any(char::is_control) {
            return Some("it contains a control character");
        }
        rest.split('/')
            .any(|segment| matches!(segment, "" | "." | ".."))
            .then_some("it has an empty, . or .. segment")
    }

    /// Returns the key as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the key as bytes, as a backend stores it.
    pub fn as_bytes(&self) -> &[u8] {
        self.0.as_bytes()
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Half-open range of keys: `start <= key < end`, bytewise.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct KeyRange {
    /// First key that may be in the range. Need not be a valid [`Key`]: a resumed page starts
    /// just after one.
    pub start: Vec<u8>,
    /// First key past the range.
    pub end: Vec<u8>,
}

impl KeyRange {
    /// Returns the range of every key that starts with `prefix`, which should end with a slash so that `a` does not
    /// match `ab`.
    pub fn prefix(prefix: &str) -> Self {
        let start = prefix.as_bytes().to_vec();
        let mut end = start.clone();
        // The successor of a prefix: drop trailing 0xff, then add one to the last byte.
        while let Some(last) = end.pop() {
            if last < u8::MAX {
                end.push(last + 1);
                break;
            }
        }
        Self { start, end }
    }

    /// Returns the same range, from just after `key` on.
    #[must_use]
    pub fn after(&self, key: &[u8]) -> Self {
        let mut start = key.to_vec();
        start.push(0);
        Self { start: start.max(self.start.clone()), end: self.end.clone() }
    }

    /// Returns true if `key` lies in the range.
    pub fn contains(&self, key: &[u8]) -> bool {
        self.start.as_slice() <= key && key < self.end.as_slice()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_normalized_paths_are_keys() {
        for bad in ["", "a", "/", "//", "/a/", "/a//b", "/a/../b", "/a/./b", "/a\nb"] {
            assert!(Key::new(bad).is_err(), "{bad:?}");
        }
        for good in ["/a", "/a/b", "/capstan/g/r/ns/n.1", "/..a"] {
            assert!(Key::new(good).is_ok(), "{good:?}");
        }
    }

    #[test]
    fn a_prefix_range_contains_exactly_the_keys_with_that_prefix() {
        let range = KeyRange::prefix("/a/");
        assert!(range.contains(b"/a/"));
        assert!(range.contains(b"/a/\xff\xff"));
        assert!(!range.contains(b"/a"));
        assert!(!range.contains(b"/a0"));
        assert!(!range.contains(b"/b/"));
    }

    #[test]
    fn a_resumed_range_excludes_the_keys_already_read() {
        let range = KeyRange::prefix("/a/").after(b"/a/m");
        assert!(!range.contains(b"/a/m"));
        assert!(range.contains(b"/a/m0"));
    }
}
