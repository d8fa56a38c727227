//! Watches that trigger passes over a Machine.

use std::sync::Arc;

use apiserver_types::node_labels::NODE_LABELS;
use apiserver_types::{
    BOOTSTRAP_REVISION, Cluster, INFRASTRUCTURE_REVISION, KubeadmConfig, Machine, MachineDeployment,
    MachineOperation, MachineSet, MachineStatus, OpenStackMachine,
};
use controllers_runtime::{ControllerContext, ReconcileLoop};
use controllers_workload::{ClusterKey, WorkloadChange};
use kube::runtime::reflector::{ObjectRef, Store};
use kube::{Api, ResourceExt};
use tokio_util::sync::CancellationToken;

use super::MachineReconciler;
use super::operations::Updates;
use crate::change_predicate::ChangePredicate;
use crate::object_refs::concerned;
use crate::{machine_labels, ownership, workload_changes};

/// Number of Machines that are reconciled at the same time. Most passes are a few calls inside the process; a drain
/// waits for the workload cluster, and the Machines of one cluster take a tenth of the passes at most.
const CONCURRENCY: u16 = 200;

/// Reconciles until `shutdown`.
///
/// Cancel safety: may be dropped at any moment; the next call continues from what is stored.
pub(super) async fn run(context: ControllerContext, shutdown: CancellationToken) {
    let updates = Arc::new(Updates::default());
    let controller = triggers(&context, &updates);
    let reconciler = Arc::new(MachineReconciler::with(context, updates));
    let pass = move |object: Arc<Machine>| {
        let reconciler = Arc::clone(&reconciler);
        async move { reconciler.reconcile(&object).await }
    };
    controller.run(pass, shutdown).await;
}

fn triggers(context: &ControllerContext, updates: &Arc<Updates>) -> ReconcileLoop<Machine> {
    let client = context.client.clone();
    let machines = Api::<Machine>::all(client.clone());
    let controller = ReconcileLoop::reduced(machines, CONCURRENCY, &context.queues, "machine", reduce);
    let known = controller.store();
    let of_infrastructure = move |infrastructure: OpenStackMachine| {
        let name = infrastructure.name_any();
        concerned(&known, &infrastructure, |machine| machine.spec.infrastructure_ref.name == name)
    };
    let known = controller.store();
    let of_bootstrap = move |config: KubeadmConfig| {
        let name = config.name_any();
        let names =
            |machine: &Machine| machine.spec.bootstrap.config_ref.as_ref().is_some_and(|it| it.name == name);
        concerned(&known, &config, names)
    };
    let (known, predicate) = (controller.store(), ChangePredicate::default());
    let of_set = move |set: MachineSet| {
        // Its revision decides on a taint of the Nodes.
        if !predicate.is_new_with(&set, &set.annotations().get(machine_labels::REVISION)) {
            return Vec::new();
        }
        concerned(&known, &set, |machine| ownership::is_owned(machine, &set))
    };
    let (known, predicate) = (controller.store(), ChangePredicate::default());
    let of_deployment = move |deployment: MachineDeployment| {
        // Its revisions decide on the condition `UpToDate`.
        let revisions = [machine_labels::REVISION, BOOTSTRAP_REVISION, INFRASTRUCTURE_REVISION];
        let revisions = revisions.map(|key| deployment.annotations().get(key));
        if !predicate.is_new_with(&deployment, &revisions) {
            return Vec::new();
        }
        let name = deployment.name_any();
        let label = machine_labels::DEPLOYMENT_NAME;
        concerned(&known, &deployment, |machine: &Machine| machine.labels().get(label) == Some(&name))
    };
    let (known, predicate) = (controller.store(), ChangePredicate::default());
    let of_cluster = move |cluster: Cluster| {
        // A Cluster's status is computed from its Machines'; they need only its spec and its milestones, and the list of
        // labels for their Nodes.
        let milestones = cluster.status.as_ref().and_then(|status| status.initialization.clone());
        if !predicate.is_new_with(&cluster, &(milestones, cluster.annotations().get(NODE_LABELS))) {
            return Vec::new();
        }
        let name = cluster.name_any();
        concerned(&known, &cluster, |machine| machine.spec.cluster_name == name)
    };
    let updates = Arc::clone(updates);
    let of_operation = move |operation: MachineOperation| {
        let namespace = operation.namespace().unwrap_or_default();
        let machine = ObjectRef::new(&operation.spec.machine_name).within(&namespace);
        updates.note(&operation).then_some(machine)
    };
    let known = controller.store();
    controller
        .watches(Api::<MachineOperation>::all(client.clone()), of_operation)
        .watches(Api::<OpenStackMachine>::all(client.clone()), of_infrastructure)
        .watches(Api::<KubeadmConfig>::all(client.clone()), of_bootstrap)
        .watches(Api::<MachineSet>::all(client.clone()), of_set)
        .watches(Api::<MachineDeployment>::all(client.clone()), of_deployment)
        .watches(Api::<Cluster>::all(client), of_cluster)
        .triggered_by(workload_changes::stream(&context.workloads), move |change| {
            of_workload(&known, change.as_ref())
        })
}

