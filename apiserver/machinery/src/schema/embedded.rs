//! Objects in objects say what they are.

use serde_json::Value;

use super::{Kind, Schema};
use crate::field_errors::{FieldError, FieldPath};

impl Schema {
    /// Faults of embedded objects' own fields.
    pub(super) fn check_embedded(&self, value: &Value, path: &FieldPath, faults: &mut Vec<FieldError>) {
        if let (true, Some(map)) = (self.embedded, value.as_object()) {
            for field in ["apiVersion", "kind"] {
                check_word(map.get(field), &path.child(field), faults);
            }
            if let Some(metadata) = map.get("metadata").filter(|metadata| !metadata.is_object()) {
                faults.push(FieldError::invalid(path.child("metadata"), metadata, "must be an object"));
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

fn check_word(found: Option<&Value>, path: &FieldPath, faults: &mut Vec<FieldError>) {
    match found {
        None => faults.push(FieldError::required(path.clone(), "")),
        Some(Value::String(word)) if word.is_empty() => {
            faults.push(FieldError::invalid(path.clone(), &Value::from(""), "must not be empty"));
        }
        Some(Value::String(_)) => {}
        Some(other) => faults.push(FieldError::invalid(path.clone(), other, "must be a string")),
    }
}
