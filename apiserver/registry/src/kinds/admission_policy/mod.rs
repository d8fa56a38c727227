//! ValidatingAdmissionPolicy: strategy, validation and table.

pub(crate) mod binding;
mod expressions;
mod matching;
pub(crate) mod mutating;

use apiserver_machinery::object;
use apiserver_machinery::strategy::Strategy;
use apiserver_machinery::table::{OwnColumn, OwnTable};
use apiserver_schema::Declared;
use apiserver_schema::field_errors::{FieldError, FieldPath};
use apiserver_types::DESCRIPTORS;
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::rules::admission_rules::{entries, name_errors, one_of, text, validate_conditions};

/// Strategy of ValidatingAdmissionPolicy.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AdmissionPolicyStrategy;

impl Strategy for AdmissionPolicyStrategy {
    fn drops_nulls(&self) -> bool {
        true
    }

    fn validate(&self, new: &Value, _old: Option<&Value>) -> Vec<FieldError> {
        let (mut errors, path) = (Vec::new(), FieldPath::new("spec"));
        let spec = new.get("spec").unwrap_or(&Value::Null);
        validate_failure_policy(spec, &path, &mut errors);
        let params = spec.get("paramKind");
        if let Some(kind) = params {
            validate_param_kind(kind, &path.child("paramKind"), &mut errors);
        }
        validate_constraints(spec, &path, &mut errors);
        validate_conditions(spec, params.is_some(), &path, &mut errors);
        let mut declared = Declared { params: params.is_some(), authorizer: true, ..Declared::default() };
        expressions::validate_variables(spec, &mut declared, &path, &mut errors);
        expressions::validate(object::name(new), spec, &declared, &path, &mut errors);
        errors
    }

    fn name_errors(&self, name: &str) -> Vec<String> {
        name_errors(name)
    }

    fn table(&self) -> Option<OwnTable> {
        Some(TABLE)
    }
}

fn validate_failure_policy(spec: &Value, path: &FieldPath, errors: &mut Vec<FieldError>) {
    one_of(spec, "failurePolicy", &["Fail", "Ignore"], path, errors);
    if spec.get("failurePolicy").is_none() {
        errors.push(FieldError::required(path.child("failurePolicy"), ""));
    }
}

fn validate_constraints(spec: &Value, path: &FieldPath, errors: &mut Vec<FieldError>) {
    let at = path.child("matchConstraints");
    let Some(constraints) = spec.get("matchConstraints") else {
        return errors.push(FieldError::required(at, ""));
    };
    matching::validate(constraints, &at, errors);
    if entries(constraints, "resourceRules").is_empty() {
        errors.push(FieldError::required(at.child("resourceRules"), ""));
    }
}

/// Validates the kind of the parameters: it must be a kind of this server.
fn validate_param_kind(kind: &Value, path: &FieldPath, errors: &mut Vec<FieldError>) {
    let (api_version, name) = (text(kind, "apiVersion"), text(kind, "kind"));
    for (field, given) in [("apiVersion", api_version), ("kind", name)] {
        if given.is_empty() {
            errors.push(FieldError::required(path.child(field), ""));
        }
    }
    if api_version.is_empty() || name.is_empty() {
        return;
    }
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let is_served = DESCRIPTORS.iter().any(|it| (it.group, it.version, it.kind) == (group, version, name));
    if !is_served {
        let detail = "Capstan does not serve this kind; use a kind that it serves, such as v1 ConfigMap";
        errors.push(FieldError::invalid(path.clone(), &json!(format!("{api_version}, Kind={name}")), detail));
    }
}

const TABLE: OwnTable = OwnTable {
    columns: &[
        OwnColumn { name: "Name", format: "name", priority: 0, description: "Name of the policy." },
        OwnColumn { name: "Validations", format: "", priority: 0, description: "Number of its validations." },
        OwnColumn { name: "ParamKind", format: "", priority: 0, description: "Kind of its parameters." },
        OwnColumn { name: "Age", format: "", priority: 0, description: "Time since its creation." },
    ],
    cells,
};

fn cells(policy: &Value, now: Timestamp) -> Vec<Value> {
    let spec = policy.get("spec").unwrap_or(&Value::Null);
    let age = apiserver_machinery::age::age(object::meta(policy, "creationTimestamp"), now);
    vec![
        json!(object::name(policy)),
        json!(entries(spec, "validations").len()),
        json!(shown_params(spec)),
        json!(age),
    ]
}

/// Returns the kind of the parameters for a table.
fn shown_params(spec: &Value) -> String {
    spec.get("paramKind").map_or_else(
        || "<unset>".to_owned(),
        |kind| format!("{}/{}", text(kind, "apiVersion"), text(kind, "kind")),
    )
}

#[cfg(test)]
mod tests;
