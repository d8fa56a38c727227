//! Watches that trigger passes over the topology of a Cluster.

use std::sync::Arc;

use apiserver_types::{
    Cluster, ClusterClass, KubeadmControlPlane, MachineDeployment, MachineHealthCheck, OpenStackCluster,
};
use controllers_runtime::{ControllerContext, ReconcileLoop};
use kube::runtime::reflector::ObjectRef;
use kube::{Api, Resource, ResourceExt};
use tokio_util::sync::CancellationToken;

use super::{ClusterTopologyReconciler, OWNED};
use crate::CLUSTER_NAME_LABEL;

/// Number of Clusters that are reconciled at the same time; a pass is a few calls per object inside the process.
const CONCURRENCY: u16 = 10;

/// Reconciles until `shutdown`.
///
/// Cancel safety: may be dropped at any moment; the next call continues from what is stored.
pub(super) async fn run(context: ControllerContext, shutdown: CancellationToken) {
    let client = context.client.clone();
    let clusters = Api::<Cluster>::all(client.clone());
    let controller = ReconcileLoop::new(clusters, CONCURRENCY, &context.queues, "cluster_topology");
    let known = controller.store();
    let of_class = move |class: ClusterClass| {
        let clusters = known.state();
        let users = clusters.iter().filter(|cluster| uses(cluster, &class));
        users.map(|cluster| ObjectRef::from_obj(&**cluster)).collect::<Vec<_>>()
    };
    let controller = controller
        .watches(Api::<ClusterClass>::all(client.clone()), of_class)
        .watches(Api::<OpenStackCluster>::all(client.clone()), of_owned)
        .watches(Api::<KubeadmControlPlane>::all(client.clone()), of_owned)
        .watches(Api::<MachineHealthCheck>::all(client.clone()), of_owned)
        .watches(Api::<MachineDeployment>::all(client), of_owned);
    let reconciler = Arc::new(ClusterTopologyReconciler::new(context));
    let pass = move |object: Arc<Cluster>| {
        let reconciler = Arc::clone(&reconciler);
        async move { reconciler.reconcile(&object).await }
    };
    controller.run(pass, shutdown).await;
}

/// Returns the Cluster of an object that a topology has made.
#[allow(clippy::needless_pass_by_value, reason = "the watch hands over its objects")]
fn of_owned<K: Resource>(object: K) -> Option<ObjectRef<Cluster>> {
    let labels = object.labels();
    let name = labels.get(CLUSTER_NAME_LABEL).filter(|_| labels.contains_key(OWNED))?;
    Some(ObjectRef::new(name).within(&object.namespace().unwrap_or_default()))
}

/// Returns true if a Cluster is of a class.
pub(crate) fn uses(cluster: &Cluster, class: &ClusterClass) -> bool {
    let Some(reference) = cluster.spec.topology.as_ref().map(|topology| &topology.class_ref) else {
        return false;
    };
    let namespace = reference.namespace.clone().or_else(|| cluster.namespace());
    reference.name == class.name_any() && namespace == class.namespace()
}
