//! Object metadata: its schema, which all kinds share, its defaults, and the rules that no schema can express.

mod managed_fields;
mod names;
mod owner_references;
mod types;

use std::collections::HashSet;

use serde_json::{Value, json};

use crate::object;
use apiserver_schema::MetadataRules;
use apiserver_schema::field_errors::{FieldError, FieldPath};

pub use managed_fields::manager_errors;
pub(crate) use managed_fields::validate as validate_managed_fields;
pub use names::{
    is_label_value, is_qualified_name, is_subdomain, label_errors, label_key_errors, label_value_errors,
    qualified_name_errors, subdomain_errors,
};
pub use types::{unknowable_kind, word, wrong_type};

/// Largest size of all annotations of one object, keys and values together: upstream's limit. Unit: bytes.
const MOST_ANNOTATION_BYTES: usize = 256 * 1024;

/// Returns the schema of `metadata`, with the fields that this server keeps.
pub fn schema() -> Value {
    let text = json!({"type": "string"});
    let map = json!({"type": "object", "additionalProperties": {"type": "string"}});
    let time = json!({"type": "string", "format": "date-time", "nullable": true});
    json!({"type": "object", "properties": {
        "name": text, "generateName": text, "namespace": text, "uid": text, "resourceVersion": text,
        "selfLink": text, "generation": {"type": "integer", "format": "int64"},
        "creationTimestamp": time, "deletionTimestamp": time,
        "deletionGracePeriodSeconds": {"type": "integer", "format": "int64"},
        "labels": map, "annotations": map,
        "finalizers": {"type": "array", "items": text},
        "ownerReferences": {"type": "array", "items": {"type": "object", "properties": {
            "apiVersion": text, "kind": text, "name": text, "uid": text,
            "controller": {"type": "boolean"}, "blockOwnerDeletion": {"type": "boolean"}}}},
        "managedFields": {"type": "array", "items": {"type": "object", "properties": {
            "manager": text, "operation": text, "apiVersion": text, "time": time, "fieldsType": text,
            "fieldsV1": {"type": "object", "x-kubernetes-preserve-unknown-fields": true, "nullable": true},
            "subresource": text}}},
    }})
}

/// Returns the schema for an object that is being written: the server itself writes its field managers, and their sets
/// may be [text](apiserver_structured_merge::serialize_sets).
fn schema_in_writes() -> Value {
    let mut schema = schema();
    if let Some(set) = schema.pointer_mut("/properties/managedFields/items/properties/fieldsV1") {
        *set = json!({"x-kubernetes-preserve-unknown-fields": true, "nullable": true});
    }
    schema
}

/// Rules of `metadata` for schemas: the schema in writes, and the checks of embedded objects.
pub const RULES: &dyn MetadataRules = &Rules;

#[derive(Debug)]
struct Rules;

impl MetadataRules for Rules {
    fn schema(&self) -> Value {
        schema_in_writes()
    }

    fn wrong_type(&self, metadata: &Value) -> Option<String> {
        wrong_type(metadata)
    }

    fn validate_embedded(&self, metadata: &Value, path: &FieldPath, errors: &mut Vec<FieldError>) {
        validate_embedded(metadata, path, errors);
    }
}

/// Adds every error of the metadata of an embedded object, which needs no name.
fn validate_embedded(metadata: &Value, path: &FieldPath, errors: &mut Vec<FieldError>) {
    let object = json!({"metadata": metadata});
    refuse(&path.child("name"), &metadata["name"], path_segment_errors(object::name(&object)), errors);
    let namespace = object::namespace(&object);
    if !namespace.is_empty() {
        refuse(&path.child("namespace"), &json!(namespace), label_errors(namespace), errors);
    }
    if let Some(generation) = metadata["generation"].as_i64().filter(|generation| *generation < 0) {
        let detail = "must be greater than or equal to 0";
        errors.push(FieldError::invalid(path.child("generation"), &json!(generation), detail));
    }
    validate_labels(&object, path, errors);
    validate_annotations(&object, path, errors);
    validate_owners(&object, path, errors);
    validate_finalizers(&object, path, errors);
}

