//! Kubernetes formats: patterns and messages that the engine does not expose.

use kube_cel::cel::Value as Cel;

use crate::cel::estimate::FORMAT_PATTERN;

/// Lengths of the patterns in upstream's costs, by a part of the format's name.
const PATTERNS: [(&str, u64); 8] = [
    ("subdomain", 60),
    ("qualified", 60),
    ("dns", 30),
    ("labelvalue", 40),
    ("uri", 1103),
    ("uuid", 70),
    ("byte", 84),
    ("date", 71),
];

/// Messages for values without the format.
const WORDS: [(&str, &str); 4] = [
    ("uuid", "does not match the UUID format"),
    ("byte", "invalid base64"),
    ("datetime", "invalid datetime"),
    ("date", "invalid date"),
];

pub(super) fn pattern(format: &Cel) -> u64 {
    of(format, &PATTERNS).unwrap_or(FORMAT_PATTERN)
}

pub(super) fn words(format: &Cel) -> Option<&'static str> {
    of(format, &WORDS)
}

fn of<T: Copy>(format: &Cel, table: &[(&str, T)]) -> Option<T> {
    let Cel::Opaque(inner) = format else { return None };
    let shown = format!("{:?}", inner.as_debug()).to_lowercase();
    table.iter().find(|(name, _)| shown.contains(name)).map(|(_, one)| *one)
}
