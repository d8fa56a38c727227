//! Health checks of a topology, which override those of its class.

use apiserver_schema::field_errors::{FieldError, FieldPath};
use serde_json::Value;

use crate::kinds::machine_health_check::validate_check;
use crate::rules::json_fields::{get, items};
use crate::rules::rollout::validate_count;

/// Adds every error of the health checks.
pub(super) fn validate(cluster: &Value, class: &Value, errors: &mut Vec<FieldError>) {
    let path = FieldPath::new("spec.topology.controlPlane.healthCheck");
    let check = get(cluster, "spec.topology.controlPlane.healthCheck").unwrap_or(&Value::Null);
    if is_defined(check) {
        if get(class, "spec.controlPlane.machineInfrastructure.templateRef").is_none() {
            let detail = "can be only set if spec.controlPlane.machineInfrastructure is set in ClusterClass";
            errors.push(FieldError::forbidden(path.clone(), detail));
        }
        validate_check(check, &path, errors);
    }
    validate_enabled(check, get(class, "spec.controlPlane.healthCheck"), &path, errors);
    for (_, pool) in items(cluster, "spec.topology.workers.machineDeployments") {
        let name = pool.get("name").and_then(Value::as_str).unwrap_or_default();
        let path = FieldPath::new("spec.topology.workers.machineDeployments").key(name).child("healthCheck");
        let check = pool.get("healthCheck").unwrap_or(&Value::Null);
        if is_defined(check) {
            validate_check(check, &path, errors);
            let at_once = "remediation.maxInFlight";
            validate_count(get(check, at_once), path.child(at_once), errors);
        }
        let mut classes = items(class, "spec.workers.machineDeployments").map(|(_, class)| class);
        // Another check reports a missing class.
        if let Some(class) = classes.find(|class| class.get("class") == pool.get("class")) {
            validate_enabled(check, class.get("healthCheck"), &path, errors);
        }
    }
}

/// Reports whether a check has conditions or a remediation.
pub(crate) fn is_defined(check: &Value) -> bool {
    check.get("checks").is_some() || check.get("remediation").is_some()
}

/// Validates that an enabled check is defined, in the topology or in the class.
fn validate_enabled(check: &Value, of_class: Option<&Value>, path: &FieldPath, errors: &mut Vec<FieldError>) {
    let is_on = check.get("enabled") == Some(&Value::Bool(true));
    if is_on && !is_defined(check) && !of_class.is_some_and(is_defined) {
        let detail = "cannot be set to true as healthCheck definition is not available in the Cluster topology or the ClusterClass";
        errors.push(FieldError::forbidden(path.child("enable"), detail));
    }
}