/// Returns the errors of a name that becomes one segment of a path.
pub(crate) fn path_segment_errors(name: &str) -> Vec<String> {
    match name {
        "." | ".." => vec![format!("may not be '{name}'")],
        _ => ["/", "%"]
            .into_iter()
            .filter(|forbidden| name.contains(forbidden))
            .map(|forbidden| format!("may not contain '{forbidden}'"))
            .collect(),
    }
}

/// Adds the errors of one value.
pub(crate) fn refuse(
    path: &FieldPath,
    value: &Value,
    details: impl IntoIterator<Item = String>,
    errors: &mut Vec<FieldError>,
) {
    errors.extend(details.into_iter().map(|detail| FieldError::invalid(path.clone(), value, &detail)));
}

pub(crate) fn validate_labels(new: &Value, path: &FieldPath, errors: &mut Vec<FieldError>) {
    let path = path.child("labels");
    for (key, value) in object::labels(new).into_iter().flatten() {
        refuse(&path, &json!(key), label_key_errors(key), errors);
        refuse(&path, value, label_value_errors(value.as_str().unwrap_or_default()), errors);
    }
}

pub(crate) fn validate_annotations(new: &Value, path: &FieldPath, errors: &mut Vec<FieldError>) {
    let path = path.child("annotations");
    let mut total = 0;
    for (key, value) in
        object::at(new, "metadata.annotations").and_then(Value::as_object).into_iter().flatten()
    {
        total += key.len() + value.as_str().map_or(0, str::len);
        refuse(&path, &json!(key), label_key_errors(&key.to_lowercase()), errors);
    }
    if total > MOST_ANNOTATION_BYTES {
        errors.push(FieldError::too_long(path, u64::try_from(MOST_ANNOTATION_BYTES).unwrap_or(u64::MAX)));
    }
}

pub(crate) fn validate_owners(new: &Value, path: &FieldPath, errors: &mut Vec<FieldError>) {
    if let Some(owners) = object::at(new, "metadata.ownerReferences").and_then(Value::as_array) {
        owner_references::validate(owners, &path.child("ownerReferences"), errors);
    }
}

pub(crate) fn validate_finalizers(new: &Value, path: &FieldPath, errors: &mut Vec<FieldError>) {
    let path = path.child("finalizers");
    let finalizers = object::finalizers(new);
    for finalizer in &finalizers {
        refuse(&path, &json!(finalizer), label_key_errors(finalizer), errors);
    }
    if finalizers.contains(&"orphan") && finalizers.contains(&"foregroundDeletion") {
        let detail = "finalizer orphan and foregroundDeletion cannot be both set";
        errors.push(FieldError::invalid(path.clone(), &json!(finalizers), detail));
    }
}

/// Normalizes metadata: an empty or null field is removed, because it means the same as an absent one. A label, an
/// annotation, a finalizer or an owner reference that is null becomes empty.
pub fn normalize(object: &mut Value) {
    let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) else { return };
    for field in ["labels", "annotations"] {
        let entries = metadata.get_mut(field).and_then(Value::as_object_mut);
        for value in entries.into_iter().flat_map(|entries| entries.values_mut()) {
            if value.is_null() {
                *value = json!("");
            }
        }
    }
    let finalizers = metadata.get_mut("finalizers").and_then(Value::as_array_mut);
    for finalizer in finalizers.into_iter().flatten().filter(|finalizer| finalizer.is_null()) {
        *finalizer = json!("");
    }
    let owners = metadata.get_mut("ownerReferences").and_then(Value::as_array_mut);
    for owner in owners.into_iter().flatten() {
        match owner {
            Value::Null => *owner = json!({}),
            Value::Object(fields) => fields.retain(|_, value| !value.is_null()),
            _ => {}
        }
    }
    metadata.retain(|field, value| match value {
        Value::Null => false,
        Value::Array(items) => !items.is_empty() || field == "managedFields",
        Value::Object(map) => !map.is_empty(),
        Value::String(text) => !text.is_empty() || field == "name",
        _ => true,
    });
}

