//! Filling in what was left out.

use serde_json::Value;

use super::{Kind, Schema};

impl Schema {
    /// Puts defaults where fields are absent, and where they are null but may not be. A null
    /// without a default that may not be null is dropped, as if it had not been sent.
    pub fn fill_in(&self, value: &mut Value) {
        match (&self.kind, value) {
            (Kind::Object(object), Value::Object(map)) => {
                for (name, schema) in &object.properties {
                    let absent = map.get(name).is_none_or(|field| field.is_null() && !schema.nullable);
                    match &schema.default {
                        Some(default) if absent => {
                            map.insert(name.clone(), default.clone());
                        }
                        _ if absent && !matches!(schema.kind, Kind::Any) => {
                            map.remove(name);
                        }
                        _ => {}
                    }
                    if let Some(field) = map.get_mut(name) {
                        schema.fill_in(field);
                    }
                }
                if let Some(additional) = &object.additional {
                    let free = map.iter_mut().filter(|(name, _)| !object.properties.contains_key(*name));
                    free.for_each(|(_, field)| additional.fill_in(field));
                }
            }
            (Kind::List(list), Value::Array(items)) => {
                items.iter_mut().for_each(|item| list.items.fill_in(item))
            }
            _ => {}
        }
    }
}
