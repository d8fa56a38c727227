//! Checking values against their schema.

use std::collections::HashSet;

use serde_json::Value;

use super::{Kind, ListSchema, NumberSchema, ObjectSchema, Schema, TextSchema, Uniqueness};
use crate::field_errors::{FieldError, FieldErrorKind, FieldPath};

/// More faults than this are not reported: nobody reads them, and a hostile body could have millions.
const MOST_FAULTS: usize = 100;

impl Schema {
    /// Every way in which `value` breaks the schema.
    ///
    /// `old` is the stored value in the same place. What has not changed is not held against an
    /// update: a rule that became stricter must not block unrelated edits.
    pub fn validate(&self, value: &Value, old: Option<&Value>, path: &FieldPath) -> Vec<FieldError> {
        let mut faults = Vec::new();
        self.walk(value, old, path, &mut faults);
        faults.truncate(MOST_FAULTS);
        faults
    }

    fn walk(&self, value: &Value, old: Option<&Value>, path: &FieldPath, faults: &mut Vec<FieldError>) {
        if old == Some(value) || faults.len() >= MOST_FAULTS {
            return;
        }
        if value.is_null() && self.nullable {
            return;
        }
        match (&self.kind, value) {
            (Kind::Any, _) | (Kind::Boolean, Value::Bool(_)) | (Kind::IntegerOrText, Value::String(_)) => {}
            (Kind::IntegerOrText, Value::Number(number)) if number.is_i64() => {}
            (Kind::Object(schema), Value::Object(_)) => schema.walk(value, old, path, faults),
            (Kind::List(schema), Value::Array(items)) => schema.walk(items, old, path, faults),
            (Kind::Text(schema), Value::String(text)) => schema.check(text, value, path, faults),
            (Kind::Integer(schema), Value::Number(number)) if number.is_i64() => {
                schema.check_integer(number.as_i64().unwrap_or_default(), value, path, faults);
            }
            (Kind::Integer(schema), Value::Number(_)) if schema.narrow => {
                faults.push(FieldError::unchecked_integer(path));
                let detail = format!("{path} in body must be of type int32: \"float64\"");
                faults.push(FieldError::type_invalid(path.clone(), &Value::from("float64"), &detail));
                return;
            }
            (Kind::Number(schema), Value::Number(_)) => schema.check(value, path, faults),
            _ => return faults.push(self.wrong_type(value, path)),
        }
        if !self.allowed.is_empty() && !self.allowed.contains(value) {
            let supported: Vec<&str> = self.allowed.iter().filter_map(Value::as_str).collect();
            faults.push(FieldError::not_supported(path.clone(), value, &supported));
        }
    }

    fn wrong_type(&self, value: &Value, path: &FieldPath) -> FieldError {
        let found = match value {
            Value::Null => "null",
            Value::Bool(_) => "boolean",
            Value::Number(number) if number.is_i64() => "integer",
            Value::Number(_) => "number",
            Value::String(_) => "string",
            Value::Array(_) => "array",
            Value::Object(_) => "object",
        };
        let wanted = match &self.kind {
            Kind::Any => "any",
            Kind::Object(_) => "object",
            Kind::List(_) => "array",
            Kind::Text(_) => "string",
            Kind::Integer(_) => "integer",
            Kind::Number(_) => "number",
            Kind::Boolean => "boolean",
            Kind::IntegerOrText => "integer,string",
        };
        let detail = format!("{path} in body must be of type {wanted}: {found:?}");
        // The type stands for the value: so it is upstream, and a large value helps nobody.
        FieldError::type_invalid(path.clone(), &Value::from(found), &detail)
    }
}

/// A value short enough to be shown in an error; the rest of a large one helps nobody.
fn abridged(value: &Value) -> Value {
    match value {
        Value::Object(_) => Value::String("object".to_owned()),
        Value::Array(_) => Value::String("array".to_owned()),
        Value::String(text) if text.len() > 256 => Value::String(text.chars().take(256).collect()),
        other => other.clone(),
    }
}

impl ObjectSchema {
    fn walk(&self, value: &Value, old: Option<&Value>, path: &FieldPath, faults: &mut Vec<FieldError>) {
        let Some(map) = value.as_object() else { return };
        for name in self.required.iter().filter(|name| !map.contains_key(*name)) {
            faults.push(FieldError::required(path.child(name), ""));
        }
        if self.least.is_some_and(|least| count(map.len()) < least) {
            let detail =
                format!("{path} in body should have at least {} properties", self.least.unwrap_or_default());
            faults.push(FieldError::invalid(path.clone(), &abridged(value), &detail));
        }
        if let Some(most) = self.most.filter(|most| count(map.len()) > *most) {
            faults.push(FieldError::too_many(path.clone(), map.len(), most));
        }
        for (name, field) in map {
            let before = old.and_then(|old| old.get(name));
            match self.properties.get(name) {
                Some(schema) => schema.walk(field, before, &path.child(name), faults),
                None => {
                    if let Some(schema) = &self.additional {
                        schema.walk(field, before, &path.child(name), faults);
                    }
                }
            }
        }
    }
}

