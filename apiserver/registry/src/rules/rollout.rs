//! Validation of counts and percentages, and of the bounds of a rollout.

use apiserver_schema::field_errors::{FieldError, FieldPath};
use serde_json::{Value, json};

use crate::rules::version::go_number_error;

/// Adds an error if a value is neither a count nor a percentage such as `25%`.
pub(crate) fn validate_count(value: Option<&Value>, path: FieldPath, errors: &mut Vec<FieldError>) {
    let Some(text) = value.and_then(Value::as_str) else { return };
    let problem = match text.strip_suffix('%') {
        None => "invalid type: string is not a percentage".to_owned(),
        Some(share) => match share.parse::<i64>() {
            Ok(_) => return,
            Err(error) => {
                let error = go_number_error(&error);
                format!("invalid value {text:?}: strconv.Atoi: parsing {share:?}: {error}")
            }
        },
    };
    let detail = format!("must be either an int or a percentage: invalid value for IntOrString: {problem}");
    errors.push(FieldError::invalid(path, &json!(text), &detail));
}

/// Adds the errors of the `rollingUpdate` at `path`.
pub(crate) fn validate_bounds(bounds: Option<&Value>, path: &FieldPath, errors: &mut Vec<FieldError>) {
    let Some(bounds) = bounds else { return };
    let fields = ["maxUnavailable", "maxSurge"];
    for field in fields {
        validate_count(bounds.get(field), path.child(field), errors);
    }
    // Such a rollout could never progress.
    if fields.iter().all(|field| bounds.get(field).and_then(Value::as_i64) == Some(0)) {
        errors.push(FieldError::invalid(
            path.clone(),
            &json!("0"),
            "maxUnavailable and maxSurge cannot both be 0",
        ));
    }
}
