//! Pruning: removal of fields that the schema does not know.

use serde_json::Value;

use super::location::Location;
use super::{Kind, Schema};
use crate::field_errors::FieldPath;

/// Removes every field of a value that must not have any. Whatever the intended type is, its fields are unknown.
fn drop_fields(value: &mut Value, path: &Location<'_>, unknown: &mut Vec<String>) {
    match value {
        Value::Object(map) => {
            unknown.extend(map.keys().map(|name| path.child(name).to_string()));
            map.clear();
        }
        Value::Array(items) => {
            for (index, item) in items.iter_mut().enumerate() {
                drop_fields(item, &path.index(index), unknown);
            }
        }
        _ => {}
    }
}

/// Fields of every embedded object, besides the fields in its schema.
const META_FIELDS: [&str; 3] = ["apiVersion", "kind", "metadata"];

impl Schema {
    /// Removes unknown fields from `value` and returns their paths, sorted.
    pub fn prune(&self, value: &mut Value, path: &FieldPath) -> Vec<String> {
        let mut unknown = Vec::new();
        self.prune_into(value, &Location::at(path), false, &mut unknown);
        unknown.sort();
        unknown
    }

    /// `kept` is set below a list whose unknown fields are kept.
    fn prune_into(&self, value: &mut Value, path: &Location<'_>, kept: bool, unknown: &mut Vec<String>) {
        let kept = kept || self.preserve;
        match (&self.kind, value) {
            (Kind::Object(object), Value::Object(map)) => {
                map.retain(|name, field| {
                    let schema = object.field(name);
                    let is_own = self.has_of_its_own(name);
                    if let Some(schema) =
                        schema.filter(|_| !is_own && (field.is_object() || field.is_array()))
                    {
                        schema.prune_into(field, &path.child(name), false, unknown);
                    }
                    let is_known = kept || schema.is_some() || is_own;
                    if !is_known {
                        unknown.push(path.child(name).to_string());
                    }
                    is_known
                });
            }
            (Kind::List(list), Value::Array(items)) => {
                for (index, item) in items.iter_mut().enumerate() {
                    list.items.prune_into(item, &path.index(index), kept, unknown);
                }
            }
            (_, value) if !kept => drop_fields(value, path, unknown),
            _ => {}
        }
    }

    /// Reports whether a field is one that every embedded object has.
    fn has_of_its_own(&self, field: &str) -> bool {
        self.embedded && META_FIELDS.contains(&field)
    }
}
