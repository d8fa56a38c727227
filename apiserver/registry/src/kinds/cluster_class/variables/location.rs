//! Where in a variable's schema another one is.

use apiserver_schema::field_errors::FieldPath;
use serde_json::Value;

/// Where a schema is, for the rules in it.
#[derive(Debug, Clone)]
pub(super) struct Place<'p> {
    /// Whether it is the whole.
    pub(super) is_root: bool,
    /// The list that it is in, of whose items nobody knows what they were before.
    pub(super) in_list: Option<&'p FieldPath>,
    /// How many values of it there can be, where the schemas around it have bounds.
    pub(super) times: Option<u64>,
}

impl<'p> Place<'p> {
    pub(super) fn root() -> Self {
        Self { is_root: true, in_list: None, times: Some(1) }
    }

    /// The place of what is in a schema here; `list` is where, if that is a list.
    pub(super) fn within(&self, schema: &Value, list: Option<&'p FieldPath>) -> Self {
        let times = most(schema).and_then(|most| Some(self.times?.saturating_mul(most)));
        Self { is_root: false, in_list: self.in_list.or(list), times }
    }
}

/// How many values are in one of a schema at most; in an object, each field once.
fn most(schema: &Value) -> Option<u64> {
    let bound =
        |name: &str| schema.get(name).and_then(Value::as_i64).map(|bound| u64::try_from(bound).unwrap_or(0));
    match schema.get("type").and_then(Value::as_str) {
        Some("array") => bound("maxItems"),
        Some("object") if schema.get("additionalProperties").is_some() => bound("maxProperties"),
        _ => Some(1),
    }
}
