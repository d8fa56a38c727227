//! Conversion of the conditions of the OpenStack kinds. Unlike Cluster API's own kinds, these have one list in each
//! version. v1beta1's conditions have a severity. v1beta2's have a generation and a required reason.

use serde_json::{Value, json};

use crate::fields::{each, get, put, take};

/// Cluster API's reason for a condition without one, because v1beta2 requires a reason.
const NO_REASON: &str = "NoReasonReported";

/// Values of v1beta2 that are absent in v1beta1.
const UNSET: [(&str, &str); 2] = [("reason", NO_REASON), ("message", "")];

/// Converts conditions from v1beta1. The observed generation becomes the object's, because v1beta1 has none.
pub(crate) fn to_stored(object: &mut Value) {
    let generation = get(object, "metadata.generation").cloned();
    each(object, "status.conditions", |condition| {
        take(condition, "severity");
        if let Some(generation) = &generation {
            put(condition, "observedGeneration", generation.clone());
        }
        for (field, unset) in UNSET {
            if get(condition, field).is_none_or(|value| value == "") {
                put(condition, field, json!(unset));
            }
        }
    });
}

/// Drops the fields that v1beta1 lacks, and empty fields.
pub(crate) fn from_stored(object: &mut Value) {
    each(object, "status.conditions", |condition| {
        take(condition, "observedGeneration");
        for (field, unset) in UNSET {
            if get(condition, field).is_some_and(|value| value == unset) {
                take(condition, field);
            }
        }
    });
}

/// Sets `status.ready` from the condition Ready.
pub(crate) fn ready(object: &mut Value) {
    let Some(status) = get(object, "status") else { return };
    let conditions = get(status, "conditions").and_then(Value::as_array);
    let is_ready = conditions.into_iter().flatten().any(|condition| {
        get(condition, "type") == Some(&json!("Ready")) && get(condition, "status") == Some(&json!("True"))
    });
    if status.is_object() {
        put(object, "status.ready", json!(is_ready));
    }
}

/// Sets v1beta1's default of `status.ready`, if there is a status.
pub(crate) fn default_ready(object: &mut Value) {
    if get(object, "status").is_some_and(Value::is_object) && get(object, "status.ready").is_none() {
        put(object, "status.ready", json!(false));
    }
}
