//! Default of `spec.replicas`: the number of Machines.

use apiserver_schema::field_errors::{FieldError, FieldPath};
use serde_json::{Value, json};

use crate::rules::json_fields::{annotation, default, get};

/// Annotations with the bounds of an autoscaler.
const BOUNDS: [&str; 2] = [
    "cluster.x-k8s.io/cluster-api-autoscaler-node-group-min-size",
    "cluster.x-k8s.io/cluster-api-autoscaler-node-group-max-size",
];

/// Reports whether an autoscaler manages a pool, or the pools of a class.
pub(crate) fn is_autoscaled(pool: &Value) -> bool {
    BOUNDS.iter().any(|bound| annotation(pool, bound).is_some())
}

/// Sets `spec.replicas` if it is absent. With an autoscaler, the old number counts within the bounds, and otherwise the
/// lower bound. An autoscaler can thus take over. Without an autoscaler, the default is 1.
pub(crate) fn prepare(new: &mut Value, old: Option<&Value>) {
    if !get(new, "spec").is_some_and(Value::is_object) {
        return;
    }
    let bounds = BOUNDS.map(|bound| annotation(new, bound).map(str::parse::<i32>));
    let replicas = match bounds {
        [Some(Ok(least)), Some(Ok(most))] => {
            let before = old.and_then(|old| get(old, "spec.replicas")).and_then(Value::as_i64);
            match before {
                Some(before) if before > i64::from(most) => i64::from(most),
                Some(before) => before.max(i64::from(least)),
                None => i64::from(least),
            }
        }
        // No default for invalid bounds, which validation reports.
        [Some(_), Some(_)] => return,
        _ => 1,
    };
    default(new, "spec.replicas", replicas);
}

/// Adds the errors of bounds that are not numbers, if the bounds are needed.
pub(crate) fn validate(new: &Value, errors: &mut Vec<FieldError>) {
    let found = BOUNDS.map(|bound| annotation(new, bound));
    if get(new, "spec.replicas").is_some() || found.contains(&None) {
        return;
    }
    for (key, text) in BOUNDS.into_iter().zip(found.into_iter().flatten()) {
        if text.parse::<i32>().is_err() {
            let path = FieldPath::new("metadata.annotations").key(key);
            errors.push(FieldError::invalid(path, &json!(text), "must be a number"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn autoscaler_bounds_apply_only_if_replicas_are_unset() {
        let bounded = |spec: Value| json!({"spec": spec, "metadata": {"annotations": {BOUNDS[0]: "3", BOUNDS[1]: "5"}}});
        let old = |replicas: i64| Some(json!({"spec": {"replicas": replicas}}));
        for (mut new, old, expected) in [
            (json!({"spec": {}}), None, 1),
            (json!({"spec": {}}), old(7), 1),
            (json!({"spec": {"replicas": 9}}), None, 9),
            (bounded(json!({"replicas": 9})), None, 9),
            (bounded(json!({})), None, 3),
            (bounded(json!({})), old(1), 3),
            (bounded(json!({})), old(4), 4),
            (bounded(json!({})), old(8), 5),
            (bounded(json!({})), Some(json!({"spec": {}})), 3),
        ] {
            prepare(&mut new, old.as_ref());
            assert_eq!(new["spec"]["replicas"], expected, "{new} after {old:?}");
        }
    }

    #[test]
    fn invalid_autoscaler_bounds_are_refused_if_replicas_are_unset() {
        let mut new = json!({"spec": {}, "metadata": {"annotations": {BOUNDS[0]: "few", BOUNDS[1]: "5"}}});
        let errors = |new: &Value| {
            let mut errors = Vec::new();
            validate(new, &mut errors);
            errors.len()
        };
        prepare(&mut new, None);
        assert_eq!((new["spec"].get("replicas"), errors(&new)), (None, 1));
        new["spec"]["replicas"] = json!(2);
        assert_eq!(errors(&new), 0);
    }
}
