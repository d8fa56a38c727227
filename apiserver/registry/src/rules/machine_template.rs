//! Rules of a Machine's spec, in a Machine and in the templates of other kinds.

use apiserver_schema::field_errors::{FieldError, FieldPath};
use serde_json::{Value, json};

use crate::rules::json_fields::{get, items, object, text};
use crate::rules::{template_metadata, version};

/// Label by which tools find the objects of a cluster.
pub(crate) const CLUSTER_LABEL: &str = "cluster.x-k8s.io/cluster-name";

/// Default time of retries to delete a Node. Unit: seconds.
pub(crate) const NODE_DELETION_SECONDS: i64 = 10;

/// Taint of the Nodes of a control plane.
const CONTROL_PLANE_TAINT: &str = "node-role.kubernetes.io/control-plane";

/// Sets the label of the object's cluster.
pub(crate) fn label_with_cluster(new: &mut Value) {
    let Some(cluster) = get(new, "spec.clusterName").filter(|cluster| cluster.is_string()).cloned() else {
        return;
    };
    if let Some(labels) = object(new, "metadata.labels") {
        labels.insert(CLUSTER_LABEL.to_owned(), cluster);
    }
}

/// Adds a leading `v` to a version. `path` is the path of the Machine's spec.
pub(crate) fn prepare_version(new: &mut Value, path: &str) {
    let found = get(new, path).and_then(|spec| text(spec, "version"));
    let found = found.filter(|found| !found.is_empty() && !found.starts_with('v'));
    let Some(version) = found.map(|found| format!("v{found}")) else { return };
    if let Some(spec) = object(new, path) {
        spec.insert("version".to_owned(), json!(version));
    }
}

/// Adds the errors of the Machine's spec at `path` that depend on nothing else.
pub(crate) fn validate(new: &Value, path: &str, errors: &mut Vec<FieldError>) {
    let found = get(new, path).and_then(|spec| text(spec, "version"));
    if let Some(found) = found.filter(|found| version::parse(found).is_none()) {
        let detail = "must be a valid semantic version";
        errors.push(FieldError::invalid(FieldPath::new(path).child("version"), &json!(found), detail));
    }
}

/// Adds an error if neither of the two ways to bootstrap is set.
pub(crate) fn validate_bootstrap(new: &Value, path: &str, errors: &mut Vec<FieldError>) {
    let bootstrap = get(new, path).and_then(|spec| spec.get("bootstrap"));
    let has = |field: &str| bootstrap.and_then(|bootstrap| bootstrap.get(field)).is_some();
    if !has("configRef") && !has("dataSecretName") {
        let at = format!("{path}.bootstrap");
        let detail = format!("expected either {at}.dataSecretName or {at}.configRef to be populated");
        errors.push(FieldError::required(FieldPath::new(at), &detail));
    }
}

/// Validates that the cluster is immutable, and that a template has the same cluster as its object.
pub(crate) fn validate_cluster(new: &Value, old: Option<&Value>, errors: &mut Vec<FieldError>) {
    let path = FieldPath::new("spec.clusterName");
    let now = get(new, "spec.clusterName");
    if old.is_some_and(|old| get(old, "spec.clusterName") != now) {
        errors.push(FieldError::forbidden(path.clone(), "field is immutable"));
    }
    let inner = get(new, "spec.template.spec.clusterName");
    if inner.is_some() && inner != now {
        let detail = "spec.clusterName and spec.template.spec.clusterName must be set to the same value";
        errors.push(FieldError::invalid(path, now.unwrap_or(&Value::Null), detail));
    }
}

/// Validates that taints are not reserved. The control plane's taint is allowed only on its Machines.
pub(crate) fn validate_taints(holder: &Value, at: &FieldPath, is_worker: bool, errors: &mut Vec<FieldError>) {
    let at = at.child("taints");
    template_metadata::taints(holder.get("taints"), &at, errors);
    for (index, taint) in items(holder, "taints").filter(|_| is_worker) {
        let key = taint.get("key").and_then(Value::as_str);
        if let Some(key) = key.filter(|key| *key == CONTROL_PLANE_TAINT) {
            let path = at.index(index).child("key");
            errors.push(FieldError::invalid(path, &json!(key), "taint is not allowed for worker Machines"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_gets_a_leading_v() {
        for (found, expected) in [("1.30.2", "v1.30.2"), ("v1.30.2", "v1.30.2"), ("latest", "vlatest")] {
            let mut new = json!({"spec": {"version": found}});
            prepare_version(&mut new, "spec");
            assert_eq!(new["spec"]["version"], expected);
        }
    }

    #[test]
    fn reserved_taints_are_refused() {
        let keys = [
            "node.cluster.x-k8s.io/uninitialized",
            "node.kubernetes.io/not-ready",
            "node.kubernetes.io/out-of-service",
            "node.cloudprovider.kubernetes.io/uninitialized",
            "node-role.kubernetes.io/master",
            "node-role.kubernetes.io/control-plane",
            "example.com/gpu",
        ];
        let taints: Vec<Value> = keys.iter().map(|key| json!({"key": key})).collect();
        let found = |is_worker| {
            let mut errors = Vec::new();
            validate_taints(&json!({"taints": taints}), &FieldPath::new("spec"), is_worker, &mut errors);
            errors.iter().map(|error| error.field.to_string()).collect::<Vec<_>>()
        };
        let refused =
            ["spec.taints[0].key", "spec.taints[1].key", "spec.taints[3].key", "spec.taints[4].key"];
        assert_eq!(found(false), refused);
        assert_eq!(found(true).last().map(String::as_str), Some("spec.taints[5].key"));
    }
}