/// Leaves the part of a Machine that the watches read. A pass reads the Machine from the API, and most of it is status.
fn reduce(machine: &mut Machine) {
    let node_ref = machine.status.take().and_then(|status| status.node_ref);
    machine.status =
        node_ref.map(|node_ref| MachineStatus { node_ref: Some(node_ref), ..MachineStatus::default() });
}

/// Returns the Machines that a change in a workload cluster concerns; without a change, all: some were missed.
fn of_workload(known: &Store<Machine>, change: Option<&WorkloadChange>) -> Vec<ObjectRef<Machine>> {
    let is_of = |machine: &Machine, key: &ClusterKey| {
        let namespace = machine.metadata.namespace.as_deref().unwrap_or_default();
        namespace == key.namespace && machine.spec.cluster_name == key.name
    };
    let concerns = |machine: &Machine| match change {
        None => true,
        Some(
            WorkloadChange::Connected(key)
            | WorkloadChange::Disconnected(key)
            | WorkloadChange::ProbeIsOld(key),
        ) => is_of(machine, key),
        Some(WorkloadChange::Node { cluster, name, provider_id }) => {
            let status = machine.status.as_ref().and_then(|status| status.node_ref.as_ref());
            is_of(machine, cluster)
                && (status.map_or_else(|| machine.name_any(), |node| node.name.clone()) == *name
                    || provider_id.is_some() && machine.spec.provider_id == *provider_id)
        }
    };
    known.state_filter(concerns).iter().map(|machine| ObjectRef::from_obj(&**machine)).collect()
}

#[cfg(test)]
mod tests {
    use kube::runtime::{reflector, watcher};
    use serde_json::json;

    use super::*;

    #[test]
    fn a_reduced_machine_is_found_by_its_node_and_its_cluster() {
        let object = json!({
            "metadata": {"name": "m", "namespace": "ns", "labels": {"cluster.x-k8s.io/cluster-name": "blue"}},
            "spec": {"clusterName": "blue", "bootstrap": {}, "providerID": "openstack:///1",
                "infrastructureRef": {"apiGroup": "g", "kind": "K", "name": "m"}},
            "status": {"nodeRef": {"name": "node"}, "phase": "Running", "conditions": [{"type": "Ready",
                "status": "True", "reason": "Ready", "message": "", "lastTransitionTime": "2026-11-26T10:00:00Z"}]},
        });
        let mut machine: Machine = serde_json::from_value(object).unwrap();
        let before = machine.clone();
        reduce(&mut machine);
        let status = machine.status.clone().unwrap();
        assert_eq!((status.conditions, status.phase), (None, None));
        assert_eq!((&machine.metadata, &machine.spec), (&before.metadata, &before.spec));
        let (store, mut writer) = reflector::store::<Machine>();
        writer.apply_watcher_event(&watcher::Event::Apply(machine));
        let key = |name: &str| ClusterKey { namespace: "ns".to_owned(), name: name.to_owned() };
        let node = |name: &str, provider_id: Option<&str>| WorkloadChange::Node {
            cluster: key("blue"),
            name: name.to_owned(),
            provider_id: provider_id.map(str::to_owned),
        };
        for (change, count) in [
            (node("node", None), 1),
            (node("other", Some("openstack:///1")), 1),
            (node("m", None), 0),
            (WorkloadChange::Connected(key("blue")), 1),
            (WorkloadChange::Connected(key("red")), 0),
        ] {
            assert_eq!(of_workload(&store, Some(&change)).len(), count, "{change:?}");
        }
    }

    #[test]
    fn a_machine_without_a_node_is_found_by_its_name() {
        let mut machine = Machine::default();
        machine.metadata.name = Some("m".to_owned());
        machine.metadata.namespace = Some("ns".to_owned());
        machine.status = Some(MachineStatus::default());
        reduce(&mut machine);
        assert_eq!(machine.status, None);
        let (store, mut writer) = reflector::store::<Machine>();
        writer.apply_watcher_event(&watcher::Event::Apply(machine.clone()));
        let cluster = super::super::node::cluster_key(&machine);
        let change = WorkloadChange::Node { cluster, name: "m".to_owned(), provider_id: None };
        assert_eq!(of_workload(&store, Some(&change)).len(), 1);
    }
}