/// Drops duplicate owner references, and returns the uids of the dropped ones.
pub fn dedup_owners(object: &mut Value) -> Vec<String> {
    let mut dropped = Vec::new();
    let owners = object.get_mut("metadata").and_then(|meta| meta.get_mut("ownerReferences"));
    if let Some(owners) = owners.and_then(Value::as_array_mut).filter(|owners| owners.len() > 1) {
        let mut seen: HashSet<Value> = HashSet::new();
        owners.retain(|owner| {
            let fresh = seen.insert(owner.clone());
            if let (false, Some(uid)) = (fresh, owner.get("uid").and_then(Value::as_str)) {
                dropped.push(uid.to_owned());
            }
            fresh
        });
    }
    dropped
}

/// Returns upstream's warnings about new finalizers with unqualified names.
pub fn finalizer_warnings(object: &Value, old: Option<&Value>) -> Vec<String> {
    let known: HashSet<&str> = old.map(object::finalizers).unwrap_or_default().into_iter().collect();
    let exempt = ["orphan", "foregroundDeletion", "kubernetes"];
    object::finalizers(object)
        .into_iter()
        .filter(|finalizer| !finalizer.contains('/') && !exempt.contains(finalizer) && !known.contains(finalizer))
        .map(|finalizer| {
            let better = if finalizer.contains('.') {
                "prefer a domain-qualified finalizer name including a path (/)"
            } else {
                "prefer a domain-qualified finalizer name"
            };
            format!("metadata.finalizers: {finalizer:?}: {better} to avoid accidental conflicts with other finalizer writers")
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use apiserver_schema::Schema;
    use apiserver_schema::field_errors::FieldPath;
    use serde_json::json;

    #[test]
    fn metadata_of_embedded_objects_is_validated() {
        let schema = json!({"type": "object", "x-kubernetes-embedded-resource": true,
            "x-kubernetes-preserve-unknown-fields": true});
        let schema = Schema::compile(&json!({"type": "object", "properties": {"f": schema}})).unwrap();
        let schema = schema.with_metadata_rules(super::RULES);
        let found = |value: serde_json::Value| -> Vec<String> {
            let errors = schema.validate(&json!({"f": value}), None, &FieldPath::default());
            errors.iter().map(|error| error.to_string().chars().take(60).collect()).collect()
        };
        let with =
            |metadata: serde_json::Value| json!({"apiVersion": "v1", "kind": "A", "metadata": metadata});
        assert_eq!(found(with(json!({"generateName": "x"}))), Vec::<String>::new());
        assert_eq!(
            found(with(json!({"name": "a/b"}))),
            ["f.metadata.name: Invalid value: \"a/b\": may not contain '/'"]
        );
        let many = with(
            json!({"namespace": "A B", "generation": -1, "labels": {"a b": "c"}, "finalizers": ["x y"]}),
        );
        assert_eq!(
            found(many),
            [
                "f.metadata.namespace: Invalid value: \"A B\": a lowercase RFC ",
                "f.metadata.generation: Invalid value: -1: must be greater th",
                "f.metadata.labels: Invalid value: \"a b\": name part must cons",
                "f.metadata.finalizers: Invalid value: \"x y\": name part must ",
            ]
        );
        assert_eq!(found(with(json!(7))).len(), 1);
        assert_eq!(
            found(json!({"apiVersion": "a/b/c", "kind": "9A"})),
            [
                "f.apiVersion: Invalid value: \"a/b/c\": unexpected GroupVersio",
                "f.kind: Invalid value: \"9A\": may have mixed case, but should",
            ]
        );
    }
}
