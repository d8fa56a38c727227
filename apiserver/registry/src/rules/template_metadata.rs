//! Validation of metadata and taints that a kind copies to the objects that it creates. Without it, errors would occur
//! only there, later and not visible to the author.

use apiserver_schema::field_errors::{FieldError, FieldPath};
use serde_json::{Value, json};

use crate::rules::names;

/// Largest size of an object's annotations, keys and values together: upstream's limit. Unit: bytes.
const MOST_ANNOTATION_BYTES: usize = 256 * 1024;

/// Taints that Cluster API sets itself.
const OWN_TAINTS: [&str; 2] =
    ["node.cluster.x-k8s.io/uninitialized", "node.cluster.x-k8s.io/outdated-revision"];

/// Adds the errors of labels and annotations.
pub(crate) fn metadata(metadata: Option<&Value>, path: &FieldPath, errors: &mut Vec<FieldError>) {
    let entries = |field: &str| metadata.and_then(|metadata| metadata.get(field)).and_then(Value::as_object);
    let at = path.child("labels");
    for (key, value) in entries("labels").into_iter().flatten() {
        errors.extend(
            names::label_key(key).iter().map(|error| FieldError::invalid(at.clone(), &json!(key), error)),
        );
        let text = value.as_str().unwrap_or_default();
        errors.extend(
            names::label_value(text).iter().map(|error| FieldError::invalid(at.clone(), value, error)),
        );
    }
    let at = path.child("annotations");
    let mut total = 0;
    for (key, value) in entries("annotations").into_iter().flatten() {
        total += key.len() + value.as_str().map_or(0, str::len);
        let found = names::label_key(&key.to_lowercase());
        errors.extend(found.iter().map(|error| FieldError::invalid(at.clone(), &json!(key), error)));
    }
    if total > MOST_ANNOTATION_BYTES {
        errors.push(FieldError::too_long(at, u64::try_from(MOST_ANNOTATION_BYTES).unwrap_or(u64::MAX)));
    }
}

/// Adds the errors of taints for Nodes. Some taints are reserved.
pub(crate) fn taints(taints: Option<&Value>, path: &FieldPath, errors: &mut Vec<FieldError>) {
    for (index, taint) in taints.and_then(Value::as_array).into_iter().flatten().enumerate() {
        let key = taint.get("key").and_then(Value::as_str).unwrap_or_default();
        let at = path.index(index).child("key");
        let reserved = reserved_taint(key).map(str::to_owned);
        let found = reserved.into_iter().chain(names::label_key(key));
        errors.extend(found.map(|error| FieldError::invalid(at.clone(), &json!(key), &error)));
    }
}

fn reserved_taint(key: &str) -> Option<&'static str> {
    if OWN_TAINTS.contains(&key) {
        Some("taint key is not allowed")
    } else if key.starts_with("node.kubernetes.io/") && key != "node.kubernetes.io/out-of-service" {
        Some(
            "taint key must not have the prefix node.kubernetes.io/, except for node.kubernetes.io/out-of-service",
        )
    } else if key.starts_with("node.cloudprovider.kubernetes.io/") {
        Some("taint key must not have the prefix node.cloudprovider.kubernetes.io/")
    } else if key == "node-role.kubernetes.io/master" {
        Some("taint is deprecated since 1.24 and should not be used anymore")
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(check: impl FnOnce(&FieldPath, &mut Vec<FieldError>)) -> Vec<String> {
        let mut errors = Vec::new();
        check(&FieldPath::new("at"), &mut errors);
        errors.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn labels_and_annotations_must_be_valid() {
        let found = |value: Value| shown(|path, errors| metadata(Some(&value), path, errors));
        let none = Vec::<String>::new();
        assert_eq!(found(json!({"labels": {"a/b": "C"}, "annotations": {"X": "any thing"}})), none);
        let wrong = found(json!({"labels": {"a b": "c", "d": "e f"}, "annotations": {"/x": ""}}));
        assert_eq!(wrong.len(), 3, "{wrong:?}");
        assert!(
            wrong[0].starts_with("at.labels: Invalid value: \"a b\": name part must consist of"),
            "{wrong:?}"
        );
        assert!(
            wrong[1].starts_with("at.labels: Invalid value: \"e f\": a valid label must be"),
            "{wrong:?}"
        );
        assert_eq!(wrong[2], "at.annotations: Invalid value: \"/x\": prefix part must be non-empty");
        let long = json!({"annotations": {"x": "y".repeat(MOST_ANNOTATION_BYTES)}});
        assert_eq!(found(long), ["at.annotations: Too long: may not be more than 262144 bytes"]);
    }

    #[test]
    fn reserved_taints_are_refused() {
        let keys = [
            "mine",
            "node.kubernetes.io/out-of-service",
            "node.kubernetes.io/not-ready",
            "node.cluster.x-k8s.io/uninitialized",
            "node.cloudprovider.kubernetes.io/x",
            "node-role.kubernetes.io/master",
        ];
        let list: Value = keys.iter().map(|key| json!({"key": key})).collect();
        let found = shown(|path, errors| taints(Some(&list), path, errors));
        let at: Vec<&str> = found.iter().filter_map(|error| error.split(':').next()).collect();
        assert_eq!(at, ["at[2].key", "at[3].key", "at[4].key", "at[5].key"]);
    }
}
