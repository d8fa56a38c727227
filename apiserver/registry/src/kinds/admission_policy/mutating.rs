//! MutatingAdmissionPolicy: strategy, validation and table.

use apiserver_machinery::object;
use apiserver_machinery::strategy::Strategy;
use apiserver_machinery::table::{OwnColumn, OwnTable};
use apiserver_schema::field_errors::{FieldError, FieldPath};
use apiserver_schema::{Declared, Wanted};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::{expressions, validate_param_kind};
use crate::rules::admission_rules::{
    entries, name_errors, one_of, text, validate_conditions, validate_expression,
};

/// Operations that a policy can change.
const OPERATIONS: [&str; 4] = ["*", "CONNECT", "CREATE", "UPDATE"];

/// Kinds of patches, with the fields of their expressions.
const PATCHES: [(&str, &str); 2] = [("ApplyConfiguration", "applyConfiguration"), ("JSONPatch", "jsonPatch")];

/// Strategy of MutatingAdmissionPolicy.
#[derive(Debug, Clone, Copy)]
pub(crate) struct MutatingPolicyStrategy;

impl Strategy for MutatingPolicyStrategy {
    fn drops_nulls(&self) -> bool {
        true
    }

    fn validate(&self, new: &Value, _old: Option<&Value>) -> Vec<FieldError> {
        let (mut errors, path) = (Vec::new(), FieldPath::new("spec"));
        let spec = new.get("spec").unwrap_or(&Value::Null);
        super::validate_failure_policy(spec, &path, &mut errors);
        let params = spec.get("paramKind");
        if let Some(kind) = params {
            validate_param_kind(kind, &path.child("paramKind"), &mut errors);
        }
        super::validate_constraints(spec, &path, &mut errors);
        if let Some(constraints) = spec.get("matchConstraints") {
            validate_operations(constraints, &path.child("matchConstraints"), &mut errors);
        }
        validate_conditions(spec, params.is_some(), &path, &mut errors);
        let mut declared = Declared { params: params.is_some(), authorizer: true, ..Declared::default() };
        expressions::validate_variables(spec, &mut declared, &path, &mut errors);
        declared.patches = true;
        let mutations = entries(spec, "mutations");
        if mutations.is_empty() {
            let detail = "mutations must contain at least one item";
            errors.push(FieldError::required(path.child("mutations"), detail));
        }
        for (index, mutation) in mutations.iter().enumerate() {
            validate_mutation(mutation, &declared, &path.child("mutations").index(index), &mut errors);
        }
        if text(spec, "reinvocationPolicy").is_empty() {
            errors.push(FieldError::required(path.child("reinvocationPolicy"), ""));
        } else {
            one_of(spec, "reinvocationPolicy", &["IfNeeded", "Never"], &path, &mut errors);
        }
        errors
    }

    fn name_errors(&self, name: &str) -> Vec<String> {
        name_errors(name)
    }

    fn table(&self) -> Option<OwnTable> {
        Some(TABLE)
    }
}

/// Validates that no rule matches deletions, which have no object to change.
pub(super) fn validate_operations(resources: &Value, path: &FieldPath, errors: &mut Vec<FieldError>) {
    for rule in entries(resources, "resourceRules") {
        for operation in entries(rule, "operations") {
            if !operation.as_str().is_some_and(|it| OPERATIONS.contains(&it)) {
                let at = path.child("resourceRules").child("operations");
                errors.push(FieldError::not_supported(at, operation, &OPERATIONS));
            }
        }
    }
}

fn validate_mutation(mutation: &Value, declared: &Declared, path: &FieldPath, errors: &mut Vec<FieldError>) {
    let kind = text(mutation, "patchType");
    if kind.is_empty() {
        return errors.push(FieldError::required(path.child("patchType"), ""));
    }
    one_of(mutation, "patchType", &["ApplyConfiguration", "JSONPatch"], path, errors);
    for (of, field) in PATCHES {
        let at = path.child(field);
        match (of == kind, mutation.get(field)) {
            (true, None) => {
                let detail = format!("must be specified when patchType is {kind}");
                errors.push(FieldError::required(at, &detail));
            }
            (true, Some(patch)) => {
                let wanted = if of == "JSONPatch" { Wanted::JsonPatch } else { Wanted::ApplyConfiguration };
                let source = text(patch, "expression").trim();
                validate_expression(source, declared, wanted, &at.child("expression"), "", errors);
            }
            (false, Some(_)) if PATCHES.iter().any(|(known, _)| *known == kind) => {
                let detail = format!("must not be specified when patchType is {kind}");
                errors.push(FieldError::invalid(at, &json!(format!("{{{field}}}")), &detail));
            }
            (false, _) => {}
        }
    }
}

const TABLE: OwnTable = OwnTable {
    columns: &[
        OwnColumn { name: "Name", format: "name", priority: 0, description: "Name of the policy." },
        OwnColumn { name: "Mutations", format: "", priority: 0, description: "Number of its mutations." },
        OwnColumn { name: "ParamKind", format: "", priority: 0, description: "Kind of its parameters." },
        OwnColumn { name: "Age", format: "", priority: 0, description: "Time since its creation." },
    ],
    cells,
};

fn cells(policy: &Value, now: Timestamp) -> Vec<Value> {
    let spec = policy.get("spec").unwrap_or(&Value::Null);
    let age = apiserver_machinery::age::age(object::meta(policy, "creationTimestamp"), now);
    let mutations = entries(spec, "mutations").len();
    vec![json!(object::name(policy)), json!(mutations), json!(super::shown_params(spec)), json!(age)]
}
