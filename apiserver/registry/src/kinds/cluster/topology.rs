//! Validation of a Cluster's topology without its ClusterClass.

use apiserver_machinery::object;
use apiserver_schema::field_errors::{FieldError, FieldPath};
use controllers_topology::variables::POOLS;
use serde_json::{Value, json};

use crate::rules::json_fields::{annotation, items, text};
use crate::rules::semver::Semver;
use crate::rules::{machine_template, replicas, rollout, template_metadata, version};

/// Annotation that disables the checks of the order of versions.
pub(super) const SKIP_ORDER: &str = "unsafe.topology.cluster.x-k8s.io/disable-update-version-check";

/// Annotation with the number of pools that are upgraded at once.
const UPGRADE_CONCURRENCY: &str = "topology.cluster.x-k8s.io/upgrade-concurrency";

/// Annotation that lets a class adopt an existing cluster.
pub(super) const ALLOW_CLASS: &str = "unsafe.topology.cluster.x-k8s.io/disable-update-class-name-check";

/// Adds every error of the topology.
pub(super) fn validate(new: &Value, errors: &mut Vec<FieldError>) {
    let Some(topology) = object::at(new, "spec.topology").filter(|topology| topology.is_object()) else {
        return;
    };
    let path = FieldPath::new("spec.topology");
    validate_version(new, &path.child("version"), errors);
    validate_concurrency(new, errors);
    let control_plane = &topology["controlPlane"];
    template_metadata::metadata(control_plane.get("metadata"), &path.child("controlPlane.metadata"), errors);
    machine_template::validate_taints(control_plane, &path.child("controlPlane"), false, errors);
    validate_replicas(new, control_plane, &path.child("controlPlane"), errors);
    for list in POOLS {
        let pools = topology.pointer(&format!("/workers/{list}")).and_then(Value::as_array);
        for pool in pools.into_iter().flatten() {
            let name = pool.get("name").and_then(Value::as_str).unwrap_or_default();
            let at = path.child("workers").child(list).key(name);
            template_metadata::metadata(pool.get("metadata"), &at.child("metadata"), errors);
            machine_template::validate_taints(pool, &at, false, errors);
            validate_replicas(new, pool, &at, errors);
            // MachinePools have no rolling update.
            let bounds = object::at(pool, "rollout.strategy.rollingUpdate");
            rollout::validate_bounds(bounds, &at.child("rollout.strategy.rollingUpdate"), errors);
        }
    }
}

/// Returns the errors of negative counts: of rollouts and of health checks.
pub(super) fn negative_counts(cluster: &Value) -> Vec<FieldError> {
    let path = FieldPath::new("spec.topology");
    let plane = object::at(cluster, "spec.topology.controlPlane").unwrap_or(&Value::Null);
    let mut errors = rollout::negative_in_part(plane, &path.child("controlPlane"));
    for list in POOLS {
        for (_, pool) in items(cluster, &format!("spec.topology.workers.{list}")) {
            let name = pool.get("name").and_then(Value::as_str).unwrap_or_default();
            errors.extend(rollout::negative_in_part(pool, &path.child("workers").child(list).key(name)));
        }
    }
    errors
}

/// Validates that a part of a topology has no negative number of Machines. Its object would be refused later, and with it
/// every other change of the Cluster would wait. A Cluster from before this check can still be deleted.
fn validate_replicas(cluster: &Value, part: &Value, path: &FieldPath, errors: &mut Vec<FieldError>) {
    let Some(replicas) = part.get("replicas").filter(|_| !object::is_deleting(cluster)) else { return };
    if replicas.as_i64().is_some_and(|number| number < 0) {
        let detail = "should be a non-negative integer";
        errors.push(FieldError::invalid(path.child("replicas"), replicas, detail));
    }
}

/// Validates that an autoscaled pool has no `replicas`. The bounds of the autoscaler can be in the topology or in the
/// class.
pub(crate) fn validate_autoscaled(cluster: &Value, class: Option<&Value>, errors: &mut Vec<FieldError>) {
    for (_, pool) in items(cluster, "spec.topology.workers.machineDeployments") {
        let Some(replicas) = pool.get("replicas") else { continue };
        let part = |field: &str| pool.get(field).and_then(Value::as_str).unwrap_or_default();
        let at = FieldPath::new("spec.topology.workers.machineDeployments").key(part("name"));
        let mut refuse = |owner: &str| {
            let (name, namespace) = (object::name(cluster), object::namespace(cluster));
            let detail = format!(
                "cannot be set for cluster {name:?} in namespace {namespace:?} if the {owner} has autoscaler annotations"
            );
            errors.push(FieldError::invalid(at.child("replicas"), replicas, &detail));
        };
        if replicas::is_autoscaled(pool) {
            refuse("same MachineDeploymentTopology");
        }
        let classes = class.into_iter().flat_map(|class| items(class, "spec.workers.machineDeployments"));
        let mut own = classes.map(|(_, class)| class).filter(|class| class.get("class") == pool.get("class"));
        if own.any(replicas::is_autoscaled) {
            refuse(&format!("source class {:?} of this MachineDeploymentTopology", part("class")));
        }
    }
}

