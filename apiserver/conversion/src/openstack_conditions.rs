//! Conditions of the OpenStack kinds. Unlike Cluster API's own kinds they have one list in either
//! version: v1beta1's with a severity, v1beta2's with a generation and a reason that must be there.

use serde_json::{Value, json};

use crate::fields::{each, get, put, take};

/// Cluster API's reason where there is none: v1beta2 must have one.
const NO_REASON: &str = "NoReasonReported";

/// What v1beta2 has where v1beta1 has nothing.
const UNSAID: [(&str, &str); 2] = [("reason", NO_REASON), ("message", "")];

/// The generation of what was observed is the object's, as far as v1beta1 knows.
pub(crate) fn to_stored(object: &mut Value) {
    let generation = get(object, "metadata.generation").cloned();
    each(object, "status.conditions", |condition| {
        take(condition, "severity");
        if let Some(generation) = &generation {
            put(condition, "observedGeneration", generation.clone());
        }
        for (field, unsaid) in UNSAID {
            if get(condition, field).is_none_or(|value| value == "") {
                put(condition, field, json!(unsaid));
            }
        }
    });
}

/// Drops what v1beta1 does not have, and what it leaves out when empty.
pub(crate) fn from_stored(object: &mut Value) {
    each(object, "status.conditions", |condition| {
        take(condition, "observedGeneration");
        for (field, unsaid) in UNSAID {
            if get(condition, field).is_some_and(|value| value == unsaid) {
                take(condition, field);
            }
        }
    });
}

/// Says in `status.ready` whether the condition Ready holds.
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

/// v1beta1 always says whether it can be used, once it says anything.
pub(crate) fn default_ready(object: &mut Value) {
    if get(object, "status").is_some_and(Value::is_object) && get(object, "status.ready").is_none() {
        put(object, "status.ready", json!(false));
    }
}
