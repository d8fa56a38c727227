//! Amounts of quotas that machines use: the wanted replicas of the object that decides about them.

use std::collections::BTreeSet;

use apiserver_machinery::object;
use apiserver_machinery::quota::{Amounts, QuotaOwner};
use serde_json::Value;

use crate::rules::json_fields;
use crate::rules::label_selection::LabelSelection;
use crate::rules::machine_template::CLUSTER_LABEL;

/// Names of the number of machines, all and those of control planes.
pub(crate) const MACHINES: [&str; 2] = [ALL, CONTROL_PLANE];

const ALL: &str = "capstan.dev/machines";

const CONTROL_PLANE: &str = "capstan.dev/control-plane-machines";

/// Beginning of the name of the number of servers of a flavor.
pub(crate) const SERVERS: [&str; 1] = ["capstan.dev/servers."];

/// Label of the machines of a control plane.
const CONTROL_PLANE_LABEL: &str = "cluster.x-k8s.io/control-plane";

/// Owners of MachineSets.
pub(crate) const OF_SETS: [QuotaOwner; 1] = [by_selector("MachineDeployment")];

/// Owners of Machines. Capstan creates no Machines of a MachinePool, so such a pool accounts for those of others.
pub(crate) const OF_MACHINES: [QuotaOwner; 3] = [
    by_selector("MachineSet"),
    QuotaOwner {
        group: "controlplane.cluster.x-k8s.io",
        kind: "KubeadmControlPlane",
        selects: controls_plane,
    },
    QuotaOwner { group: CORE, kind: "MachinePool", selects: |_, _| true },
];

/// Owners of OpenStackServers.
pub(crate) const OF_SERVERS: [QuotaOwner; 1] =
    [QuotaOwner { group: "infrastructure.cluster.x-k8s.io", kind: "OpenStackMachine", selects: |_, _| true }];

const CORE: &str = "cluster.x-k8s.io";

const fn by_selector(kind: &'static str) -> QuotaOwner {
    QuotaOwner { group: CORE, kind, selects: selects_by_labels }
}

/// Returns true if the selector of a set selects an object. An empty one selects nothing, as in the controllers.
fn selects_by_labels(owner: &Value, object: &Value) -> bool {
    let selection = object::at(owner, "spec.selector").and_then(|it| LabelSelection::read(it).ok());
    selection.is_some_and(|selection| !selection.is_empty() && selection.matches(object::labels(object)))
}

/// Returns true if a control plane works on a Machine: one of its Cluster, with the label of a control plane.
fn controls_plane(owner: &Value, machine: &Value) -> bool {
    let references = object::at(owner, "metadata.ownerReferences").and_then(Value::as_array);
    let is_cluster = |it: &&Value| it.get("kind").is_some_and(|kind| kind == "Cluster");
    let cluster = references.into_iter().flatten().find(is_cluster).and_then(|it| it.get("name"));
    let label = |name: &str| object::labels(machine).and_then(|labels| labels.get(name));
    cluster.is_some() && label(CLUSTER_LABEL) == cluster && label(CONTROL_PLANE_LABEL).is_some()
}

/// Returns the use of an object with wanted replicas.
pub(crate) fn replicas(object: &Value, is_control_plane: bool) -> Amounts {
    let wanted = object::at(object, "spec.replicas").and_then(Value::as_i64).unwrap_or(1);
    machines(is_control_plane, wanted)
}

/// Returns the use of one Machine.
pub(crate) fn machine(object: &Value) -> Amounts {
    let labels = object::labels(object);
    machines(labels.is_some_and(|labels| labels.contains_key(CONTROL_PLANE_LABEL)), 1)
}

fn machines(is_control_plane: bool, wanted: i64) -> Amounts {
    let mut amounts = Amounts::default();
    amounts.add(ALL, wanted);
    if is_control_plane {
        amounts.add(CONTROL_PLANE, wanted);
    }
    amounts
}

/// Returns the use of a server with a flavor: under its name and under its id, as far as the object has them.
pub(crate) fn server(object: &Value) -> Amounts {
    let flavors: BTreeSet<&str> = flavor_id(object).into_iter().chain(flavor_name(object)).collect();
    let mut amounts = Amounts::default();
    flavors.iter().for_each(|flavor| amounts.add(&amount(flavor), 1));
    amounts
}

/// Returns the reason to refuse a server whose flavor is given by an id that no quota names: the quota of its name could
/// not count it.
pub(crate) fn unknown_flavor(object: &Value, limited: &BTreeSet<&str>) -> Option<String> {
    let own = amount(flavor_id(object)?);
    let [prefix] = SERVERS;
    let other =
        limited.iter().find(|name| name.starts_with(prefix)).filter(|_| !limited.contains(own.as_str()))?;
    Some(format!(
        "a quota limits {other}, and the id of the flavor cannot be compared with it: give the flavor by its name, \
         or add {own} to the quota"
    ))
}

