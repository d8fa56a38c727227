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
                let mut has_nulls = false;
                for (name, field) in map.iter_mut() {
                    has_nulls |= field.is_null();
                    // Nothing is filled into what has no parts.
                    if (field.is_object() || field.is_array())
                        && let Some(schema) = object.field(name)
                    {
                        schema.fill(field, keep_nulls);
                    }
                }
                if has_nulls {
                    settle_nulls(map, |name| object.field(name), keep_nulls);
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

    /// The default, which may have parts that have defaults themselves.
    fn filled_default(&self, keep_nulls: bool) -> Option<Value> {
        let mut default = self.default.clone()?;
        self.fill(&mut default, keep_nulls);
        Some(default)
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
    map.retain(|name, field| {
        let Some(schema) = schema(name).filter(|schema| schema.forbids(field)) else { return true };
        if let Some(default) = schema.filled_default(keep_nulls) {
            *field = default;
        }
        schema.default.is_some() || keep_nulls
    });
}
