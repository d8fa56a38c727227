//! Watches that trigger passes over an OpenStackMachine.

use std::sync::Arc;

use apiserver_types::{IPAddressClaim, Machine, MachineAddressType, OpenStackCluster, OpenStackMachine};
use controllers_runtime::{ControllerContext, ReconcileLoop};
use kube::runtime::reflector::{ObjectRef, Store};
use kube::{Api, ResourceExt};
use tokio_util::sync::CancellationToken;

use super::{OpenStackMachineReconciler, requirements, rest};
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
    let of_cluster = move |cluster: OpenStackCluster| {
        let label = cluster.labels().get(crate::CLUSTER_NAME_LABEL);
        let belongs = |machine: &OpenStackMachine| {
            label.is_some() && machine.labels().get(crate::CLUSTER_NAME_LABEL) == label
        };
        concerned(&known, &cluster, |machine| belongs(machine) && machine.spec.provider_id.is_none())
    };
    let reconciler = Arc::new(OpenStackMachineReconciler::new(context));
    let (known, waking) = (controller.store(), Arc::clone(&reconciler));
    let of_machine = move |machine: Machine| {
        let reference = &machine.spec.infrastructure_ref;
        let namespace = machine.namespace().unwrap_or_default();
        let object = (reference.kind == "OpenStackMachine")
            .then(|| ObjectRef::<OpenStackMachine>::new(&reference.name).within(&namespace));
        // The server may be lost. A machine at rest would look in some minutes only.
        if let Some(object) = object.as_ref().filter(|_| rest::has_lost_node(&machine)) {
            known.get(object).and_then(|it| it.uid()).iter().for_each(|uid| waking.requeue.forget(uid));
        }
        let heirs = endpoint_of_leaving(&known, &machine);
        heirs.iter().filter_map(|heir| heir.uid()).for_each(|uid| waking.requeue.forget(&uid));
        let heirs = heirs.iter().map(|heir| ObjectRef::from_obj(&**heir));
        object.into_iter().chain(heirs).collect::<Vec<_>>()
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
    let pass = move |object: Arc<OpenStackMachine>| {
        let reconciler = Arc::clone(&reconciler);
        async move { reconciler.reconcile(&object).await }
    };
    controller.run(pass, shutdown).await;
}

/// Returns the machines that may take over the API's floating IP from a control plane machine, or its Machine, that is
/// being deleted.
fn heirs<K: ResourceExt>(known: &Store<OpenStackMachine>, changed: &K) -> Vec<Arc<OpenStackMachine>> {
    let labels = changed.labels();
    if changed.meta().deletion_timestamp.is_none() || !labels.contains_key(crate::CONTROL_PLANE_LABEL) {
        return Vec::new();
    }
    let is_heir = |machine: &Arc<OpenStackMachine>| {
        machine.namespace() == changed.namespace()
            && machine.metadata.deletion_timestamp.is_none()
            && machine.labels().contains_key(crate::CONTROL_PLANE_LABEL)
            && machine.labels().get(crate::CLUSTER_NAME_LABEL) == labels.get(crate::CLUSTER_NAME_LABEL)
    };
    known.state().into_iter().filter(is_heir).collect()
}

/// Returns the machines that may take over the API's floating IP from a Machine that is being deleted. None if the Machine
/// has no floating IP, or if one of them has it already.
fn endpoint_of_leaving(known: &Store<OpenStackMachine>, leaving: &Machine) -> Vec<Arc<OpenStackMachine>> {
    let heirs = heirs(known, leaving);
    let has = |heir: &OpenStackMachine, address: &str| {
        let addresses = heir.status.as_ref().and_then(|status| status.addresses.as_deref());
        addresses.unwrap_or_default().iter().any(|it| it.address == address)
    };
    let status = leaving.status.as_ref();
    let mut floating = status.and_then(|status| status.addresses.as_deref()).unwrap_or_default().iter();
    let is_left = floating.any(|it| {
        it.kind == MachineAddressType::ExternalIP && !heirs.iter().any(|heir| has(heir, &it.address))
    });
    if is_left { heirs } else { Vec::new() }
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
