//! Watches that trigger passes over a MachineDeployment.

use std::sync::Arc;

use apiserver_types::maintenance_window::MAINTENANCE_WINDOW;
use apiserver_types::{
    Cluster, KubeadmConfigTemplate, MachineDeployment, MachineSet, OpenStackMachineTemplate,
};
use controllers_runtime::{ControllerContext, ReconcileLoop};
use kube::runtime::reflector::{ObjectRef, Store};
use kube::{Api, Resource, ResourceExt};
use tokio_util::sync::CancellationToken;

use super::MachineDeploymentReconciler;
use crate::change_predicate::ChangePredicate;
use crate::object_refs::{concerned, is_of};
use crate::{selectors, templates};

/// Number of MachineDeployments that are reconciled at the same time; a pass is a few calls per set inside the process.
const CONCURRENCY: u16 = 16;

/// Reconciles until `shutdown`.
///
/// Cancel safety: may be dropped at any moment; the next call continues from what is stored.
pub(super) async fn run(context: ControllerContext, shutdown: CancellationToken) {
    let client = context.client.clone();
    let deployments = Api::<MachineDeployment>::all(client.clone());
    let controller = ReconcileLoop::new(deployments, CONCURRENCY, &context.queues, "machinedeployment");
    let (of_sets, of_clusters) = (controller.store(), controller.store());
    let predicate = ChangePredicate::default();
    let of_cluster = move |cluster: Cluster| {
        // Only the spec of a Cluster, its pause and its maintenance window matter here.
        let window = cluster.annotations().get(MAINTENANCE_WINDOW);
        if !predicate.is_new_with(&cluster, &window) {
            return Vec::new();
        }
        let name = cluster.name_any();
        concerned(&of_clusters, &cluster, |it| it.spec.cluster_name == name)
    };
    let (of_servers, of_configs) = (of_template(controller.store()), of_template(controller.store()));
    // Machines need no watch: the status of a set, which is watched, changes with them.
    let controller = controller
        .watches(Api::<OpenStackMachineTemplate>::all(client.clone()), move |it| of_servers(&it))
        .watches(Api::<KubeadmConfigTemplate>::all(client.clone()), move |it| of_configs(&it))
        .watches(Api::<MachineSet>::all(client.clone()), move |set| of_set(&of_sets, &set))
        .watches(Api::<Cluster>::all(client), of_cluster);
    let reconciler = Arc::new(MachineDeploymentReconciler::new(context));
    let pass = move |object: Arc<MachineDeployment>| {
        let reconciler = Arc::clone(&reconciler);
        async move { reconciler.reconcile(&object).await }
    };
    controller.run(pass, shutdown).await;
}

/// Returns a function that returns the MachineDeployments which refer to an edited template.
fn of_template<K: Resource<DynamicType = ()>>(
    store: Store<MachineDeployment>,
) -> impl Fn(&K) -> Vec<ObjectRef<MachineDeployment>> {
    let predicate = ChangePredicate::default();
    move |template: &K| {
        // Their status changes more often.
        if !predicate.is_new(template) {
            return Vec::new();
        }
        let name = template.name_any();
        concerned(&store, template, |it| {
            let mut references = templates::references(&it.spec.template.spec);
            references.any(|(_, reference)| is_of::<K>(reference) && reference.name == name)
        })
    }
}

/// Returns the MachineDeployment that controls a set. For a set without a controller, returns those that select it.
fn of_set(store: &Store<MachineDeployment>, set: &MachineSet) -> Vec<ObjectRef<MachineDeployment>> {
    let mut owners = set.owner_references().iter();
    match owners.find(|owner| owner.controller == Some(true)) {
        Some(owner) => concerned(store, set, |it| it.metadata.uid.as_ref() == Some(&owner.uid)),
        None => concerned(store, set, |it| selectors::selects(&it.spec.selector, set.labels())),
    }
}
