//! Defaulting: absent fields and invalid nulls get the defaults of the schema.

use serde_json::{Map, Value};

use super::{Kind, Schema};

impl Schema {
    /// Sets the defaults of absent fields, and of nulls in fields that are not nullable. Drops a null that has no
    /// default and is not allowed, as if the client had not sent it.
    ///
    /// The server applies this to requests and to stored objects alike. A default that was added later thus appears in
    /// objects that were stored before.
    pub fn fill_in(&self, value: &mut Value) {
        self.fill(value, false);
    }

    /// Sets defaults like [`Schema::fill_in`], but keeps nulls without a default, so that validation rejects them. A
    /// client that applies a null means it.
    pub fn fill_in_defaults(&self, value: &mut Value) {
        self.fill(value, true);
    }

    fn fill(&self, value: &mut Value, keep_nulls: bool) {
        match (&self.kind, value) {
            (Kind::Object(object), Value::Object(map)) => {
                let mut has_nulls = false;
                for (name, field) in map.iter_mut() {
                    has_nulls |= field.is_null();
                    // Only objects and lists have parts to fill in.
                    if (field.is_object() || field.is_array())
                        && let Some(schema) = object.field(name)
                    {
                        schema.fill(field, keep_nulls);
                    }
                }
                if has_nulls {
                    replace_nulls(map, |name| object.field(name), keep_nulls);
                }
                for name in &object.defaulted {
                    if !map.contains_key(name) {
                        let default =
                            object.properties.get(name).and_then(|schema| schema.filled_default(keep_nulls));
                        map.extend(default.map(|default| (name.clone(), default)));
                    }
                }
            }
            (Kind::List(list), Value::Array(items)) => {
                for item in items {
                    if list.items.forbids(item) {
                        list.items.filled_default(keep_nulls).into_iter().for_each(|default| *item = default);
                    } else {
                        list.items.fill(item, keep_nulls);
                    }
                }
            }
            _ => {}
        }
    }

    /// Returns the default with the defaults of its own parts.
    fn filled_default(&self, keep_nulls: bool) -> Option<Value> {
        let mut default = self.default.clone()?;
        self.fill(&mut default, keep_nulls);
        Some(default)
    }

    /// Reports whether a value is a null that is not allowed.
    fn forbids(&self, value: &Value) -> bool {
        value.is_null() && !self.nullable
    }
}

/// Replaces nulls that are not allowed by their defaults, and drops those without a default unless `keep_nulls` is set.
fn replace_nulls<'a>(
    map: &mut Map<String, Value>,
    schema: impl Fn(&str) -> Option<&'a Schema>,
    keep_nulls: bool,
) {
    map.retain(|name, field| {
        let Some(schema) = schema(name).filter(|schema| schema.forbids(field)) else { return true };
        if let Some(default) = schema.filled_default(keep_nulls) {
            *field = default;
        }
        schema.default.is_some() || keep_nulls
    });
}
