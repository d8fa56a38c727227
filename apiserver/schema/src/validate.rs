//! Validation of values: the fields first, and validation rules only on values whose fields are valid.

use std::collections::HashSet;

use serde_json::Value;

use super::location::Location;
use super::{Kind, ListSchema, ObjectSchema, Schema};
use crate::field_errors::{FieldError, FieldErrorKind, FieldPath, NO_FIELD};

/// Largest number of reported errors. A hostile body could have millions.
const MAX_ERRORS: usize = 100;

impl Schema {
    /// Returns every error of `value`.
    ///
    /// `old` is the stored value of the same field. Unchanged values are not validated again, because a stricter rule
    /// must not block unrelated updates.
    pub fn validate(&self, value: &Value, old: Option<&Value>, path: &FieldPath) -> Vec<FieldError> {
        let mut errors = self.validate_shape(value, old, path);
        self.add_broken_rules(value, old, path, &mut errors);
        errors
    }

    /// Adds the errors of a whole object, without its validation rules.
    pub fn add_errors(&self, value: &Value, old: Option<&Value>, errors: &mut Vec<FieldError>) {
        errors.extend(self.validate_shape(value, old, &FieldPath::default()));
    }

    /// Adds the errors of a write of one field of an object. Upstream validates this field alone, so the paths in
    /// messages start at the field.
    pub fn add_part_errors(
        &self,
        part: &str,
        value: &Value,
        old: Option<&Value>,
        errors: &mut Vec<FieldError>,
    ) {
        let schema = if let Kind::Object(object) = &self.kind { object.field(part) } else { None };
        let old_part = old.and_then(|old| old.get(part));
        let found = schema
            .zip(value.get(part))
            .map(|(schema, new)| schema.validate_shape(new, old_part, &FieldPath::default()));
        errors.extend(found.into_iter().flatten().map(|error| error.within(part)));
    }

    /// Adds the errors of the validation rules of a whole object. Some `errors` that were found before prevent the
    /// evaluation of rules.
    pub fn add_rule_errors(&self, value: &Value, old: Option<&Value>, errors: &mut Vec<FieldError>) {
        self.add_broken_rules(value, old, &FieldPath::default(), errors);
    }

    /// Returns true if the validation of one field never depends on other fields of the value.
    pub fn checks_fields_alone(&self) -> bool {
        self.rules.is_empty() && self.combined.is_none()
    }

    /// Returns the errors of a value without validation rules, as for a new value. Paths begin at the value.
    pub fn shape_errors(&self, value: &Value) -> Vec<FieldError> {
        self.validate_shape(value, None, &FieldPath::default())
    }

    fn validate_shape(&self, value: &Value, old: Option<&Value>, path: &FieldPath) -> Vec<FieldError> {
        let mut errors = Vec::new();
        let path = Location::at(path);
        self.walk(value, old, &path, &mut errors);
        self.check_embedded(value, &path, &mut errors);
        errors.extend(self.duplicates(value, old, &path));
        errors
    }

    fn add_broken_rules(
        &self,
        value: &Value,
        old: Option<&Value>,
        path: &FieldPath,
        errors: &mut Vec<FieldError>,
    ) {
        if self.has_rules {
            if errors.iter().any(|error| blocks_rules(error.kind)) {
                errors.truncate(MAX_ERRORS);
                errors.push(rules_skipped());
            } else {
                errors.extend(self.broken_rules(value, old, path));
            }
        }
        errors.truncate(MAX_ERRORS + 1);
    }

    /// Adds the errors of this value, and of the values below it that have changed.
    pub(super) fn walk(
        &self,
        value: &Value,
        old: Option<&Value>,
        path: &Location<'_>,
        errors: &mut Vec<FieldError>,
    ) {
        if old == Some(value) || errors.len() >= MAX_ERRORS {
            return;
        }
        let is_typed = self.has_type(value);
        let may_be_null = value.is_null() && self.nullable;
        if !is_typed && !may_be_null {
            if self.inherited {
                return;
            }
            self.add_type_error(value, path, errors);
        }
        if let Some(combined) = &self.combined {
            combined.check(value, path, errors);
        }
        if is_typed {
            self.check_content(value, old, path, errors);
        }
        self.check_allowed(value, path, errors);
    }

    /// Reports whether a value has the type of the schema.
    fn has_type(&self, value: &Value) -> bool {
        match (&self.kind, value) {
            (Kind::Any, _)
            | (Kind::Boolean, Value::Bool(_))
            | (Kind::IntegerOrText(..) | Kind::Text(_), Value::String(_))
            | (Kind::Object(_), Value::Object(_))
            | (Kind::List(_), Value::Array(_))
            | (Kind::Number(_), Value::Number(_)) => true,
            (Kind::IntegerOrText(..), Value::Number(number)) => number.is_i64(),
            (Kind::Integer(_), Value::Number(number)) => is_integer(number),
            _ => false,
        }
    }

