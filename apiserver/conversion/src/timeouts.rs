//! How long the steps of a Machine's deletion may take.

use serde_json::{Value, json};

use crate::fields::{duration, rename_as, seconds, take};

/// The names before and after.
const NAMES: [(&str, &str); 3] = [
    ("nodeDrainTimeout", "deletion.nodeDrainTimeoutSeconds"),
    ("nodeVolumeDetachTimeout", "deletion.nodeVolumeDetachTimeoutSeconds"),
    ("nodeDeletionTimeout", "deletion.nodeDeletionTimeoutSeconds"),
];

/// Of a structure of v1beta1 that has them as durations.
pub(crate) fn to_stored(spec: &mut Value) {
    for (old, new) in NAMES {
        rename_as(spec, old, new, |timeout| whole_seconds(&timeout));
    }
}

/// Of a structure of v1beta2 that has them under `deletion`.
pub(crate) fn from_stored(spec: &mut Value) {
    for (old, new) in NAMES {
        rename_as(spec, new, old, |timeout| duration(&timeout));
    }
    take(spec, "deletion");
}

/// A duration in whole seconds, as many as 32 bits hold.
pub(crate) fn whole_seconds(timeout: &Value) -> Option<Value> {
    let seconds = seconds(timeout)?.as_i64()?;
    Some(json!(seconds.min(i64::from(i32::MAX))))
}
