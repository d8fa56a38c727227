//! Objects in objects say what they are.

use serde_json::Value;

use super::place::Place;
use super::{Kind, Schema};
use crate::field_errors::{FieldError, FieldPath};
use crate::metadata;

impl Schema {
    /// Faults of embedded objects' own fields.
    pub(super) fn check_embedded(&self, value: &Value, path: &Place<'_>, faults: &mut Vec<FieldError>) {
        if !self.has_embedded {
            return;
        }
        if let (true, Some(map)) = (self.embedded, value.as_object()) {
            for field in ["apiVersion", "kind"] {
                check_word(field, map.get(field), &path.child(field).path(), faults);
            }
            if let Some(metadata) = map.get("metadata") {
                check_metadata(metadata, &path.child("metadata").path(), faults);
            }
        }
        match (&self.kind, value) {
            (Kind::Object(object), Value::Object(map)) => {
                for (name, field) in map {
                    match object.properties.get(name) {
                        Some(schema) => schema.check_embedded(field, &path.child(name), faults),
                        None => {
                            if let Some(schema) = &object.additional {
                                schema.check_embedded(field, &path.key(name), faults);
                            }
                        }
                    }
                }
            }
            (Kind::List(list), Value::Array(items)) => {
                for (index, item) in items.iter().enumerate() {
                    list.items.check_embedded(item, &path.index(index), faults);
                }
            }
            _ => {}
        }
    }
}

/// Names that are no part of a path, and what all objects' metadata must keep.
fn check_metadata(metadata: &Value, path: &FieldPath, faults: &mut Vec<FieldError>) {
    if let Some(why) = metadata::wrong_type(metadata) {
        return faults.push(FieldError::invalid(path.clone(), metadata, &why));
    }
    metadata::validate_embedded(metadata, path, faults);
}

/// `apiVersion` and `kind`.
fn check_word(field: &str, found: Option<&Value>, path: &FieldPath, faults: &mut Vec<FieldError>) {
    let Some(found) = found else { return faults.push(FieldError::required(path.clone(), "")) };
    let fault = match (found.as_str(), field) {
        (None, _) => "must be a string".to_owned(),
        (Some(""), _) => "must not be empty".to_owned(),
        (Some(version), "apiVersion") if version.matches('/').count() > 1 => {
            format!("unexpected GroupVersion string: {version}")
        }
        (Some(kind), "kind") if !is_label_in_some_case(kind) => {
            format!("may have mixed case, but should otherwise match: {DNS_1035}")
        }
        _ => return,
    };
    faults.push(FieldError::invalid(path.clone(), found, &fault));
}

fn is_label_in_some_case(kind: &str) -> bool {
    kind.len() <= 63
        && kind.starts_with(|c: char| c.is_ascii_alphabetic())
        && !kind.ends_with('-')
        && kind.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
}

/// What upstream says of a kind that cannot be one.
const DNS_1035: &str = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an \
    alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for \
    validation is '[a-z]([-a-z0-9]*[a-z0-9])?')";
