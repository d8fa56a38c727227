//! Durations as Go prints them, which kubeadm reads: `30s`, `5m0s`, `4320h0m0s`.

use serde_json::{Map, Value};

/// Seconds of a day.
const DAY: i64 = 24 * 60 * 60;

/// Returns a number of seconds as Go prints a duration.
pub(super) fn of_seconds(seconds: i64) -> String {
    let (hours, minutes, rest) = (seconds / 3600, seconds % 3600 / 60, seconds % 60);
    match (hours, minutes) {
        (0, 0) => format!("{rest}s"),
        (0, _) => format!("{minutes}m{rest}s"),
        _ => format!("{hours}h{minutes}m{rest}s"),
    }
}

/// Replaces a field with a number of seconds by one with a duration.
pub(super) fn rename_seconds(fields: &mut Map<String, Value>, from: &str, to: &str) {
    if let Some(seconds) = fields.remove(from).as_ref().and_then(Value::as_i64) {
        fields.insert(to.to_owned(), of_seconds(seconds).into());
    }
}

/// Replaces a field with a number of days by one with a duration.
pub(super) fn rename_days(fields: &mut Map<String, Value>, from: &str, to: &str) {
    if let Some(days) = fields.remove(from).as_ref().and_then(Value::as_i64) {
        fields.insert(to.to_owned(), of_seconds(days.saturating_mul(DAY)).into());
    }
}
