//! Watches that trigger passes over a Cluster.

use std::sync::Arc;

use apiserver_types::{
    Cluster, ClusterClass, KubeadmControlPlane, Machine, MachineDeployment, MachinePool, MachineSet,
    OpenStackCluster,
};
use controllers_runtime::{ControllerContext, ReconcileLoop};
use controllers_workload::WorkloadChange;
use kube::runtime::reflector::{ObjectRef, Store};
use kube::{Api, ResourceExt};
use tokio_util::sync::CancellationToken;

use super::{ClusterReconciler, connections};
use crate::object_refs::concerned;
use crate::{cluster_topology, ownership, workload_changes};

/// Number of Clusters that are reconciled at the same time; a pass is a few calls inside the process.
const CONCURRENCY: u16 = 16;

/// Reconciles until `shutdown`.
///
/// Cancel safety: may be dropped at any moment; the next call continues from what is stored.
pub(super) async fn run(context: ControllerContext, shutdown: CancellationToken) {
    let client = context.client.clone();
    let controller =
        ReconcileLoop::new(Api::<Cluster>::all(client.clone()), CONCURRENCY, &context.queues, "cluster");
    let known = controller.store();
    let of_infrastructure = move |infrastructure: OpenStackCluster| {
        let name = infrastructure.name_any();
        concerned(&known, &infrastructure, |cluster: &Cluster| {
            cluster.spec.infrastructure_ref.as_ref().is_some_and(|it| it.name == name)
        })
    };
    let of_machine = |machine: Machine| named(&machine.spec.cluster_name, machine.namespace());
    let known = controller.store();
    let of_control_plane = move |control_plane: KubeadmControlPlane| {
        let name = control_plane.name_any();
        concerned(&known, &control_plane, |cluster: &Cluster| {
            cluster.spec.control_plane_ref.as_ref().is_some_and(|it| it.name == name)
        })
    };
    let of_deployment =
        |deployment: MachineDeployment| named(&deployment.spec.cluster_name, deployment.namespace());
    let of_pool = |pool: MachinePool| named(&pool.spec.cluster_name, pool.namespace());
    // A MachineDeployment reports what its MachineSets do.
    let of_set = |set: MachineSet| {
        let is_alone = ownership::controller_of(&set).is_none();
        is_alone.then(|| named(&set.spec.cluster_name, set.namespace())).flatten()
    };
    let known = controller.store();
    let of_class = move |class: ClusterClass| {
        let has_its_gates = |cluster: &Cluster| {
            cluster.spec.availability_gates.is_none() && cluster_topology::uses(cluster, &class)
        };
        let clusters = known.state();
        let concerned = clusters.iter().filter(|cluster| has_its_gates(cluster));
        concerned.map(|cluster| ObjectRef::from_obj(&**cluster)).collect::<Vec<_>>()
    };
    let known = controller.store();
    let controller = controller
        .watches(Api::<OpenStackCluster>::all(client.clone()), of_infrastructure)
        .watches(Api::<KubeadmControlPlane>::all(client.clone()), of_control_plane)
        .watches(Api::<MachineDeployment>::all(client.clone()), of_deployment)
        .watches(Api::<MachineSet>::all(client.clone()), of_set)
        .watches(Api::<MachinePool>::all(client.clone()), of_pool)
        .watches(Api::<ClusterClass>::all(client.clone()), of_class)
        .watches(Api::<Machine>::all(client.clone()), of_machine)
        .triggered_by(workload_changes::stream(&context.workloads), move |change| {
            of_workload(&known, change)
        });
    let (known, workloads) = (controller.store(), Arc::clone(&context.workloads));
    let reconciler = Arc::new(ClusterReconciler::new(context));
    let pass = move |object: Arc<Cluster>| {
        let reconciler = Arc::clone(&reconciler);
        async move { reconciler.reconcile(&object).await }
    };
    tokio::select! {
        () = controller.run(pass, shutdown) => {}
        () = connections::end_without_cluster(&client, &workloads, &known) => {}
    }
}

/// Returns the Cluster that an object of the namespace names.
fn named(cluster: &str, namespace: Option<String>) -> Option<ObjectRef<Cluster>> {
    Some(ObjectRef::new(cluster).within(&namespace.unwrap_or_default()))
}

/// Returns the Clusters that a change of a connection concerns; without a change, all: some were missed.
fn of_workload(known: &Store<Cluster>, change: Option<WorkloadChange>) -> Vec<ObjectRef<Cluster>> {
    use WorkloadChange::{Connected, Disconnected, Node, ProbeIsOld};
    match change {
        None => known.state().iter().map(|cluster| ObjectRef::from_obj(&**cluster)).collect(),
        Some(Connected(key) | Disconnected(key) | ProbeIsOld(key)) => {
            vec![ObjectRef::<Cluster>::new(&key.name).within(&key.namespace)]
        }
        Some(Node { .. }) => Vec::new(),
    }
}
