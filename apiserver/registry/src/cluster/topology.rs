//! Rules of a Cluster's topology that need no ClusterClass.

use apiserver_machinery::field_errors::{FieldError, FieldPath};
use serde_json::{Value, json};

use crate::{handed_down, machine_template, rollout, version};

/// Who sets this annotation answers for the order of versions.
const SKIP_ORDER: &str = "unsafe.topology.cluster.x-k8s.io/disable-update-version-check";

/// How many pools are upgraded at once.
const UPGRADE_CONCURRENCY: &str = "topology.cluster.x-k8s.io/upgrade-concurrency";

/// Adds every fault of the topology.
pub(super) fn validate(new: &Value, old: Option<&Value>, faults: &mut Vec<FieldError>) {
    let Some(topology) = new.pointer("/spec/topology").filter(|topology| topology.is_object()) else {
        return;
    };
    let path = FieldPath::new("spec.topology");
    validate_version(new, old, &path.child("version"), faults);
    validate_concurrency(new, faults);
    let control_plane = &topology["controlPlane"];
    handed_down::metadata(control_plane.get("metadata"), &path.child("controlPlane.metadata"), faults);
    machine_template::validate_taints(control_plane, &path.child("controlPlane"), false, faults);
    for list in ["machineDeployments", "machinePools"] {
        let pools = topology.pointer(&format!("/workers/{list}")).and_then(Value::as_array);
        for (index, pool) in pools.into_iter().flatten().enumerate() {
            let at = path.child("workers").child(list).index(index);
            handed_down::metadata(pool.get("metadata"), &at.child("metadata"), faults);
            machine_template::validate_taints(pool, &at, true, faults);
            let bounds = pool.pointer("/rollout/strategy/rollingUpdate");
            rollout::validate_bounds(bounds, &at.child("rollout.strategy.rollingUpdate"), faults);
        }
    }
}

fn annotation<'a>(object: &'a Value, key: &str) -> Option<&'a str> {
    object.pointer("/metadata/annotations")?.get(key)?.as_str()
}

fn validate_version(new: &Value, old: Option<&Value>, path: &FieldPath, faults: &mut Vec<FieldError>) {
    let text =
        |object: &Value| object.pointer("/spec/topology/version").and_then(Value::as_str).map(str::to_owned);
    let Some(wanted) = text(new) else { return };
    let shown = Value::String(wanted.clone());
    let Some(now) = version::parse(&wanted) else {
        let detail = "must be a valid semantic version with a leading v, e.g. v1.30.2";
        return faults.push(FieldError::invalid(path.clone(), &shown, detail));
    };
    let Some(before) = old.and_then(text).and_then(|text| version::parse(&text)) else { return };
    if annotation(new, SKIP_ORDER).is_some() {
        return;
    }
    let (major, minor, patch) = before;
    if now < before {
        let detail = format!("version cannot be decreased from v{major}.{minor}.{patch}");
        faults.push(FieldError::invalid(path.clone(), &shown, &detail));
    } else if now.0 != major || now.1 > minor + 1 {
        let detail =
            format!("version cannot be increased by more than one minor at a time, from v{major}.{minor}");
        faults.push(FieldError::forbidden(path.clone(), &detail));
    }
}

fn validate_concurrency(new: &Value, faults: &mut Vec<FieldError>) {
    let Some(text) = annotation(new, UPGRADE_CONCURRENCY) else { return };
    if !text.parse::<i64>().is_ok_and(|number| number >= 1) {
        let path = FieldPath::new("metadata.annotations").key(UPGRADE_CONCURRENCY);
        faults.push(FieldError::invalid(path, &json!(text), "must be a number of at least 1"));
    }
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
    fn a_topology_goes_up_one_minor_at_a_time() {
        let at = |version: &str| json!({"spec": {"topology": {"version": version}}});
        for (from, to, count) in [
            ("v1.30.1", "v1.31.0", 0),
            ("v1.30.1", "v1.30.9", 0),
            ("v1.30.1", "v1.30.1-rc.1", 0),
            ("v1.30.1", "v1.30.0", 1),
            ("v1.30.1", "v1.32.0", 1),
            ("v1.30.1", "v2.0.0", 1),
            ("v1.30.1", "1.31.0", 1),
        ] {
            assert_eq!(faults(&at(to), Some(&at(from))).len(), count, "{from} to {to}");
        }
        let mut forced = at("v1.33.0");
        forced["metadata"] = json!({"annotations": {SKIP_ORDER: ""}});
        assert_eq!(faults(&forced, Some(&at("v1.30.1"))), Vec::<String>::new());
    }

    #[test]
    fn what_is_handed_down_must_be_legal_where_it_arrives() {
        let cluster = json!({
            "metadata": {"annotations": {UPGRADE_CONCURRENCY: "0"}},
            "spec": {"topology": {"version": "v1.30.0",
                "controlPlane": {"metadata": {"labels": {"a b": "c"}}},
                "workers": {"machineDeployments": [
                    {"metadata": {"labels": {"ok": "no good"}, "annotations": {"ok": "any thing"}}},
                    {"rollout": {"strategy": {"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 0}}}},
                    {"rollout": {"strategy": {"rollingUpdate": {"maxSurge": "many", "maxUnavailable": 1}}}},
                    {"rollout": {"strategy": {"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}}}}]}}}});
        assert_eq!(
            faults(&cluster, None),
            [
                "metadata.annotations[topology.cluster.x-k8s.io/upgrade-concurrency]",
                "spec.topology.controlPlane.metadata.labels",
                "spec.topology.workers.machineDeployments[0].metadata.labels",
                "spec.topology.workers.machineDeployments[1].rollout.strategy.rollingUpdate",
                "spec.topology.workers.machineDeployments[2].rollout.strategy.rollingUpdate.maxSurge",
            ]
        );
    }
}