fn amount(flavor: &str) -> String {
    let [prefix] = SERVERS;
    format!("{prefix}{flavor}")
}

/// Returns the id of the flavor of an OpenStackServer or an OpenStackMachine.
fn flavor_id(object: &Value) -> Option<&str> {
    text(object, "spec.flavorID").or_else(|| text(object, "spec.flavor.id"))
}

/// Returns the name of the flavor of an OpenStackServer or an OpenStackMachine.
fn flavor_name(object: &Value) -> Option<&str> {
    text(object, "spec.flavor").or_else(|| text(object, "spec.flavor.filter.name"))
}

fn text<'a>(object: &'a Value, path: &str) -> Option<&'a str> {
    json_fields::text(object, path).filter(|text| !text.is_empty())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_object_that_decides_about_replicas_uses_the_quota() {
        assert_eq!(replicas(&json!({"spec": {"replicas": 3}}), false), Amounts::of(&json!({ALL: 3})));
        assert_eq!(replicas(&json!({"spec": {}}), true), Amounts::of(&json!({ALL: 1, CONTROL_PLANE: 1})));
        assert_eq!(machine(&json!({})), Amounts::of(&json!({ALL: 1})));
        let label = json!({"metadata": {"labels": {CONTROL_PLANE_LABEL: ""}}});
        assert_eq!(machine(&label), Amounts::of(&json!({ALL: 1, CONTROL_PLANE: 1})));
    }

    #[test]
    fn an_owner_selects_only_what_its_controller_works_on() {
        let labelled = |labels: Value| json!({"metadata": {"labels": labels}});
        let set = json!({"spec": {"selector": {"matchLabels": {"a": "b"}}}});
        assert!(selects_by_labels(&set, &labelled(json!({"a": "b", "c": "d"}))));
        assert!(!selects_by_labels(&set, &labelled(json!({"a": "c"}))));
        assert!(!selects_by_labels(&json!({"spec": {"selector": {}}}), &labelled(json!({"a": "b"}))));
        let plane = json!({"metadata": {"ownerReferences": [{"kind": "Cluster", "name": "c"}]}});
        let machine = |cluster: &str| labelled(json!({CLUSTER_LABEL: cluster, CONTROL_PLANE_LABEL: ""}));
        assert!(controls_plane(&plane, &machine("c")));
        assert!(!controls_plane(&plane, &machine("d")));
        assert!(!controls_plane(&plane, &labelled(json!({CLUSTER_LABEL: "c"}))));
        assert!(!controls_plane(&json!({}), &labelled(json!({CONTROL_PLANE_LABEL: ""}))));
    }

    #[test]
    fn a_server_counts_for_the_name_and_the_id_of_its_flavor() {
        for (spec, expected) in [
            (json!({"flavor": "m1.large"}), json!({"capstan.dev/servers.m1.large": 1})),
            (json!({"flavor": {"filter": {"name": "m1.large"}}}), json!({"capstan.dev/servers.m1.large": 1})),
            (json!({"flavor": {"id": "7"}}), json!({"capstan.dev/servers.7": 1})),
            (
                json!({"flavor": "a", "flavorID": "7"}),
                json!({"capstan.dev/servers.7": 1, "capstan.dev/servers.a": 1}),
            ),
            (json!({"flavor": "7", "flavorID": "7"}), json!({"capstan.dev/servers.7": 1})),
            (json!({}), json!({})),
        ] {
            assert_eq!(server(&json!({"spec": spec})), Amounts::of(&expected), "{spec}");
        }
    }

    #[test]
    fn an_id_that_no_quota_of_flavors_names_is_refused() {
        let refusal = |spec: Value, limited: &[&str]| {
            unknown_flavor(&json!({"spec": spec}), &limited.iter().copied().collect())
        };
        let (of_name, of_id) = ("capstan.dev/servers.m1.large", "capstan.dev/servers.7");
        for spec in [json!({"flavor": {"id": "7"}}), json!({"flavor": "m1.large", "flavorID": "7"})] {
            let why = refusal(spec.clone(), &[ALL, of_name]).unwrap();
            assert!(why.contains(of_name) && why.contains("add capstan.dev/servers.7"), "{why}");
            assert_eq!(refusal(spec.clone(), &[of_name, of_id]), None);
            assert_eq!(refusal(spec, &[ALL]), None, "no flavor is limited");
        }
        assert_eq!(refusal(json!({"flavor": "m1.small"}), &[of_name]), None);
    }
}
