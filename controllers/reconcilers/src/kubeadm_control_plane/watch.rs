//! Watches that trigger passes over a control plane.

use std::sync::Arc;

use apiserver_types::{Cluster, KubeadmControlPlane, Machine, OpenStackMachineTemplate};
use controllers_bootstrap::certificates::Purpose;
use controllers_runtime::{ControllerContext, CredentialChange, ReconcileLoop};
use controllers_workload::WorkloadChange;
use kube::runtime::reflector::{ObjectRef, Store};
use kube::{Api, ResourceExt};
use tokio_util::sync::CancellationToken;

use super::KubeadmControlPlaneReconciler;
use super::certificates::configuration;
use crate::CONTROL_PLANE_LABEL;
use crate::change_predicate::ChangePredicate;
use crate::cluster_certificates::{kubeconfig_secret_name, secret_name};
use crate::object_refs::{concerned, is_of};
use crate::workload_changes;

/// Number of control planes that are reconciled at the same time. A pass waits for calls to a workload cluster.
const CONCURRENCY: u16 = 16;

/// Reconciles until `shutdown`.
///
/// Cancel safety: may be dropped at any moment; the next call continues from what is stored.
pub(super) async fn run(context: ControllerContext, shutdown: CancellationToken) {
    let client = context.client.clone();
    let api = Api::<KubeadmControlPlane>::all(client.clone());
    let controller = ReconcileLoop::new(api, CONCURRENCY, &context.queues, "kubeadmcontrolplane");
    let (known, known_too) = (controller.store(), controller.store());
    let (clusters, of_secrets) = (controller.store(), controller.store());
    let of_machine = move |machine: Machine| {
        let namespace = machine.namespace().unwrap_or_default();
        let owners = machine.owner_references().iter().filter(|owner| owner.kind == "KubeadmControlPlane");
        let owners =
            owners.map(|owner| ObjectRef::<KubeadmControlPlane>::new(&owner.name).within(&namespace));
        let adopters = adopters(&clusters, &machine);
        owners.chain(adopters).collect::<Vec<_>>()
    };
    let of_cluster = move |cluster: Cluster| {
        let reference = cluster.spec.control_plane_ref.as_ref();
        let name = reference.filter(|it| it.kind == "KubeadmControlPlane").map(|it| it.name.clone());
        concerned(&known, &cluster, |it: &KubeadmControlPlane| Some(it.name_any()) == name)
    };
    let (templates, predicate) = (controller.store(), ChangePredicate::default());
    let of_template = move |template: OpenStackMachineTemplate| {
        if !predicate.is_new(&template) {
            return Vec::new();
        }
        let name = template.name_any();
        concerned(&templates, &template, |it: &KubeadmControlPlane| {
            let reference = &it.spec.machine_template.spec.infrastructure_ref;
            is_of::<OpenStackMachineTemplate>(reference) && reference.name == name
        })
    };
    let changes = workload_changes::stream(&context.workloads);
    let controller = controller
        .watches(Api::<Machine>::all(client.clone()), of_machine)
        .watches(Api::<OpenStackMachineTemplate>::all(client.clone()), of_template)
        .watches(Api::<Cluster>::all(client), of_cluster)
        .triggered_by(changes, move |change| of_workload(&known_too, change.as_ref()))
        .triggered_by(context.secrets.changes(), move |change| of_secret(&of_secrets, &change));
    let reconciler = Arc::new(KubeadmControlPlaneReconciler::new(context));
    let pass = move |object: Arc<KubeadmControlPlane>| {
        let reconciler = Arc::clone(&reconciler);
        async move { reconciler.reconcile(&object).await }
    };
    controller.run(pass, shutdown).await;
}

/// Returns the control planes that adopt a Machine: it has the label of control plane Machines, and no controller.
fn adopters(store: &Store<KubeadmControlPlane>, machine: &Machine) -> Vec<ObjectRef<KubeadmControlPlane>> {
    let is_controlled = machine.owner_references().iter().any(|owner| owner.controller == Some(true));
    if is_controlled || !machine.labels().contains_key(CONTROL_PLANE_LABEL) {
        return Vec::new();
    }
    concerned(store, machine, |it: &KubeadmControlPlane| {
        clusters_of(it).any(|cluster| *cluster == machine.spec.cluster_name)
    })
}

/// Returns the names of the Clusters that own a control plane.
fn clusters_of(control_plane: &KubeadmControlPlane) -> impl Iterator<Item = &String> {
    let owners = control_plane.owner_references().iter();
    owners.filter(|owner| owner.kind == "Cluster").map(|owner| &owner.name)
}

