//! Dropping what the schema does not know, and saying what was dropped.

use serde_json::Value;

use super::{Kind, Schema};
use crate::field_errors::FieldPath;

impl Schema {
    /// Removes unknown fields from `value` and returns their paths, in the order of the walk.
    pub fn prune(&self, value: &mut Value, path: &FieldPath) -> Vec<String> {
        let mut unknown = Vec::new();
        self.prune_into(value, path, &mut unknown);
        unknown
    }

    fn prune_into(&self, value: &mut Value, path: &FieldPath, unknown: &mut Vec<String>) {
        match (&self.kind, value) {
            (Kind::Object(object), Value::Object(map)) => {
                map.retain(|name, _| {
                    let known =
                        object.properties.contains_key(name) || object.additional.is_some() || self.preserve;
                    if !known {
                        unknown.push(path.child(name).to_string());
                    }
                    known
                });
                for (name, field) in map.iter_mut() {
                    match object.properties.get(name) {
                        Some(schema) => schema.prune_into(field, &path.child(name), unknown),
                        None => {
                            if let Some(schema) = &object.additional {
                                schema.prune_into(field, &path.child(name), unknown);
                            }
                        }
                    }
                }
            }
            (Kind::List(list), Value::Array(items)) => {
                for (index, item) in items.iter_mut().enumerate() {
                    list.items.prune_into(item, &path.index(index), unknown);
                }
            }
            _ => {}
        }
    }
}
