//! Validation of the parts of a class: control plane, infrastructure and workers.

use apiserver_schema::field_errors::{FieldError, FieldPath};
use serde_json::{Value, json};

use super::WORKERS;
use crate::kinds::cluster::is_check_defined;
use crate::kinds::machine_health_check::validate_check;
use crate::rules::json_fields::{get, items, text};
use crate::rules::{machine_template, name_template, names, rollout, template_metadata};

/// Returns the classes of workers: list, kind, part of the variables of names, path by class, and the class itself.
fn workers(class: &Value) -> Vec<(&'static str, &'static str, &'static str, FieldPath, &Value)> {
    let mut found = Vec::new();
    for (list, kind, own) in WORKERS {
        for (_, worker) in items(class, &format!("spec.workers.{list}")) {
            let name = worker.get("class").and_then(Value::as_str).unwrap_or_default();
            found.push((list, kind, own, FieldPath::new("spec.workers").child(list).key(name), worker));
        }
    }
    found
}

/// Adds the errors of rollouts, health checks, names and taints.
pub(super) fn validate(class: &Value, errors: &mut Vec<FieldError>) {
    let workers = workers(class);
    for (_, _, _, at, worker) in &workers {
        let bounds = get(worker, "rollout.strategy.rollingUpdate");
        rollout::validate_bounds(bounds, &at.child("rollout.strategy.rollingUpdate"), errors);
    }
    validate_checks(class, errors);
    for (part, kind) in [("infrastructure", "InfraCluster"), ("controlPlane", "ControlPlane")] {
        let found = get(class, &format!("spec.{part}")).unwrap_or(&Value::Null);
        validate_name(found, &FieldPath::new("spec").child(part), kind, None, errors);
    }
    for (_, kind, own, at, worker) in &workers {
        validate_name(worker, at, kind, Some(own), errors);
    }
    let plane = get(class, "spec.controlPlane").unwrap_or(&Value::Null);
    machine_template::validate_taints(plane, &FieldPath::new("spec.controlPlane"), false, errors);
    for (_, _, _, at, worker) in &workers {
        machine_template::validate_taints(worker, at, false, errors);
    }
}

/// Returns the errors of negative counts: of rollouts and of health checks.
pub(super) fn negative_counts(class: &Value) -> Vec<FieldError> {
    let plane = get(class, "spec.controlPlane").unwrap_or(&Value::Null);
    let mut errors = rollout::negative_in_part(plane, &FieldPath::new("spec.controlPlane"));
    for (_, _, _, at, worker) in workers(class) {
        errors.extend(rollout::negative_in_part(worker, &at));
    }
    errors
}

/// Adds the errors of metadata. The paths of workers are those of the previous version.
pub(super) fn validate_metadata(class: &Value, errors: &mut Vec<FieldError>) {
    let at = "spec.controlPlane.metadata";
    template_metadata::metadata(get(class, at), &FieldPath::new(at), errors);
    for (_, _, _, at, worker) in workers(class) {
        template_metadata::metadata(worker.get("metadata"), &at.child("template.metadata"), errors);
    }
}

fn validate_checks(class: &Value, errors: &mut Vec<FieldError>) {
    let path = FieldPath::new("spec.controlPlane.healthCheck");
    if let Some(check) = get(class, "spec.controlPlane.healthCheck").filter(|check| is_check_defined(check)) {
        validate_check(check, &path, errors);
        if get(class, "spec.controlPlane.machineInfrastructure.templateRef").is_none() {
            let detail = "can be only set if spec.controlPlane.machineInfrastructure is set";
            errors.push(FieldError::forbidden(path, detail));
        }
    }
    for (list, _, _, at, worker) in workers(class) {
        let Some(check) = worker.get("healthCheck").filter(|check| is_check_defined(check)) else { continue };
        if list == "machineDeployments" {
            let at = at.child("healthCheck");
            validate_check(check, &at, errors);
            let at_once = "remediation.maxInFlight";
            rollout::validate_count(get(check, at_once), at.child(at_once), errors);
        }
    }
}

/// Validates that a name template creates valid names.
fn validate_name(part: &Value, at: &FieldPath, kind: &str, own: Option<&str>, errors: &mut Vec<FieldError>) {
    let Some(template) = text(part, "naming.template") else { return };
    let path = at.child("naming.template");
    let mut refuse = |detail: &str| {
        errors.push(FieldError::invalid(path.clone(), &json!(template), detail));
    };
    match name_template::example(template, own.map(|own| [own, "topologyName"])) {
        Err(reason) => refuse(&format!("invalid {kind} name template: {reason}")),
        Ok(name) => names::subdomain(&name).iter().for_each(|wrong| refuse(wrong)),
    }
}
