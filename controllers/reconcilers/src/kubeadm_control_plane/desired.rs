//! Objects of a Machine as the control plane wishes for them.

use std::collections::BTreeMap;

use apiserver_types::{
    Bootstrap, ContractVersionedObjectReference, Gate, KubeadmConfig, KubeadmControlPlane, Machine,
    MachineSpec,
};
use kube::ResourceExt;

use super::config::{self, Start};
use super::observe::CONTROL_PLANE_NAME_LABEL;
use super::remediation_record::{self, FOR};
use super::replica::{HOOK, NODE_LABELS, Replica, managed_etcd};
use crate::CONTROL_PLANE_LABEL;
use crate::in_place::without_marks;
use crate::machine_names::Naming;
use crate::{CLUSTER_NAME_LABEL, generated_names, ownership, templates};

/// Template of names, if the control plane has none.
const NAME: &str = "{{ .kubeadmControlPlane.name }}-{{ .random }}";

/// Returns the naming template of the Machines.
pub(super) fn naming(control_plane: &KubeadmControlPlane, cluster: &str) -> Naming {
    let naming = control_plane.spec.machine_naming.as_ref();
    let template = naming.and_then(|naming| naming.template.as_deref()).unwrap_or(NAME);
    let own = control_plane.name_any();
    let variables = [(".kubeadmControlPlane.name", own.as_str()), (".cluster.name", cluster)];
    Naming::new(template, &variables)
}

/// Returns the labels of a Machine and its objects.
pub(super) fn labels(control_plane: &KubeadmControlPlane, cluster: &str) -> BTreeMap<String, String> {
    let template = control_plane.spec.machine_template.metadata.as_ref();
    let mut labels = template.and_then(|it| it.labels.clone()).unwrap_or_default();
    labels.extend(fixed_labels(control_plane, cluster));
    labels
}

/// Returns the labels that do not come from the template.
pub(super) fn fixed_labels(control_plane: &KubeadmControlPlane, cluster: &str) -> BTreeMap<String, String> {
    BTreeMap::from([
        (CLUSTER_NAME_LABEL.to_owned(), cluster.to_owned()),
        (CONTROL_PLANE_LABEL.to_owned(), String::new()),
        (CONTROL_PLANE_NAME_LABEL.to_owned(), generated_names::label_value(&control_plane.name_any())),
    ])
}

/// Returns the annotations of the template, without marks of updates in place.
pub(super) fn annotations(control_plane: &KubeadmControlPlane) -> BTreeMap<String, String> {
    let template = control_plane.spec.machine_template.metadata.as_ref();
    without_marks(template.and_then(|it| it.annotations.clone()).unwrap_or_default())
}

/// Returns the KubeadmConfig of a new Machine.
pub(super) fn config(
    control_plane: &KubeadmControlPlane,
    cluster: &str,
    name: &str,
    start: Start,
) -> KubeadmConfig {
    let mut config = KubeadmConfig::new(name, config::spec(control_plane, start));
    config.metadata.namespace = control_plane.namespace();
    config.metadata.labels = Some(fixed_labels(control_plane, cluster));
    config.metadata.owner_references = Some(vec![ownership::reference(control_plane, false)]);
    config
}

/// Returns a new Machine.
pub(super) fn machine(
    control_plane: &KubeadmControlPlane,
    cluster: &str,
    name: &str,
    failure_domain: Option<String>,
) -> Machine {
    let template = &control_plane.spec.machine_template.spec.infrastructure_ref;
    let kind = templates::kind_of(template);
    let reference = |api_group: &str, kind: &str| ContractVersionedObjectReference {
        api_group: api_group.to_owned(),
        kind: kind.to_owned(),
        name: name.to_owned(),
    };
    let spec = MachineSpec {
        cluster_name: cluster.to_owned(),
        bootstrap: Bootstrap {
            config_ref: Some(reference("bootstrap.cluster.x-k8s.io", "KubeadmConfig")),
            data_secret_name: None,
        },
        infrastructure_ref: reference(&template.api_group, kind),
        failure_domain,
        version: Some(control_plane.spec.version.clone()),
        ..MachineSpec::default()
    };
    let mut machine = with_template(control_plane, cluster, Machine::new(name, spec));
    if let Some(record) = remediation_record::in_progress(control_plane) {
        machine.annotations_mut().insert(FOR.to_owned(), record.text());
    }
    machine
}

/// Returns what the control plane applies to an existing Machine: the fields that need no new one.
pub(super) fn in_place(control_plane: &KubeadmControlPlane, cluster: &str, current: &Machine) -> Machine {
    let spec = MachineSpec {
        cluster_name: current.spec.cluster_name.clone(),
        bootstrap: Bootstrap {
            config_ref: current.spec.bootstrap.config_ref.clone(),
            data_secret_name: None,
        },
        infrastructure_ref: current.spec.infrastructure_ref.clone(),
        failure_domain: current.spec.failure_domain.clone(),
        version: current.spec.version.clone(),
        ..MachineSpec::default()
    };
    let mut machine = with_template(control_plane, cluster, Machine::new(&current.name_any(), spec));
    // With the uid, a Machine that was deleted in between is not made again.
    machine.metadata.uid = current.uid();
    if let Some(remediation) = current.annotations().get(FOR) {
        machine.annotations_mut().insert(FOR.to_owned(), remediation.clone());
    }
    machine
}

/// Returns what the control plane applies to a Machine that is updated in place. It stays in its failure domain.
pub(super) fn updated(control_plane: &KubeadmControlPlane, cluster: &str, current: &Machine) -> Machine {
    let mut machine = in_place(control_plane, cluster, current);
    machine.spec.version = Some(control_plane.spec.version.clone());
    machine
}

