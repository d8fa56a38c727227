//! Filling in what was left out.

use serde_json::{Map, Value};

use super::{Kind, Schema};

impl Schema {
    /// Puts defaults where fields are absent, and where they are null but may not be. A null
    /// without a default that may not be null is dropped, as if it had not been sent.
    ///
    /// It is done to what clients send and to what is read from the store alike: a default that
    /// came later shows in objects that were stored before.
    pub fn fill_in(&self, value: &mut Value) {
        self.fill(value, false);
    }

    /// As [`Schema::fill_in`], and leaves every null without a default for validation to refuse:
    /// who applies a null says null.
    pub fn fill_in_defaults(&self, value: &mut Value) {
        self.fill(value, true);
    }

    fn fill(&self, value: &mut Value, keep_nulls: bool) {
        match (&self.kind, value) {
            (Kind::Object(object), Value::Object(map)) => {
                settle_nulls(map, |name| object.field(name), keep_nulls);
                for name in &object.defaulted {
                    let default = object.properties.get(name).and_then(|schema| schema.default.as_ref());
                    if let Some(default) = default.filter(|_| !map.contains_key(name)) {
                        map.insert(name.clone(), default.clone());
                    }
                }
                // Nothing is filled into what has no parts.
                for (name, field) in map.iter_mut().filter(|(_, field)| field.is_object() || field.is_array())
                {
                    if let Some(schema) = object.field(name) {
                        schema.fill(field, keep_nulls);
                    }
                }
            }
            (Kind::List(list), Value::Array(items)) => {
                for item in items {
                    if let (true, Some(default)) = (list.items.forbids(item), &list.items.default) {
                        item.clone_from(default);
                    }
                    list.items.fill(item, keep_nulls);
                }
            }
            _ => {}
        }
    }

    /// Whether this is a null that may not be one.
    fn forbids(&self, value: &Value) -> bool {
        value.is_null() && !self.nullable
    }
}

/// Puts defaults in the place of nulls that may not be there, and drops those without, unless they are
/// to be kept.
fn settle_nulls<'a>(
    map: &mut Map<String, Value>,
    schema: impl Fn(&str) -> Option<&'a Schema>,
    keep_nulls: bool,
) {
    if !map.values().any(Value::is_null) {
        return;
    }
    map.retain(|name, field| {
        let Some(schema) = schema(name).filter(|schema| schema.forbids(field)) else { return true };
        if let Some(default) = &schema.default {
            field.clone_from(default);
        }
        schema.default.is_some() || keep_nulls
    });
}
