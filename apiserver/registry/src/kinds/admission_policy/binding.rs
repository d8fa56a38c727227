//! ValidatingAdmissionPolicyBinding and MutatingAdmissionPolicyBinding: strategy, validation and table.

use apiserver_machinery::object;
use apiserver_machinery::strategy::Strategy;
use apiserver_machinery::table::{OwnColumn, OwnTable};
use apiserver_schema::field_errors::{FieldError, FieldPath};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::matching;
use crate::rules::admission_rules::{entries, name_errors, one_of, text, validate_selector};
use crate::rules::{names, path_segment};

/// Consequences of a failed validation.
const ACTIONS: [&str; 3] = ["Audit", "Deny", "Warn"];

/// Strategy of the bindings.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AdmissionPolicyBindingStrategy {
    /// True for MutatingAdmissionPolicyBinding.
    pub(crate) is_mutating: bool,
}

impl Strategy for AdmissionPolicyBindingStrategy {
    fn drops_nulls(&self) -> bool {
        true
    }

    fn validate(&self, new: &Value, _old: Option<&Value>) -> Vec<FieldError> {
        let (mut errors, path) = (Vec::new(), FieldPath::new("spec"));
        let spec = new.get("spec").unwrap_or(&Value::Null);
        let policy = text(spec, "policyName");
        if policy.is_empty() {
            errors.push(FieldError::required(path.child("policyName"), ""));
        } else {
            let wrong = names::subdomain(policy);
            let error = |why: &String| FieldError::invalid(path.child("policyName"), &json!(policy), why);
            errors.extend(wrong.iter().map(error));
        }
        if let Some(reference) = spec.get("paramRef") {
            validate_reference(reference, &path.child("paramRef"), &mut errors);
        }
        if let Some(resources) = spec.get("matchResources") {
            matching::validate(resources, &path.child("matchResources"), &mut errors);
        }
        if self.is_mutating {
            let resources = spec.get("matchResources").unwrap_or(&Value::Null);
            super::mutating::validate_operations(resources, &path.child("matchResources"), &mut errors);
            return errors;
        }
        validate_actions(entries(spec, "validationActions"), &path.child("validationActions"), &mut errors);
        errors
    }

    fn name_errors(&self, name: &str) -> Vec<String> {
        name_errors(name)
    }

    fn table(&self) -> Option<OwnTable> {
        Some(TABLE)
    }
}

fn validate_reference(reference: &Value, path: &FieldPath, errors: &mut Vec<FieldError>) {
    let (name, selector) = (text(reference, "name"), reference.get("selector"));
    let exclusive = "name and selector are mutually exclusive";
    if !name.is_empty() {
        let wrong = path_segment::errors(name);
        errors.extend(wrong.iter().map(|why| FieldError::invalid(path.child("name"), &json!(name), why)));
    }
    match (name.is_empty(), selector.is_some()) {
        (false, true) => {
            errors.push(FieldError::forbidden(path.child("name"), exclusive));
            errors.push(FieldError::forbidden(path.child("selector"), exclusive));
        }
        (true, false) => {
            errors.push(FieldError::required(path.clone(), "one of name or selector must be specified"));
        }
        _ => {}
    }
    validate_selector(reference, "selector", path, errors);
    if text(reference, "parameterNotFoundAction").is_empty() {
        errors.push(FieldError::required(path.child("parameterNotFoundAction"), ""));
    } else {
        one_of(reference, "parameterNotFoundAction", &["Deny", "Allow"], path, errors);
    }
}

fn validate_actions(actions: &[Value], path: &FieldPath, errors: &mut Vec<FieldError>) {
    for (index, action) in actions.iter().enumerate() {
        if !action.as_str().is_some_and(|it| ACTIONS.contains(&it)) {
            errors.push(FieldError::not_supported(path.index(index), action, &ACTIONS));
        }
    }
    let has = |wanted: &str| actions.iter().any(|action| action == wanted);
    if has("Deny") && has("Warn") {
        let detail = "must not contain both Deny and Warn (repeating the same validation failure information in the API \
            response and headers serves no purpose)";
        errors.push(FieldError::invalid(path.clone(), &json!(actions), detail));
    }
    if actions.is_empty() {
        errors.push(FieldError::required(path.clone(), "at least one validation action is required"));
    }
}

const TABLE: OwnTable = OwnTable {
    columns: &[
        OwnColumn { name: "Name", format: "name", priority: 0, description: "Name of the binding." },
        OwnColumn {
            name: "PolicyName",
            format: "",
            priority: 0,
            description: "Policy that it puts into force.",
        },
        OwnColumn { name: "ParamRef", format: "", priority: 0, description: "Object with the parameters." },
        OwnColumn { name: "Age", format: "", priority: 0, description: "Time since its creation." },
    ],
    cells,
};

fn cells(binding: &Value, now: Timestamp) -> Vec<Value> {
    let spec = binding.get("spec").unwrap_or(&Value::Null);
    let reference = spec.get("paramRef").map_or_else(
        || "<unset>".to_owned(),
        |reference| match (text(reference, "namespace"), text(reference, "name")) {
            (_, "") => "<selector>".to_owned(),
            ("", name) => format!("*/{name}"),
            (namespace, name) => format!("{namespace}/{name}"),
        },
    );
    let age = apiserver_machinery::age::age(object::meta(binding, "creationTimestamp"), now);
    vec![json!(object::name(binding)), json!(text(spec, "policyName")), json!(reference), json!(age)]
}