    /// Validates the content of a value of the right type.
    fn check_content(
        &self,
        value: &Value,
        old: Option<&Value>,
        path: &Location<'_>,
        errors: &mut Vec<FieldError>,
    ) {
        match (&self.kind, value) {
            (Kind::IntegerOrText(schema, _) | Kind::Text(schema), Value::String(text)) => {
                schema.check(text, value, path, errors);
            }
            (Kind::IntegerOrText(_, schema) | Kind::Number(schema), Value::Number(number)) => {
                schema.check(number, path, errors);
            }
            (Kind::Integer(schema), Value::Number(number)) => schema.check_integer(number, path, errors),
            (Kind::Object(schema), Value::Object(_)) => schema.walk(value, old, path, errors),
            (Kind::List(schema), Value::Array(items)) => schema.walk(items, old, path, errors),
            _ => {}
        }
    }

    /// Checks that a value is in the set of allowed values, whatever its type.
    fn check_allowed(&self, value: &Value, path: &Location<'_>, errors: &mut Vec<FieldError>) {
        let is_absent = value.is_null() && !self.nullable && !matches!(self.kind, Kind::Any);
        if self.allowed.is_empty() || self.allowed.contains(value) || is_absent {
            return;
        }
        let words =
            self.allowed.iter().map(|word| word.as_str().map_or_else(|| word.to_string(), str::to_owned));
        let supported: Vec<String> = words.collect();
        let supported: Vec<&str> = supported.iter().map(String::as_str).collect();
        errors.push(FieldError::not_supported(path.path(), value, &supported));
    }
}

/// Reports whether a number is an integer. `1.0` is one.
pub(super) fn is_integer(number: &serde_json::Number) -> bool {
    number.is_i64()
        || number.as_f64().is_some_and(|float| float.fract() == 0.0 && float.abs() < 9.007_199_254_740_992e15)
}

/// Reports whether an error prevents the evaluation of rules, because they rely on the shape of the object.
fn blocks_rules(kind: FieldErrorKind) -> bool {
    match kind {
        FieldErrorKind::NotSupported
        | FieldErrorKind::Required
        | FieldErrorKind::TooLong
        | FieldErrorKind::TooMany
        | FieldErrorKind::TypeInvalid => true,
        FieldErrorKind::Invalid
        | FieldErrorKind::Forbidden
        | FieldErrorKind::Duplicate
        | FieldErrorKind::Internal => false,
    }
}

/// Creates the error that says that rules were skipped.
fn rules_skipped() -> FieldError {
    let detail = "some validation rules were not checked because the object was invalid; correct the existing errors to complete validation";
    FieldError::invalid(FieldPath::new(NO_FIELD), &Value::Null, detail)
}

impl ObjectSchema {
    fn walk(&self, value: &Value, old: Option<&Value>, path: &Location<'_>, errors: &mut Vec<FieldError>) {
        let Some(map) = value.as_object() else { return };
        let size = map.len();
        if let Some(least) = self.least.filter(|least| count(size) < *least) {
            let detail = format!("{path} in body should have at least {least} properties");
            errors.push(FieldError::invalid(path.path(), &Value::from(size), &detail));
        }
        if let Some(most) = self.most.filter(|most| count(size) > *most) {
            errors.push(FieldError::too_many(path.path(), size, most));
        }
        let mut required = 0;
        for (name, field) in map {
            if let Some(schema) = self.field(name) {
                required += usize::from(schema.required);
                schema.walk(field, old.and_then(|old| old.get(name)), &path.child(name), errors);
            }
        }
        // Fast path: usually all required fields are present.
        if required < self.required.len() {
            for name in self.required.iter().filter(|name| !map.contains_key(*name)) {
                errors.push(FieldError::required(path.child(name).path(), ""));
            }
        }
    }
}

impl ListSchema {
    fn walk(&self, items: &[Value], old: Option<&Value>, path: &Location<'_>, errors: &mut Vec<FieldError>) {
        let size = items.len();
        if let Some(most) = self.most.filter(|most| count(size) > *most) {
            return errors.push(FieldError::too_many(path.path(), size, most));
        }
        if let Some(least) = self.least.filter(|least| count(size) < *least) {
            let detail = format!("{path} in body should have at least {least} items");
            errors.push(FieldError::invalid(path.path(), &Value::from(size), &detail));
        }
        if self.unique && repeats(items) {
            let detail = format!("{path} in body shouldn't contain duplicates");
            errors.push(FieldError::invalid_unshown(path.path(), &detail));
        }
        let counterparts = self.counterparts(old);
        for (index, item) in items.iter().enumerate() {
            self.items.walk(item, counterparts.of(item), &path.index(index), errors);
        }
    }
}

/// Reports whether a list has duplicates.
fn repeats(items: &[Value]) -> bool {
    let mut seen = HashSet::new();
    items.iter().any(|item| !seen.insert(item.to_string()))
}

fn count(length: usize) -> u64 {
    u64::try_from(length).unwrap_or(u64::MAX)
}
