//! Conversion of the timeouts of a Machine's deletion.

use serde_json::{Value, json};

use crate::fields::{duration, rename_as, seconds, take};

/// Older names and stored names.
const NAMES: [(&str, &str); 3] = [
    ("nodeDrainTimeout", "deletion.nodeDrainTimeoutSeconds"),
    ("nodeVolumeDetachTimeout", "deletion.nodeVolumeDetachTimeoutSeconds"),
    ("nodeDeletionTimeout", "deletion.nodeDeletionTimeoutSeconds"),
];

/// Converts a structure of v1beta1, which has durations.
pub(crate) fn to_stored(spec: &mut Value) {
    for (old, new) in NAMES {
        rename_as(spec, old, new, |timeout| whole_seconds(&timeout));
    }
}

/// Converts a structure of v1beta2, which has seconds under `deletion`.
pub(crate) fn from_stored(spec: &mut Value) {
    for (old, new) in NAMES {
        rename_as(spec, new, old, |timeout| duration(&timeout));
    }
    take(spec, "deletion");
}

/// Converts a duration to whole seconds of 32 bits.
pub(crate) fn whole_seconds(timeout: &Value) -> Option<Value> {
    let seconds = seconds(timeout)?.as_i64()?;
    Some(json!(seconds.min(i64::from(i32::MAX))))
}
