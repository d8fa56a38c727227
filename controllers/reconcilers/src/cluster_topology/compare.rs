//! Comparison of an object with the result of a dry run. Pure.

use serde_json::{Map, Value};

use super::MANAGER;
use crate::plan::changed_fields;

/// Annotation of dry runs. Admission accepts changes of immutable templates with it.
pub(super) const DRY_RUN: &str = "topology.cluster.x-k8s.io/dry-run";

/// Difference between an object and what it is to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Difference {
    None,
    /// Labels, annotations, owners, or the fields of this controller; the spec is the same.
    Metadata,
    Spec,
}

/// Compares an object with the result of a dry run of its intent.
pub(super) fn difference(current: &Value, dry: &Value) -> Difference {
    if current.get("spec") != dry.get("spec") {
        return Difference::Spec;
    }
    let is_same = labels(current) == labels(dry)
        && annotations(current) == annotations(dry)
        && field(current, "ownerReferences") == field(dry, "ownerReferences")
        && managed(current) == managed(dry);
    if is_same { Difference::None } else { Difference::Metadata }
}

/// Returns the fields that differ between an object and the result of a dry run, as paths.
pub(super) fn fields(current: &Value, dry: &Value) -> Vec<String> {
    let mut lines = Vec::new();
    let spec = |object: &Value| object.get("spec").cloned().unwrap_or_default();
    changed_fields("spec", &spec(current), &spec(dry), &mut lines);
    let pairs =
        [("labels", labels(current), labels(dry)), ("annotations", annotations(current), annotations(dry))];
    for (name, old, new) in pairs {
        changed_fields(&format!("metadata.{name}"), &Value::Object(old), &Value::Object(new), &mut lines);
    }
    if field(current, "ownerReferences") != field(dry, "ownerReferences") {
        lines.push("metadata.ownerReferences".to_owned());
    }
    lines
}

/// Removes the annotation of dry runs from the result of one.
pub(super) fn unmarked(mut dry: Value) -> Value {
    if let Some(metadata) = dry.get_mut("metadata").and_then(Value::as_object_mut)
        && let Some(annotations) = metadata.get_mut("annotations").and_then(Value::as_object_mut)
    {
        annotations.remove(DRY_RUN);
        if annotations.is_empty() {
            metadata.remove("annotations");
        }
    }
    dry
}

fn field<'a>(object: &'a Value, name: &str) -> Option<&'a Value> {
    object.get("metadata")?.get(name)
}

fn labels(object: &Value) -> Map<String, Value> {
    field(object, "labels").and_then(Value::as_object).cloned().unwrap_or_default()
}

/// Returns the annotations without that of dry runs.
fn annotations(object: &Value) -> Map<String, Value> {
    let mut found = field(object, "annotations").and_then(Value::as_object).cloned().unwrap_or_default();
    found.remove(DRY_RUN);
    found
}

/// Returns the fields that this controller applies, without the annotation of dry runs.
fn managed(object: &Value) -> Option<Value> {
    let entries = field(object, "managedFields").and_then(Value::as_array)?;
    let is_ours = |entry: &&Value| {
        entry.get("manager").and_then(Value::as_str) == Some(MANAGER)
            && entry.get("operation").and_then(Value::as_str) == Some("Apply")
            && entry.get("subresource").and_then(Value::as_str).unwrap_or_default().is_empty()
    };
    let mut fields = entries.iter().find(is_ours)?.get("fieldsV1")?.clone();
    if let Some(metadata) = fields.get_mut("f:metadata").and_then(Value::as_object_mut)
        && let Some(annotations) = metadata.get_mut("f:annotations").and_then(Value::as_object_mut)
    {
        annotations.remove(&format!("f:{DRY_RUN}"));
        if annotations.keys().all(|key| key == ".") {
            metadata.remove("f:annotations");
        }
    }
    Some(fields)
}

/// Returns an intent with the annotation of dry runs.
pub(super) fn marked(intent: &Value) -> Value {
    let mut marked = intent.clone();
    super::desired::put(&mut marked, "/metadata/annotations", Some(Value::Object(annotations(intent))));
    if let Some(annotations) = marked.pointer_mut("/metadata/annotations").and_then(Value::as_object_mut) {
        annotations.insert(DRY_RUN.to_owned(), Value::from(""));
    }
    marked
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object(spec: &Value, annotations: &Value, fields: &Value) -> Value {
        let entry = json!({"manager": MANAGER, "operation": "Apply", "fieldsV1": fields});
        let other = json!({"manager": "kubectl", "operation": "Update", "fieldsV1": {"f:spec": {}}});
        json!({
            "metadata": {"labels": {"a": "b"}, "annotations": annotations, "managedFields": [other, entry]},
            "spec": spec,
        })
    }

    #[test]
    fn the_annotation_of_the_dry_run_is_no_difference() {
        let fields = json!({"f:metadata": {}, "f:spec": {"f:x": {}}});
        let spec = json!({"x": 1});
        let current = object(&spec, &json!({}), &fields);
        // Without other annotations, the dry run adds the map as well.
        let with =
            json!({"f:metadata": {"f:annotations": {format!("f:{DRY_RUN}"): {}}}, "f:spec": {"f:x": {}}});
        let dry = object(&spec, &json!({DRY_RUN: ""}), &with);
        assert_eq!(difference(&current, &dry), Difference::None);
        let changed = object(&json!({"x": 2}), &json!({DRY_RUN: ""}), &with);
        assert_eq!(difference(&current, &changed), Difference::Spec);
        let annotated = object(&spec, &json!({"y": "z"}), &fields);
        assert_eq!(difference(&current, &annotated), Difference::Metadata);
        let lost = object(&spec, &json!({}), &json!({"f:metadata": {}, "f:spec": {}}));
        assert_eq!(difference(&current, &lost), Difference::Metadata, "a field is no longer applied");
        assert_eq!(super::fields(&current, &dry), [""; 0]);
        assert_eq!(super::fields(&current, &changed), ["spec.x"]);
        assert_eq!(super::fields(&current, &annotated), ["metadata.annotations.y"]);
        assert_eq!(unmarked(dry)["metadata"].get("annotations"), None);
        assert_eq!(unmarked(annotated)["metadata"]["annotations"], json!({"y": "z"}));
    }
}
