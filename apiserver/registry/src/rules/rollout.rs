//! Validation of counts and percentages, and of the bounds of a rollout.
//!
//! Upstream accepts negative ones. A rollout or a remediation with one never begins.

use apiserver_schema::field_errors::{FieldError, FieldPath};
use serde_json::{Value, json};

use crate::rules::json_fields::get;
use crate::rules::version::go_number_error;

/// Bounds of a rollout, in a part that has one.
pub(crate) const BOUNDS: [&str; 2] =
    ["rollout.strategy.rollingUpdate.maxUnavailable", "rollout.strategy.rollingUpdate.maxSurge"];

/// Limit of unhealthy Machines, in a health check.
pub(crate) const MOST_UNHEALTHY: &str = "remediation.triggerIf.unhealthyLessThanOrEqualTo";

/// Limit of remediations in flight, in a MachineDeployment and in the health check of one.
pub(crate) const IN_FLIGHT: &str = "remediation.maxInFlight";

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

/// Returns an error for each of these fields that is a negative count or percentage. `at` is the path of `part`.
pub(crate) fn negative(part: &Value, at: &FieldPath, fields: &[&str]) -> Vec<FieldError> {
    let found = fields.iter().filter_map(|field| Some((*field, get(part, field)?)));
    let negative = found.filter(|(_, value)| is_negative(value));
    let error = |(field, value): (&str, &Value)| {
        FieldError::invalid(at.child(field), value, "must be a number or a percentage of at least 0")
    };
    negative.map(error).collect()
}

/// Returns the same for a part of a class or of a topology, with its rollout and its health check.
pub(crate) fn negative_in_part(part: &Value, at: &FieldPath) -> Vec<FieldError> {
    let mut errors = negative(part, at, &BOUNDS);
    if let Some(check) = part.get("healthCheck") {
        errors.extend(negative(check, &at.child("healthCheck"), &[IN_FLIGHT, MOST_UNHEALTHY]));
    }
    errors
}

/// Adds the errors that `find` finds in the new object, apart from those that the stored one has, too. An object of an earlier
/// version can still be changed.
pub(crate) fn refuse_new(
    new: &Value,
    old: Option<&Value>,
    find: impl Fn(&Value) -> Vec<FieldError>,
    errors: &mut Vec<FieldError>,
) {
    let stored = old.map(&find).unwrap_or_default();
    errors.extend(find(new).into_iter().filter(|error| !stored.contains(error)));
}

fn is_negative(value: &Value) -> bool {
    let share = || value.as_str()?.strip_suffix('%')?.parse::<i64>().ok();
    value.as_i64().or_else(share).is_some_and(|number| number < 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_negative_count_or_percentage_is_an_error_unless_it_is_stored() {
        let at = FieldPath::new("spec");
        let find = |object: &Value| negative(object, &at, &BOUNDS);
        let object = |surge: Value| json!({"rollout": {"strategy": {"rollingUpdate": {"maxSurge": surge, "maxUnavailable": 0}}}});
        for value in [json!(-1), json!("-10%")] {
            assert_eq!(find(&object(value.clone())).len(), 1, "{value}");
        }
        for value in [json!(0), json!("0%"), json!("-0%"), json!("x")] {
            assert_eq!(find(&object(value.clone())), [], "{value}");
        }
        let refused = |new: Value, old: Option<Value>| {
            let mut errors = Vec::new();
            refuse_new(&object(new), old.map(object).as_ref(), find, &mut errors);
            errors.iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        let expected = "spec.rollout.strategy.rollingUpdate.maxSurge: Invalid value: -2: must be a number or a percentage \
            of at least 0";
        assert_eq!(refused(json!(-2), None), [expected]);
        assert_eq!(refused(json!(-2), Some(json!(-1))), [expected]);
        assert_eq!(refused(json!(-2), Some(json!(-2))), [""; 0]);
        assert_eq!(refused(json!(1), Some(json!(-2))), [""; 0]);
    }
}