fn with_template(control_plane: &KubeadmControlPlane, cluster: &str, mut machine: Machine) -> Machine {
    let template = &control_plane.spec.machine_template.spec;
    machine.metadata.namespace = control_plane.namespace();
    machine.metadata.labels = Some(labels(control_plane, cluster));
    let mut annotations = annotations(control_plane);
    annotations.insert(HOOK.to_owned(), String::new());
    machine.metadata.annotations = Some(annotations);
    machine.metadata.owner_references = Some(vec![ownership::reference(control_plane, true)]);
    machine.spec.deletion = template.deletion.clone();
    machine.spec.taints = template.taints.clone();
    machine.spec.readiness_gates = Some(gates(control_plane));
    machine
}

/// Returns the readiness gates of a Machine: those of kubeadm's components, then the user's.
fn gates(control_plane: &KubeadmControlPlane) -> Vec<Gate> {
    let components = Replica::components(managed_etcd(control_plane));
    let ours = std::iter::once(NODE_LABELS).chain(components);
    let mut gates: Vec<Gate> =
        ours.map(|kind| Gate { condition_type: kind.to_owned(), polarity: None }).collect();
    let users = control_plane.spec.machine_template.spec.readiness_gates.iter().flatten();
    for gate in users {
        if !gates.iter().any(|known| known.condition_type == gate.condition_type) {
            gates.push(gate.clone());
        }
    }
    gates
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn control_plane() -> KubeadmControlPlane {
        let object = json!({
            "metadata": {"name": "cp", "namespace": "n", "uid": "u"},
            "spec": {"version": "v1.33.0", "machineTemplate": {
                "metadata": {"labels": {"a": "b"}, "annotations": {"c": "d"}},
                "spec": {
                    "infrastructureRef": {"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "OpenStackMachineTemplate", "name": "t"},
                    "readinessGates": [{"conditionType": "SchedulerPodHealthy"}, {"conditionType": "Mine"}],
                    "deletion": {"nodeDrainTimeoutSeconds": 60},
                },
            }},
        });
        serde_json::from_value(object).unwrap()
    }

    #[test]
    fn a_new_machine_is_as_upstream_makes_it() {
        let machine = machine(&control_plane(), "c", "cp-x", Some("az1".to_owned()));
        let gates = [
            "NodeKubeadmLabelsAndTaintsSet",
            "APIServerPodHealthy",
            "ControllerManagerPodHealthy",
            "SchedulerPodHealthy",
            "EtcdPodHealthy",
            "EtcdMemberHealthy",
            "Mine",
        ];
        let gates: Vec<_> = gates.iter().map(|gate| json!({"conditionType": gate})).collect();
        let expected = json!({
            "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Machine",
            "metadata": {
                "name": "cp-x", "namespace": "n",
                "labels": {
                    "a": "b", "cluster.x-k8s.io/cluster-name": "c", "cluster.x-k8s.io/control-plane": "",
                    "cluster.x-k8s.io/control-plane-name": "cp",
                },
                "annotations": {"c": "d", "pre-terminate.delete.hook.machine.cluster.x-k8s.io/kcp-cleanup": ""},
                "ownerReferences": [{
                    "apiVersion": "controlplane.cluster.x-k8s.io/v1beta2", "kind": "KubeadmControlPlane", "name": "cp",
                    "uid": "u", "controller": true, "blockOwnerDeletion": true,
                }],
            },
            "spec": {
                "clusterName": "c", "version": "v1.33.0", "failureDomain": "az1",
                "bootstrap": {"configRef": {"apiGroup": "bootstrap.cluster.x-k8s.io", "kind": "KubeadmConfig", "name": "cp-x"}},
                "infrastructureRef": {"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "OpenStackMachine", "name": "cp-x"},
                "deletion": {"nodeDrainTimeoutSeconds": 60}, "readinessGates": gates,
            },
        });
        assert_eq!(serde_json::to_value(&machine).unwrap(), expected);
    }

    #[test]
    fn a_machine_that_is_updated_in_place_gets_the_version_and_keeps_its_objects_and_failure_domain() {
        let mut current = machine(&control_plane(), "c", "cp-x", Some("az1".to_owned()));
        current.metadata.uid = Some("u".to_owned());
        current.spec.version = Some("v1.32.0".to_owned());
        let machine = updated(&control_plane(), "c", &current);
        assert_eq!(machine.spec.version.as_deref(), Some("v1.33.0"));
        assert_eq!(machine.spec.infrastructure_ref, current.spec.infrastructure_ref);
        assert_eq!((machine.spec.failure_domain.as_deref(), machine.uid()), (Some("az1"), current.uid()));
    }

    #[test]
    fn external_etcd_has_no_gates_and_a_machine_keeps_the_remediation_that_it_replaces_another_for() {
        let mut control_plane = control_plane();
        let etcd = json!({"clusterConfiguration": {"etcd": {"external": {"caFile": "", "certFile": "", "endpoints": [], "keyFile": ""}}}});
        control_plane.spec.kubeadm_config_spec = serde_json::from_value(etcd).unwrap();
        assert!(!gates(&control_plane).iter().any(|gate| gate.condition_type.starts_with("Etcd")));
        let mut current = Machine::default();
        current.annotations_mut().insert(FOR.to_owned(), "x".to_owned());
        let machine = in_place(&control_plane, "c", &current);
        assert_eq!(machine.annotations().get(FOR).map(String::as_str), Some("x"));
    }
}
