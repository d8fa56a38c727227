//! Validation of strings and numbers.

use serde_json::{Number, Value};

use super::location::Location;
use super::validate::is_integer;
use super::{Kind, NumberSchema, Schema, TextSchema};
use crate::field_errors::{FieldError, FieldPath, NO_FIELD};

impl Schema {
    /// Adds the errors of a value whose type is not the type of this schema.
    pub(super) fn add_type_error(&self, value: &Value, path: &Location<'_>, errors: &mut Vec<FieldError>) {
        errors.push(self.wrong_type(value, path));
        // A number is also checked against numeric bounds, whatever the type of the schema.
        if let (Kind::Integer(schema), Value::Number(number)) = (&self.kind, value) {
            schema.check_integer(number, path, errors);
        }
    }

    /// Returns the error of a wrong type. It names the format instead of the type, except for strings and lists.
    fn wrong_type(&self, value: &Value, path: &Location<'_>) -> FieldError {
        let (found, wanted) = match (self.format_name(), value) {
            (Some(format), Value::Bool(_) | Value::Object(_)) => ("", format),
            (Some(format), Value::Number(number)) if number.is_i64() => ("int64", format),
            (Some(format), Value::Number(_)) => ("float64", format),
            _ => (found_name(value), self.wanted_name()),
        };
        let detail = format!("{path} in body must be of type {wanted}: {found:?}");
        FieldError::type_invalid(path.path(), &Value::from(found), &detail)
    }

    fn format_name(&self) -> Option<&'static str> {
        match &self.kind {
            Kind::Text(schema) => schema.format.map(|format| format.name()),
            Kind::Integer(schema) | Kind::Number(schema) => schema.format,
            _ => None,
        }
    }

    fn wanted_name(&self) -> &'static str {
        match &self.kind {
            Kind::Any => "any",
            Kind::Object(_) => "object",
            Kind::List(_) => "array",
            Kind::Text(_) => "string",
            Kind::Integer(_) => "integer",
            Kind::Number(_) => "number",
            Kind::Boolean => "boolean",
            Kind::IntegerOrText(..) => "integer,string",
        }
    }
}

fn found_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_i64() => "integer",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

impl TextSchema {
    pub(super) fn check(&self, text: &str, value: &Value, path: &Location<'_>, errors: &mut Vec<FieldError>) {
        errors.extend(self.violated_bound(text, value, path));
        if let Some(format) = self.format.filter(|format| !format.matches(text)) {
            let detail = format!("{path} in body must be of type {}: {value}", format.name());
            errors.push(FieldError::type_invalid(path.path(), value, &detail));
        }
    }

    /// Returns the first bound that a text violates: length or pattern.
    fn violated_bound(&self, text: &str, value: &Value, path: &Location<'_>) -> Option<FieldError> {
        let length = u64::try_from(text.chars().count()).unwrap_or(u64::MAX);
        if let Some(most) = self.most.filter(|most| length > *most) {
            return Some(FieldError::too_long(path.path(), most));
        }
        if let Some(least) = self.least.filter(|least| length < *least) {
            let detail = format!("{path} in body should be at least {least} chars long");
            return Some(FieldError::invalid(path.path(), value, &detail));
        }
        let pattern = self.pattern.as_ref().filter(|pattern| !pattern.is_match(text))?;
        Some(FieldError::invalid(path.path(), value, &format!("{path} in body should match '{pattern}'")))
    }
}

impl NumberSchema {
    pub(super) fn check_integer(&self, number: &Number, path: &Location<'_>, errors: &mut Vec<FieldError>) {
        if !self.holds(number) {
            let width = self
                .format
                .map_or_else(|| "(default format)".to_owned(), |format| format!("with format {format}"));
            let detail = format!("Checked value must be of type integer {width} in {path}");
            errors.push(FieldError::invalid(FieldPath::new(NO_FIELD), &Value::from(""), &detail));
        }
        self.check(number, path, errors);
    }

    /// Reports whether a number is an integer of the width of the format.
    fn holds(&self, number: &Number) -> bool {
        let float = number.as_f64().unwrap_or(f64::NAN);
        match self.format {
            Some("int32") => float.fract() == 0.0 && (-2_147_483_648.0..=2_147_483_647.0).contains(&float),
            _ => is_integer(number),
        }
    }

    pub(super) fn check(&self, number: &Number, path: &Location<'_>, errors: &mut Vec<FieldError>) {
        let found = number.as_f64().unwrap_or_default();
        let mut complain = |detail: String| {
            let detail = format!("{path} in body should be {detail}");
            errors.push(FieldError::invalid(path.path(), &Value::Number(number.clone()), &detail));
        };
        if let Some(factor) = self.multiple_of.filter(|factor| !is_multiple(found, *factor)) {
            complain(format!("a multiple of {factor}"));
        }
        match self.most {
            Some(most) if self.below_most && found >= most => complain(format!("less than {most}")),
            Some(most) if !self.below_most && found > most => {
                complain(format!("less than or equal to {most}"));
            }
            _ => {}
        }
        match self.least {
            Some(least) if self.above_least && found <= least => complain(format!("greater than {least}")),
            Some(least) if !self.above_least && found < least => {
                complain(format!("greater than or equal to {least}"));
            }
            _ => {}
        }
    }
}

/// Reports whether a number is a multiple of another, within floating-point precision.
fn is_multiple(number: f64, factor: f64) -> bool {
    let times = number / factor;
    (times - times.round()).abs() <= 1e-9 * times.abs().max(1.0)
}