/// Returns the control planes that make a Secret, or need it: the kubeconfig and the certificates of their Clusters.
fn of_secret(
    store: &Store<KubeadmControlPlane>,
    change: &CredentialChange,
) -> Vec<ObjectRef<KubeadmControlPlane>> {
    let CredentialChange::Secret(namespace, name) = change else { return Vec::new() };
    let is_of = |cluster: &str, purposes: &[Purpose]| {
        *name == kubeconfig_secret_name(cluster)
            || purposes.iter().any(|purpose| *name == secret_name(cluster, *purpose))
    };
    let concerns = |it: &KubeadmControlPlane| {
        let purposes = Purpose::all(configuration(it));
        it.namespace().as_ref() == Some(namespace) && clusters_of(it).any(|cluster| is_of(cluster, &purposes))
    };
    let all = store.state();
    let found = all.iter().filter(|it| concerns(it));
    found.map(|it| ObjectRef::from_obj(&**it)).collect()
}

/// Returns the control planes that a change of a connection concerns; without a change, all: some were missed.
fn of_workload(
    store: &Store<KubeadmControlPlane>,
    change: Option<&WorkloadChange>,
) -> Vec<ObjectRef<KubeadmControlPlane>> {
    use WorkloadChange::{Connected, Disconnected, Node, ProbeIsOld};
    match change {
        None => workload_changes::labelled(store, None),
        Some(Connected(key) | Disconnected(key) | ProbeIsOld(key)) => {
            workload_changes::labelled(store, Some(key))
        }
        // The Machine of the Node changes, too, and is watched.
        Some(Node { .. }) => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use kube::runtime::{reflector, watcher};
    use serde_json::json;

    use super::*;

    /// Such a Machine was adopted with the next resync, up to ten minutes later.
    #[test]
    fn a_control_plane_machine_without_a_controller_wakes_the_control_plane_of_its_cluster() {
        let (store, mut writer) = reflector::store::<KubeadmControlPlane>();
        for cluster in ["blue", "red"] {
            let metadata = json!({"name": cluster, "namespace": "n", "ownerReferences": [{
                "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster", "name": cluster, "uid": "u"}]});
            let metadata = serde_json::from_value(metadata).unwrap();
            let control_plane = KubeadmControlPlane { metadata, ..KubeadmControlPlane::default() };
            writer.apply_watcher_event(&watcher::Event::Apply(control_plane));
        }
        let machine = |label: &str, controller: bool| {
            let mut machine = Machine::default();
            machine.spec.cluster_name = "blue".to_owned();
            machine.metadata = serde_json::from_value(json!({
                "name": "m", "namespace": "n", "labels": {label: ""}, "ownerReferences": [{
                    "apiVersion": "v1", "kind": "Other", "name": "o", "uid": "u", "controller": controller}]
            }))
            .unwrap();
            machine
        };
        let found = |machine: Machine| adopters(&store, &machine);
        let blue = ObjectRef::<KubeadmControlPlane>::new("blue").within("n");
        assert_eq!(found(machine(CONTROL_PLANE_LABEL, false)), [blue]);
        assert_eq!(found(machine(CONTROL_PLANE_LABEL, true)), []);
        assert_eq!(found(machine("other", false)), []);
    }

    /// A kubeconfig that was deleted was made again with the next pass, which could be more than 40 seconds away.
    #[test]
    fn a_secret_wakes_the_control_plane_whose_cluster_it_belongs_to() {
        let (store, mut writer) = reflector::store::<KubeadmControlPlane>();
        for (namespace, cluster) in [("n", "blue"), ("n", "red"), ("other", "blue")] {
            let metadata = json!({"name": format!("{cluster}-cp"), "namespace": namespace, "ownerReferences": [{
                "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster", "name": cluster, "uid": "u"}]});
            let metadata = serde_json::from_value(metadata).unwrap();
            let control_plane = KubeadmControlPlane { metadata, ..KubeadmControlPlane::default() };
            writer.apply_watcher_event(&watcher::Event::Apply(control_plane));
        }
        let found =
            |name: &str| of_secret(&store, &CredentialChange::Secret("n".to_owned(), name.to_owned()));
        let blue = [ObjectRef::<KubeadmControlPlane>::new("blue-cp").within("n")];
        for name in ["blue-kubeconfig", "blue-ca", "blue-etcd", "blue-sa"] {
            assert_eq!(found(name), blue, "{name}");
        }
        assert_eq!(found("blue-md-0-7x2kq"), [], "bootstrap data");
        assert_eq!(of_secret(&store, &CredentialChange::Namespace("n".to_owned())), []);
    }
}