fn validate_version(new: &Value, path: &FieldPath, errors: &mut Vec<FieldError>) {
    let Some(requested) = text(new, "spec.topology.version") else { return };
    let shown = json!(requested);
    if !requested.starts_with('v') {
        errors.push(FieldError::invalid(path.clone(), &shown, "must start with v"));
    }
    if Semver::parse(requested.strip_prefix('v').unwrap_or(requested)).is_none() {
        let detail = "version must be a valid semantic version";
        errors.push(FieldError::invalid(path.clone(), &shown, detail));
    }
}

fn validate_concurrency(new: &Value, errors: &mut Vec<FieldError>) {
    let Some(text) = annotation(new, UPGRADE_CONCURRENCY) else { return };
    let detail = match text.parse::<i64>() {
        Ok(number) if number >= 1 => return,
        Ok(_) => "value cannot be less than 1".to_owned(),
        Err(error) => format!(
            "could not parse the value of the annotation: strconv.Atoi: parsing {text:?}: {}",
            version::go_number_error(&error)
        ),
    };
    let path = FieldPath::new("metadata.annotations").child(UPGRADE_CONCURRENCY);
    errors.push(FieldError::invalid(path, &json!(text), &detail));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn errors(new: &Value) -> Vec<String> {
        let mut errors = Vec::new();
        validate(new, &mut errors);
        validate_autoscaled(new, None, &mut errors);
        errors.iter().map(|error| error.field.to_string()).collect()
    }

    #[test]
    fn a_version_must_be_a_semantic_version() {
        let at = |version: &str| json!({"spec": {"topology": {"version": version}}});
        for (version, count) in
            [("v1.31.0", 0), ("v1.31.0-rc.1+x", 0), ("v1.31", 1), ("v1.31.0.1", 1), ("1.31.0", 1), ("new", 2)]
        {
            assert_eq!(errors(&at(version)).len(), count, "{version}");
        }
    }

    #[test]
    fn a_number_of_machines_cannot_be_negative() {
        let topology = json!({"version": "v1.30.0", "controlPlane": {"replicas": -1}, "workers": {
            "machineDeployments": [{"name": "a", "replicas": -3}, {"name": "b", "replicas": 0}, {"name": "c"}]}});
        let mut cluster = json!({"spec": {"topology": topology}});
        let refused =
            ["spec.topology.controlPlane.replicas", "spec.topology.workers.machineDeployments[a].replicas"];
        assert_eq!(errors(&cluster), refused);
        cluster["metadata"] = json!({"deletionTimestamp": "2026-01-01T00:00:00Z"});
        assert_eq!(errors(&cluster), [""; 0], "its finalizers can be removed");
    }

    #[test]
    fn counts_of_rollouts_and_health_checks_cannot_be_negative() {
        let check =
            json!({"remediation": {"maxInFlight": "-1%", "triggerIf": {"unhealthyLessThanOrEqualTo": -1}}});
        let rollout = json!({"strategy": {"rollingUpdate": {"maxSurge": 1, "maxUnavailable": -1}}});
        let cluster = json!({"spec": {"topology": {"controlPlane": {"healthCheck": check}, "workers": {
            "machineDeployments": [{"name": "a", "rollout": rollout}, {"name": "b", "healthCheck": check}]}}}});
        let found: Vec<String> =
            negative_counts(&cluster).iter().map(|error| error.field.to_string()).collect();
        let checks = |part: &str| {
            let fields = ["maxInFlight", "triggerIf.unhealthyLessThanOrEqualTo"];
            fields.map(|field| format!("spec.topology.{part}.healthCheck.remediation.{field}")).to_vec()
        };
        let bound =
            "spec.topology.workers.machineDeployments[a].rollout.strategy.rollingUpdate.maxUnavailable";
        let expected =
            [checks("controlPlane"), vec![bound.to_owned()], checks("workers.machineDeployments[b]")];
        assert_eq!(found, expected.concat());
    }

    #[test]
    fn fields_passed_to_machines_must_be_valid_there() {
        let cluster = json!({
            "metadata": {"annotations": {UPGRADE_CONCURRENCY: "0"}},
            "spec": {"topology": {"version": "v1.30.0",
                "controlPlane": {"metadata": {"labels": {"a b": "c"}}},
                "workers": {"machineDeployments": [
                    {"name": "a", "metadata": {"labels": {"ok": "no good"}, "annotations": {"ok": "any thing"}}},
                    {"name": "b", "rollout": {"strategy": {"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 0}}}},
                    {"name": "c", "rollout": {"strategy": {"rollingUpdate": {"maxSurge": "many", "maxUnavailable": 1}}}},
                    {"name": "d", "replicas": 3, "metadata": {"annotations":
                        {"cluster.x-k8s.io/cluster-api-autoscaler-node-group-min-size": "1"}}},
                    {"rollout": {"strategy": {"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}}}}]}}}});
        assert_eq!(
            errors(&cluster),
            [
                "metadata.annotations.topology.cluster.x-k8s.io/upgrade-concurrency",
                "spec.topology.controlPlane.metadata.labels",
                "spec.topology.workers.machineDeployments[a].metadata.labels",
                "spec.topology.workers.machineDeployments[b].rollout.strategy.rollingUpdate",
                "spec.topology.workers.machineDeployments[c].rollout.strategy.rollingUpdate.maxSurge",
                "spec.topology.workers.machineDeployments[d].replicas",
            ]
        );
    }
}
