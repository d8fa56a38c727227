//! Watches that trigger passes over a MachineSet.

use std::sync::Arc;

use apiserver_types::maintenance_window::MAINTENANCE_WINDOW;
use apiserver_types::rollout_settings::REMEDIATION_MAX_IN_FLIGHT;
use apiserver_types::{Cluster, KubeadmControlPlane, Machine, MachineDeployment, MachineSet};
use controllers_runtime::{ControllerContext, ReconcileLoop};
use kube::runtime::reflector::{ObjectRef, Store};
use kube::{Api, ResourceExt};
use tokio_util::sync::CancellationToken;

use super::MachineSetReconciler;
use crate::change_predicate::ChangePredicate;
use crate::object_refs::concerned;
use crate::{CLUSTER_NAME_LABEL, ownership, selectors};

/// Number of sets that are reconciled at the same time; a pass is a few calls per Machine inside the process.
const CONCURRENCY: u16 = 16;

/// Reconciles until `shutdown`.
///
/// Cancel safety: may be dropped at any moment; the next call continues from what is stored.
pub(super) async fn run(context: ControllerContext, shutdown: CancellationToken) {
    let client = context.client.clone();
    let sets = Api::<MachineSet>::all(client.clone());
    let controller = ReconcileLoop::new(sets, CONCURRENCY, &context.queues, "machineset");
    let stores = [(); 4].map(|()| controller.store());
    let [of_machines, of_deployments, of_clusters, of_control_planes] = stores;
    let predicate = ChangePredicate::default();
    let of_cluster = move |cluster: Cluster| {
        // Only the spec of a Cluster, its pause, its limit of remediations and its window matter to its sets.
        let settings =
            [REMEDIATION_MAX_IN_FLIGHT, MAINTENANCE_WINDOW].map(|key| cluster.annotations().get(key));
        if !predicate.is_new_with(&cluster, &settings) {
            return Vec::new();
        }
        let name = cluster.name_any();
        concerned(&of_clusters, &cluster, |set| set.spec.cluster_name == name)
    };
    let of_deployment = move |deployment: MachineDeployment| {
        concerned(&of_deployments, &deployment, |set| ownership::is_owned(set, &deployment))
    };
    let controller = controller
        .watches(Api::<Machine>::all(client.clone()), move |machine| of_machine(&of_machines, &machine))
        .watches(Api::<MachineDeployment>::all(client.clone()), of_deployment)
        .watches(Api::<KubeadmControlPlane>::all(client.clone()), move |it| {
            of_control_plane(&of_control_planes, &it)
        })
        .watches(Api::<Cluster>::all(client), of_cluster);
    let reconciler = Arc::new(MachineSetReconciler::new(context));
    let pass = move |object: Arc<MachineSet>| {
        let reconciler = Arc::clone(&reconciler);
        async move { reconciler.reconcile(&object).await }
    };
    controller.run(pass, shutdown).await;
}

/// Returns the set that controls a Machine. For one without a controller, returns the sets that select it.
fn of_machine(store: &Store<MachineSet>, machine: &Machine) -> Vec<ObjectRef<MachineSet>> {
    let mut owners = machine.owner_references().iter();
    match owners.find(|owner| owner.controller == Some(true)) {
        Some(owner) => concerned(store, machine, |set| set.metadata.uid.as_ref() == Some(&owner.uid)),
        None => concerned(store, machine, |set| selectors::selects(&set.spec.selector, machine.labels())),
    }
}

/// Returns the sets that wait to create Machines until their control plane is stable.
fn of_control_plane(
    store: &Store<MachineSet>,
    control_plane: &KubeadmControlPlane,
) -> Vec<ObjectRef<MachineSet>> {
    let Some(cluster) = control_plane.labels().get(CLUSTER_NAME_LABEL) else { return Vec::new() };
    concerned(store, control_plane, |set| {
        let existing = set.status.as_ref().and_then(|status| status.replicas);
        set.spec.cluster_name == *cluster && existing != set.spec.replicas
    })
}