impl ListSchema {
    fn walk(&self, items: &[Value], old: Option<&Value>, path: &FieldPath, faults: &mut Vec<FieldError>) {
        if let Some(most) = self.most.filter(|most| count(items.len()) > *most) {
            return faults.push(FieldError::too_many(path.clone(), items.len(), most));
        }
        if let Some(least) = self.least.filter(|least| count(items.len()) < *least) {
            let detail = format!("{path} in body should have at least {least} items");
            faults.push(FieldError::invalid(path.clone(), &Value::from(items.len()), &detail));
        }
        let before = old.and_then(Value::as_array);
        for (index, item) in items.iter().enumerate() {
            let old_item = before.and_then(|old| self.counterpart(item, index, old));
            self.items.walk(item, old_item, &path.index(index), faults);
        }
        self.check_unique(items, path, faults);
    }

    /// The old entry that stands for the same thing.
    fn counterpart<'a>(&self, item: &Value, index: usize, old: &'a [Value]) -> Option<&'a Value> {
        match &self.uniqueness {
            Uniqueness::Map(keys) => old.iter().find(|entry| identity(entry, keys) == identity(item, keys)),
            Uniqueness::Atomic | Uniqueness::Set => old.get(index),
        }
    }

    fn check_unique(&self, items: &[Value], path: &FieldPath, faults: &mut Vec<FieldError>) {
        let mut seen = HashSet::new();
        for (index, item) in items.iter().enumerate() {
            let identity = match &self.uniqueness {
                Uniqueness::Atomic => return,
                Uniqueness::Set => item.clone(),
                Uniqueness::Map(keys) => identity(item, keys),
            };
            if !seen.insert(identity.to_string()) {
                faults.push(FieldError::duplicate(path.index(index), &identity));
            }
        }
    }
}

fn identity(item: &Value, keys: &[String]) -> Value {
    keys.iter().filter_map(|key| item.get(key).map(|value| (key.clone(), value.clone()))).collect()
}

impl TextSchema {
    fn check(&self, text: &str, value: &Value, path: &FieldPath, faults: &mut Vec<FieldError>) {
        let length = count(text.chars().count());
        if let Some(most) = self.most.filter(|most| length > *most) {
            faults.push(FieldError::too_long(path.clone(), most));
        }
        if let Some(least) = self.least.filter(|least| length < *least) {
            let detail = format!("{path} in body should be at least {least} chars long");
            faults.push(FieldError::invalid(path.clone(), value, &detail));
        }
        if let Some(pattern) = self.pattern.as_ref().filter(|pattern| !pattern.is_match(text)) {
            let detail = format!("{path} in body should match '{pattern}'");
            faults.push(FieldError::invalid(path.clone(), &abridged(value), &detail));
        }
        if self.format.as_deref() == Some("date-time") && text.parse::<jiff::Timestamp>().is_err() {
            let detail = format!("{path} in body must be of type date-time: {text:?}");
            faults.push(FieldError {
                kind: FieldErrorKind::Invalid,
                ..FieldError::type_invalid(path.clone(), value, &detail)
            });
        }
    }
}

impl NumberSchema {
    fn check_integer(&self, number: i64, value: &Value, path: &FieldPath, faults: &mut Vec<FieldError>) {
        if self.narrow && i32::try_from(number).is_err() {
            return faults.push(FieldError::unchecked_integer(path));
        }
        self.check(value, path, faults);
    }

    fn check(&self, value: &Value, path: &FieldPath, faults: &mut Vec<FieldError>) {
        let number = value.as_f64().unwrap_or_default();
        if let Some(least) = self.least.filter(|least| number < *least) {
            let detail = format!("{path} in body should be greater than or equal to {least}");
            faults.push(FieldError::invalid(path.clone(), value, &detail));
        }
        if let Some(most) = self.most.filter(|most| number > *most) {
            let detail = format!("{path} in body should be less than or equal to {most}");
            faults.push(FieldError::invalid(path.clone(), value, &detail));
        }
    }
}

fn count(length: usize) -> u64 {
    u64::try_from(length).unwrap_or(u64::MAX)
}
