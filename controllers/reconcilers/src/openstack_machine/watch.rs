//! Watches that trigger passes over an OpenStackMachine.

use std::sync::Arc;

use apiserver_types::{IPAddressClaim, Machine, OpenStackCluster, OpenStackMachine};
use controllers_runtime::{ControllerContext, ReconcileLoop};
use kube::runtime::reflector::{ObjectRef, Store};
use kube::{Api, ResourceExt};
use tokio_util::sync::CancellationToken;

use super::{OpenStackMachineReconciler, requirements, rest};
use crate::credential_watch::{self, ClusterCredentials};
use crate::object_refs::concerned;

/// Number of machines that are reconciled at the same time. Each makes one call after another, so this bounds the calls
/// in flight to the clouds.
const CONCURRENCY: u16 = 64;

/// Reconciles until `shutdown`.
///
/// Cancel safety: may be dropped at any moment; the next call continues from what is stored.
pub(super) async fn run(context: ControllerContext, shutdown: CancellationToken) {
    let client = context.client.clone();
    let controller = ReconcileLoop::new(
        Api::<OpenStackMachine>::all(client.clone()),
        CONCURRENCY,
        &context.queues,
        "openstackmachine",
    );
    let known = controller.store();
    // Machines wait for their cluster to become ready.
    let credentials = ClusterCredentials::default();
    let noted = credentials.clone();
    let of_cluster = move |cluster: OpenStackCluster| {
        noted.note(&cluster);
        let label = cluster.labels().get(crate::CLUSTER_NAME_LABEL);
        let belongs = |machine: &OpenStackMachine| {
            label.is_some() && machine.labels().get(crate::CLUSTER_NAME_LABEL) == label
        };
        concerned(&known, &cluster, |machine| belongs(machine) && machine.spec.provider_id.is_none())
    };
    let shared = context.clone();
    let reconciler = Arc::new(OpenStackMachineReconciler::new(context));
    let (known, waking) = (controller.store(), Arc::clone(&reconciler));
    let of_machine = move |machine: Machine| {
        let reference = &machine.spec.infrastructure_ref;
        let namespace = machine.namespace().unwrap_or_default();
        let object = (reference.kind == "OpenStackMachine")
            .then(|| ObjectRef::<OpenStackMachine>::new(&reference.name).within(&namespace))?;
        // The server may be lost. A machine at rest would look in some minutes only.
        if rest::has_lost_node(&machine) {
            known.get(&object).and_then(|it| it.uid()).iter().for_each(|uid| waking.requeue.forget(uid));
        }
        Some(object)
    };
    let (known, waking) = (controller.store(), Arc::clone(&reconciler));
    let of_machines = move |changed: OpenStackMachine| {
        let mut woken = heirs(&known, &changed);
        woken.extend(short_of_quota(&known, &changed));
        woken.iter().filter_map(|machine| machine.uid()).for_each(|uid| waking.requeue.forget(&uid));
        woken.iter().map(|machine| ObjectRef::from_obj(&**machine)).collect::<Vec<_>>()
    };
    // A machine waits for the address of its claim.
    let of_claim = |claim: IPAddressClaim| {
        let namespace = claim.namespace().unwrap_or_default();
        let owners = claim.owner_references().iter().filter(|owner| owner.kind == "OpenStackMachine");
        let references =
            owners.map(|owner| ObjectRef::<OpenStackMachine>::new(&owner.name).within(&namespace));
        references.collect::<Vec<_>>()
    };
    let controller = controller
        .watches(Api::<IPAddressClaim>::all(client.clone()), of_claim)
        .watches(Api::<Machine>::all(client.clone()), of_machine)
        .watches(Api::<OpenStackMachine>::all(client.clone()), of_machines)
        .watches(Api::<OpenStackCluster>::all(client), of_cluster);
    let identity = move |machine: &OpenStackMachine| {
        let cluster = machine.labels().get(crate::CLUSTER_NAME_LABEL).map(String::as_str);
        machine.spec.identity_ref.clone().or_else(|| credentials.of(machine, cluster?))
    };
    let waking = Arc::clone(&reconciler);
    let wake = move |machine: &OpenStackMachine| waking.requeue.forget(&machine.uid().unwrap_or_default());
    let controller = credential_watch::watch(controller, &shared, identity, wake);
    let pass = move |object: Arc<OpenStackMachine>| {
        let reconciler = Arc::clone(&reconciler);
        async move { reconciler.reconcile(&object).await }
    };
    controller.run(pass, shutdown).await;
}

/// Returns the machines that may take over the API's floating IP from a control plane machine that is being deleted.
fn heirs(known: &Store<OpenStackMachine>, changed: &OpenStackMachine) -> Vec<Arc<OpenStackMachine>> {
    let is_control_plane =
        |machine: &OpenStackMachine| machine.labels().contains_key(crate::CONTROL_PLANE_LABEL);
    if changed.metadata.deletion_timestamp.is_none() || !is_control_plane(changed) {
        return Vec::new();
    }
    let cluster = |machine: &OpenStackMachine| machine.labels().get(crate::CLUSTER_NAME_LABEL).cloned();
    let is_heir = |machine: &Arc<OpenStackMachine>| {
        machine.namespace() == changed.namespace()
            && machine.metadata.deletion_timestamp.is_none()
            && is_control_plane(machine)
            && cluster(machine) == cluster(changed)
    };
    known.state().into_iter().filter(is_heir).collect()
}

/// Returns the machines that wait for quota, if a machine is gone that may have had it.
fn short_of_quota(known: &Store<OpenStackMachine>, changed: &OpenStackMachine) -> Vec<Arc<OpenStackMachine>> {
    let is_gone = changed.metadata.deletion_timestamp.is_some()
        && !changed.finalizers().iter().any(|finalizer| finalizer == super::FINALIZER);
    if !is_gone {
        return Vec::new();
    }
    known.state().into_iter().filter(|machine| requirements::is_short_of_quota(machine)).collect()
}
