//! Value of one variable.

use apiserver_schema::field_errors::{FieldError, FieldPath};
use serde_json::{Value, json};

use super::definitions::{Definition, ROOT};

/// Name of the field in an error that concerns no single field.
const NO_FIELD: &str = "<nil>";

/// Creates the error of a value at `at`, and repeats the value as it was written.
pub(super) fn refuse(at: FieldPath, value: Option<&Value>, detail: &str) -> FieldError {
    FieldError::invalid_unshown(at, detail).showing(&written(value))
}

/// Creates the error of a value whose variable is not defined.
pub(super) fn undefined(at: FieldPath, value: Option<&Value>) -> FieldError {
    refuse(at, value, "variable is not defined")
}

/// Returns the value with its defaults. A missing value is null.
pub(super) fn fill_in(
    value: &Value,
    definition: &Definition<'_>,
    at: &FieldPath,
) -> Result<Value, FieldError> {
    let compiled = definition.around().map_err(|problem| {
        let detail = format!("failed defaulting variable {:?}: {problem}", definition.name);
        FieldError::invalid(at.clone(), &Value::from(""), &detail)
    })?;
    let mut whole = json!({ROOT: value});
    compiled.fill_in_defaults(&mut whole);
    Ok(whole.get_mut(ROOT).map(Value::take).unwrap_or_default())
}

/// Returns the errors of a value: first its shape, then unknown fields, then violated rules. Rules can refer to the old
/// value. An unchanged value is validated as well.
pub(super) fn validate(
    value: &Value,
    old: Option<&Value>,
    definition: &Definition<'_>,
    at: &FieldPath,
) -> Vec<FieldError> {
    let compiled = match definition.compiled() {
        Ok(compiled) => compiled,
        Err(problem) => {
            let detail = format!(
                "failed to create schema validator for variable {:?}; ClusterClass should be checked: {problem}",
                definition.name
            );
            return vec![FieldError::internal(at.clone(), &detail)];
        }
    };
    let (value_at, shown) = (at.child("value"), written(Some(value)));
    let at_value = |error: FieldError| {
        let error = error.without_prefix(" in body ").showing(&shown);
        if error.field.as_str() == NO_FIELD { error } else { error.within(value_at.as_str()) }
    };
    let of_shape: Vec<FieldError> = compiled.shape_errors(value).into_iter().map(at_value).collect();
    if !of_shape.is_empty() {
        return of_shape;
    }
    let unknown = compiled.prune(&mut value.clone(), &FieldPath::new(ROOT));
    if !unknown.is_empty() {
        let prefix = format!("{ROOT}.");
        let names: Vec<&str> =
            unknown.iter().map(|name| name.strip_prefix(&prefix).unwrap_or(name)).collect();
        let detail = format!(
            "failed validation: {:?} field(s) are not specified in the variable schema of variable {:?}",
            names.join(","),
            definition.name
        );
        return vec![refuse(at.clone(), Some(value), &detail)];
    }
    compiled.rule_errors(value, old).into_iter().map(at_value).collect()
}

/// Returns a value as Go writes it.
fn written(value: Option<&Value>) -> String {
    let text = value.map(Value::to_string).unwrap_or_default();
    text.replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026")
}
