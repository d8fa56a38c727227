//! Amounts of quotas that machines use: the wanted replicas of the object that decides about them.

use apiserver_machinery::object;
use apiserver_machinery::quota::Amounts;
use serde_json::Value;

/// Names of the number of machines, all and those of control planes.
pub(crate) const MACHINES: [&str; 2] = [ALL, CONTROL_PLANE];

const ALL: &str = "capstan.dev/machines";

const CONTROL_PLANE: &str = "capstan.dev/control-plane-machines";

/// Beginning of the name of the number of servers of a flavor.
pub(crate) const SERVERS: [&str; 1] = ["capstan.dev/servers."];

/// Label of the machines of a control plane.
const CONTROL_PLANE_LABEL: &str = "cluster.x-k8s.io/control-plane";

/// Returns the use of an object with wanted replicas. An object that one of the `owners` controls uses nothing: its
/// owner does.
pub(crate) fn replicas(object: &Value, owners: &[&str], is_control_plane: bool) -> Amounts {
    let wanted = object::at(object, "spec.replicas").and_then(Value::as_i64).unwrap_or(1);
    machines(object, owners, is_control_plane, wanted)
}

/// Returns the use of one Machine.
pub(crate) fn machine(object: &Value) -> Amounts {
    let labels = object::at(object, "metadata.labels");
    let is_control_plane = labels.is_some_and(|labels| labels.get(CONTROL_PLANE_LABEL).is_some());
    machines(object, &["KubeadmControlPlane", "MachinePool", "MachineSet"], is_control_plane, 1)
}

fn machines(object: &Value, owners: &[&str], is_control_plane: bool, wanted: i64) -> Amounts {
    let mut amounts = Amounts::default();
    if is_controlled_by(object, owners) {
        return amounts;
    }
    amounts.add(ALL, wanted);
    if is_control_plane {
        amounts.add(CONTROL_PLANE, wanted);
    }
    amounts
}

/// Returns the use of a server with a flavor.
pub(crate) fn server(object: &Value, owners: &[&str]) -> Amounts {
    let mut amounts = Amounts::default();
    let text = |path: &str| object::at(object, path).and_then(Value::as_str).filter(|text| !text.is_empty());
    // The id takes precedence, as in the cloud.
    let flavor = text("spec.flavorID").or_else(|| text("spec.flavor"));
    if let Some(flavor) = flavor.filter(|_| !is_controlled_by(object, owners)) {
        let [prefix] = SERVERS;
        amounts.add(&format!("{prefix}{flavor}"), 1);
    }
    amounts
}

fn is_controlled_by(object: &Value, owners: &[&str]) -> bool {
    let references = object::at(object, "metadata.ownerReferences").and_then(Value::as_array);
    references.into_iter().flatten().any(|reference| {
        let kind = reference.get("kind").and_then(Value::as_str).unwrap_or_default();
        reference.get("controller") == Some(&Value::Bool(true)) && owners.contains(&kind)
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_object_that_decides_about_replicas_uses_the_quota() {
        let deployment = json!({"spec": {"replicas": 3}});
        assert_eq!(replicas(&deployment, &[], false), Amounts::of(&json!({ALL: 3})));
        assert_eq!(
            replicas(&json!({"spec": {}}), &[], true),
            Amounts::of(&json!({ALL: 1, CONTROL_PLANE: 1}))
        );
        let owned = |kind: &str| {
            let owner = json!({"kind": kind, "name": "o", "controller": true});
            json!({"metadata": {"ownerReferences": [owner]}, "spec": {"replicas": 3, "flavor": "m1"}})
        };
        assert!(replicas(&owned("MachineDeployment"), &["MachineDeployment"], false).is_empty());
        assert!(machine(&owned("MachineSet")).is_empty());
        assert_eq!(machine(&owned("Cluster")), Amounts::of(&json!({ALL: 1})));
        let label = json!({"metadata": {"labels": {CONTROL_PLANE_LABEL: ""}}});
        assert_eq!(machine(&label), Amounts::of(&json!({ALL: 1, CONTROL_PLANE: 1})));
    }

    #[test]
    fn a_server_counts_for_its_flavor() {
        let of = |spec: Value| server(&json!({"spec": spec}), &[]);
        assert_eq!(
            of(json!({"flavor": "m1.large"})),
            Amounts::of(&json!({"capstan.dev/servers.m1.large": 1}))
        );
        assert_eq!(
            of(json!({"flavor": "a", "flavorID": "7"})),
            Amounts::of(&json!({"capstan.dev/servers.7": 1}))
        );
        assert!(of(json!({})).is_empty());
    }
}
