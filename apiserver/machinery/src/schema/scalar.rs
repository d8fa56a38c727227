//! Checking texts and numbers.

use serde_json::{Number, Value};

use super::validate::NO_FIELD;
use super::{Kind, NumberSchema, Schema, TextSchema};
use crate::field_errors::{FieldError, FieldPath};

impl Schema {
    pub(super) fn wrong_type(&self, value: &Value, path: &FieldPath) -> FieldError {
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
            Kind::IntegerOrText(..) => "integer,string",
        };
        let detail = format!("{path} in body must be of type {wanted}: {found:?}");
        FieldError::type_invalid(path.clone(), &Value::from(found), &detail)
    }
}

/// A value short enough to be shown in an error; the rest of a large one helps nobody.
pub(super) fn abridged(value: &Value) -> Value {
    match value {
        Value::Object(_) => Value::String("object".to_owned()),
        Value::Array(_) => Value::String("array".to_owned()),
        Value::String(text) if text.len() > 256 => Value::String(text.chars().take(256).collect()),
        other => other.clone(),
    }
}

impl TextSchema {
    pub(super) fn check(&self, text: &str, value: &Value, path: &FieldPath, faults: &mut Vec<FieldError>) {
        let length = u64::try_from(text.chars().count()).unwrap_or(u64::MAX);
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
        if let Some(format) = self.format.filter(|format| !format.is_met_by(text)) {
            let shown = abridged(value);
            let detail = format!("{path} in body must be of type {}: {shown}", format.name());
            faults.push(FieldError::type_invalid(path.clone(), &shown, &detail));
        }
    }
}

impl NumberSchema {
    pub(super) fn check_integer(&self, number: &Number, path: &FieldPath, faults: &mut Vec<FieldError>) {
        if self.narrow
            && number.as_f64().is_some_and(|number| !(-2_147_483_648.0..=2_147_483_647.0).contains(&number))
        {
            let detail = format!("Checked value must be of type integer with format int32 in {path}");
            faults.push(FieldError::invalid(FieldPath::new(NO_FIELD), &Value::from(""), &detail));
        }
        self.check(number, path, faults);
    }

    pub(super) fn check(&self, number: &Number, path: &FieldPath, faults: &mut Vec<FieldError>) {
        let found = number.as_f64().unwrap_or_default();
        let mut complain = |detail: String| {
            let detail = format!("{path} in body should be {detail}");
            faults.push(FieldError::invalid(path.clone(), &Value::Number(number.clone()), &detail));
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

/// Whether a number is so many times another, as far as floating point can tell.
fn is_multiple(number: f64, factor: f64) -> bool {
    let times = number / factor;
    (times - times.round()).abs() <= 1e-9 * times.abs().max(1.0)
}
