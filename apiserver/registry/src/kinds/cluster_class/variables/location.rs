//! Location of a schema within the schema of a variable.

use apiserver_schema::field_errors::FieldPath;
use serde_json::Value;

/// Location of a schema, for its rules.
#[derive(Debug, Clone)]
pub(super) struct Location<'p> {
    /// Set for the outermost schema.
    pub(super) is_root: bool,
    /// Enclosing list. Its items have no old value.
    pub(super) in_list: Option<&'p FieldPath>,
    /// Largest number of values, if the enclosing schemas have bounds.
    pub(super) times: Option<u64>,
}

impl<'p> Location<'p> {
    pub(super) fn root() -> Self {
        Self { is_root: true, in_list: None, times: Some(1) }
    }

    /// Returns the location of a schema within this one. `list` is the path of this schema if it is a list.
    pub(super) fn within(&self, schema: &Value, list: Option<&'p FieldPath>) -> Self {
        let times = most(schema).and_then(|most| Some(self.times?.saturating_mul(most)));
        Self { is_root: false, in_list: self.in_list.or(list), times }
    }
}

/// Returns the largest number of values in a value of a schema. An object has each field once.
fn most(schema: &Value) -> Option<u64> {
    let bound =
        |name: &str| schema.get(name).and_then(Value::as_i64).map(|bound| u64::try_from(bound).unwrap_or(0));
    match schema.get("type").and_then(Value::as_str) {
        Some("array") => bound("maxItems"),
        Some("object") if schema.get("additionalProperties").is_some() => bound("maxProperties"),
        _ => Some(1),
    }
}
