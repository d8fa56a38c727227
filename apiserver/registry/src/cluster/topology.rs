//! Rules of a Cluster's topology that need no ClusterClass.

use apiserver_machinery::field_errors::{FieldError, FieldPath};
use apiserver_machinery::object;
use serde_json::{Value, json};

use crate::shape::annotation;
use crate::{handed_down, machine_template, replicas, rollout, version};

/// Who sets this annotation answers for the order of versions.
pub(super) const SKIP_ORDER: &str = "unsafe.topology.cluster.x-k8s.io/disable-update-version-check";

/// How many pools are upgraded at once.
const UPGRADE_CONCURRENCY: &str = "topology.cluster.x-k8s.io/upgrade-concurrency";

/// Who sets this annotation lets an existing cluster be taken over by a class.
const ALLOW_CLASS: &str = "unsafe.topology.cluster.x-k8s.io/disable-update-class-name-check";

/// Lists of pools.
pub(super) const POOLS: [&str; 2] = ["machineDeployments", "machinePools"];

/// Adds every fault of the topology.
pub(super) fn validate(new: &Value, old: Option<&Value>, faults: &mut Vec<FieldError>) {
    let Some(topology) = new.pointer("/spec/topology").filter(|topology| topology.is_object()) else {
        return;
    };
    let path = FieldPath::new("spec.topology");
    validate_version(new, old, &path.child("version"), faults);
    validate_concurrency(new, faults);
    let is_taken_over = old.is_some_and(|old| old.pointer("/spec/topology").is_none());
    if is_taken_over && annotation(new, ALLOW_CLASS).is_none() {
        let detail = "classRef cannot be set on an existing Cluster";
        faults.push(FieldError::forbidden(path.child("class"), detail));
    }
    let control_plane = &topology["controlPlane"];
    handed_down::metadata(control_plane.get("metadata"), &path.child("controlPlane.metadata"), faults);
    machine_template::validate_taints(control_plane, &path.child("controlPlane"), false, faults);
    for list in POOLS {
        let pools = topology.pointer(&format!("/workers/{list}")).and_then(Value::as_array);
        for pool in pools.into_iter().flatten() {
            let name = pool.get("name").and_then(Value::as_str).unwrap_or_default();
            let at = path.child("workers").child(list).key(name);
            if list == "machineDeployments" {
                validate_autoscaled(new, pool, &at, faults);
            }
            handed_down::metadata(pool.get("metadata"), &at.child("metadata"), faults);
            machine_template::validate_taints(pool, &at, true, faults);
            let bounds = pool.pointer("/rollout/strategy/rollingUpdate");
            rollout::validate_bounds(bounds, &at.child("rollout.strategy.rollingUpdate"), faults);
        }
    }
}

/// Where an autoscaler says how many there are to be, nobody else does.
fn validate_autoscaled(new: &Value, pool: &Value, at: &FieldPath, faults: &mut Vec<FieldError>) {
    let Some(replicas) = pool.get("replicas").filter(|_| replicas::is_autoscaled(pool)) else { return };
    let (name, namespace) = (object::name(new), object::namespace(new));
    let detail = format!(
        "cannot be set for cluster {name:?} in namespace {namespace:?} if the same MachineDeploymentTopology has autoscaler annotations"
    );
    faults.push(FieldError::invalid(at.child("replicas"), replicas, &detail));
}

fn validate_version(new: &Value, old: Option<&Value>, path: &FieldPath, faults: &mut Vec<FieldError>) {
    let text =
        |object: &Value| object.pointer("/spec/topology/version").and_then(Value::as_str).map(str::to_owned);
    let Some(wanted) = text(new) else { return };
    let shown = Value::String(wanted.clone());
    let Some(now) = version::parse(&wanted) else {
        let detail = "version must be a valid semantic version";
        return faults.push(FieldError::invalid(path.clone(), &shown, detail));
    };
    let Some(former) = old.and_then(text) else { return };
    let Some(before) = version::parse(&former).filter(|_| annotation(new, SKIP_ORDER).is_none()) else {
        return;
    };
    if now < before {
        let (from, to) = (former.trim_start_matches('v'), wanted.trim_start_matches('v'));
        let detail = format!("version cannot be decreased from {from:?} to {to:?}");
        faults.push(FieldError::invalid(path.clone(), &shown, &detail));
    }
}

fn validate_concurrency(new: &Value, faults: &mut Vec<FieldError>) {
    let Some(text) = annotation(new, UPGRADE_CONCURRENCY) else { return };
    let detail = match text.parse::<i64>() {
        Ok(number) if number >= 1 => return,
        Ok(_) => "value cannot be less than 1".to_owned(),
        Err(error) => format!(
            "could not parse the value of the annotation: strconv.Atoi: parsing {text:?}: {}",
            version::go_number_fault(&error)
        ),
    };
    let path = FieldPath::new("metadata.annotations").child(UPGRADE_CONCURRENCY);
    faults.push(FieldError::invalid(path, &json!(text), &detail));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults(new: &Value, old: Option<&Value>) -> Vec<String> {
        let mut faults = Vec::new();
        validate(new, old, &mut faults);
        faults.iter().map(|fault| fault.field.to_string()).collect()
    }

    #[test]
    fn a_topology_does_not_go_down() {
        let at = |version: &str| json!({"spec": {"topology": {"version": version}}});
        for (from, to, count) in [
            ("v1.30.1", "v1.31.0", 0),
            ("v1.30.1", "v1.30.9", 0),
            ("v1.30.1", "v1.30.1-rc.1", 0),
            ("v1.30.1", "v1.30.0", 1),
            ("v1.30.1", "1.31.0", 1),
        ] {
            assert_eq!(faults(&at(to), Some(&at(from))).len(), count, "{from} to {to}");
        }
        let mut forced = at("v1.29.0");
        forced["metadata"] = json!({"annotations": {SKIP_ORDER: ""}});
        assert_eq!(faults(&forced, Some(&at("v1.30.1"))), Vec::<String>::new());
    }

    #[test]
    fn a_class_does_not_take_an_existing_cluster_over() {
        let mut new = json!({"spec": {"topology": {"version": "v1.30.0"}}});
        let old = json!({"spec": {"paused": true}});
        assert_eq!(faults(&new, None), Vec::<String>::new());
        assert_eq!(faults(&new, Some(&old)), ["spec.topology.class"]);
        new["metadata"] = json!({"annotations": {ALLOW_CLASS: ""}});
        assert_eq!(faults(&new, Some(&old)), Vec::<String>::new());
    }

    #[test]
    fn what_is_handed_down_must_be_legal_where_it_arrives() {
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
            faults(&cluster, None),
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
