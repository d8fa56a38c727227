//! Watches that trigger passes over a Machine.

use std::sync::Arc;

use apiserver_types::{
    BOOTSTRAP_REVISION, Cluster, INFRASTRUCTURE_REVISION, KubeadmConfig, Machine, MachineDeployment,
    MachineOperation, MachineSet, OpenStackMachine,
};
use controllers_runtime::{ControllerContext, ReconcileLoop};
use controllers_workload::WorkloadChange;
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
    let controller =
        ReconcileLoop::new(Api::<Machine>::all(client.clone()), CONCURRENCY, &context.queues, "machine");
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
        // A Cluster's status is computed from its Machines'; they need only its spec and its milestones.
        let milestones = cluster.status.as_ref().and_then(|status| status.initialization.clone());
        if !predicate.is_new_with(&cluster, &milestones) {
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

/// Returns the Machines that a change in a workload cluster concerns; without a change, all: some were missed.
fn of_workload(known: &Store<Machine>, change: Option<&WorkloadChange>) -> Vec<ObjectRef<Machine>> {
    let machines = known.state();
    let concerns = |machine: &Machine| match change {
        None => true,
        Some(
            WorkloadChange::Connected(key)
            | WorkloadChange::Disconnected(key)
            | WorkloadChange::ProbeIsOld(key),
        ) => super::node::cluster_key(machine) == *key,
        Some(WorkloadChange::Node { cluster, name, provider_id }) => {
            let status = machine.status.as_ref().and_then(|status| status.node_ref.as_ref());
            super::node::cluster_key(machine) == *cluster
                && (status.map_or_else(|| machine.name_any(), |node| node.name.clone()) == *name
                    || provider_id.is_some() && machine.spec.provider_id == *provider_id)
        }
    };
    machines
        .iter()
        .filter(|machine| concerns(machine))
        .map(|machine| ObjectRef::from_obj(&**machine))
        .collect()
}
