//! Watches that trigger passes over an OpenStackMachine.

use std::sync::Arc;

use apiserver_types::{IPAddressClaim, Machine, MachineAddressType, OpenStackCluster, OpenStackMachine};
use controllers_runtime::{ControllerContext, ReconcileLoop};
use kube::runtime::reflector::{ObjectRef, Store};
use kube::{Api, ResourceExt};
use tokio_util::sync::CancellationToken;

use super::{OpenStackMachineReconciler, requirements, rest};
use crate::credential_watch::{self, ClusterCredentials};
use crate::object_refs::concerned;
use crate::pre_terminate;

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
    let of_machine = move |machine: Machine| concerned_by_machine(&known, &waking, &machine);
    let (known, waking) = (controller.store(), Arc::clone(&reconciler));
    let of_machines = move |changed: OpenStackMachine| {
        let mut woken = heirs(&known, &changed);
        woken.extend(short_of_quota(&known, &changed));
        woken.iter().filter_map(|machine| machine.uid()).for_each(|uid| waking.requeue.forget(&uid));
        woken.iter().map(|machine| ObjectRef::from_obj(&**machine)).collect::<Vec<_>>()
    };
    let controller = controller
        .watches(Api::<IPAddressClaim>::all(client.clone()), |claim| waiting_for(&claim))
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

/// Returns the machines that a Machine concerns. Those at rest look at once.
fn concerned_by_machine(
    known: &Store<OpenStackMachine>,
    waking: &OpenStackMachineReconciler,
    machine: &Machine,
) -> Vec<ObjectRef<OpenStackMachine>> {
    let reference = &machine.spec.infrastructure_ref;
    let namespace = machine.namespace().unwrap_or_default();
    let object = (reference.kind == "OpenStackMachine")
        .then(|| ObjectRef::<OpenStackMachine>::new(&reference.name).within(&namespace));
    // The server may be lost. A machine at rest would look in some minutes only.
    if let Some(object) = object.as_ref().filter(|_| rest::has_lost_node(machine)) {
        known.get(object).and_then(|it| it.uid()).iter().for_each(|uid| waking.requeue.forget(uid));
    }
    // The control plane waits for the condition that the machine has left the load balancer.
    if let Some(object) = object.as_ref().filter(|_| pre_terminate::waits(machine)) {
        known.get(object).and_then(|it| it.uid()).iter().for_each(|uid| waking.requeue.forget(uid));
    }
    let heirs = endpoint_of_leaving(known, machine);
    heirs.iter().filter_map(|heir| heir.uid()).for_each(|uid| waking.requeue.forget(&uid));
    let heirs = heirs.iter().map(|heir| ObjectRef::from_obj(&**heir));
    object.into_iter().chain(heirs).collect()
}

/// Returns the machines that wait for the address of a claim.
fn waiting_for(claim: &IPAddressClaim) -> Vec<ObjectRef<OpenStackMachine>> {
    let namespace = claim.namespace().unwrap_or_default();
    let owners = claim.owner_references().iter().filter(|owner| owner.kind == "OpenStackMachine");
    owners.map(|owner| ObjectRef::<OpenStackMachine>::new(&owner.name).within(&namespace)).collect()
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
    let mut heirs = heirs(known, leaving);
    // Its own OpenStackMachine is deleted later.
    heirs.retain(|heir| heir.name_any() != leaving.spec.infrastructure_ref.name);
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

#[cfg(test)]
mod tests {
    use kube::runtime::watcher::Event;
    use serde_json::json;

    use super::*;

    fn store(machines: &[OpenStackMachine]) -> Store<OpenStackMachine> {
        let mut writer = kube::runtime::reflector::store::Writer::default();
        machines.iter().for_each(|machine| writer.apply_watcher_event(&Event::Apply(machine.clone())));
        writer.as_reader()
    }

    fn openstack_machine(name: &str, address: &str) -> OpenStackMachine {
        serde_json::from_value(json!({
            "metadata": {"name": name, "namespace": "n", "labels": labels()},
            "spec": {"flavor": {"id": "f"}, "image": {"id": "i"}},
            "status": {"addresses": [{"type": "ExternalIP", "address": address}]},
        }))
        .unwrap()
    }

    fn labels() -> serde_json::Value {
        json!({crate::CLUSTER_NAME_LABEL: "c", crate::CONTROL_PLANE_LABEL: ""})
    }

    #[test]
    fn a_machine_that_leaves_with_the_floating_ip_wakes_those_that_may_take_it() {
        let machine = |deleted: Option<&str>| -> Machine {
            serde_json::from_value(json!({
                "metadata": {"name": "a", "namespace": "n", "labels": labels(), "deletionTimestamp": deleted},
                "spec": {"clusterName": "c", "bootstrap": {}, "infrastructureRef": {
                    "apiGroup": "g", "kind": "OpenStackMachine", "name": "a"}},
                "status": {"addresses": [{"type": "ExternalIP", "address": "203.0.113.5"}]},
            }))
            .unwrap()
        };
        let woken = |known: &[OpenStackMachine], leaving: &Machine| {
            let woken = endpoint_of_leaving(&store(known), leaving);
            woken.iter().map(|it| it.name_any()).collect::<Vec<_>>()
        };
        let going = machine(Some("2026-11-27T00:00:00Z"));
        let (own, other) = (openstack_machine("a", "203.0.113.5"), openstack_machine("b", "203.0.113.6"));
        assert_eq!(woken(&[own.clone(), other.clone()], &going), ["b"]);
        assert!(woken(&[own.clone(), other], &machine(None)).is_empty(), "it stays");
        let heir = openstack_machine("b", "203.0.113.5");
        assert!(woken(&[own, heir], &going).is_empty(), "the move is over");
    }
}
