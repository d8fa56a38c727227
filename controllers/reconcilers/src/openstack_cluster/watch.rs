//! Watches that trigger passes over an OpenStackCluster.

use std::sync::Arc;

use apiserver_types::{Cluster, Machine, OpenStackCluster, OpenStackMachine, OpenStackServer};
use controllers_runtime::{ControllerContext, ReconcileLoop};
use kube::runtime::reflector::ObjectRef;
use kube::{Api, ResourceExt};
use tokio_util::sync::CancellationToken;

use super::{OpenStackClusterReconciler, has_load_balancer};
use crate::object_refs::concerned;
use crate::{credential_watch, names};

/// Number of clusters that are reconciled at the same time: each makes one call after another.
const CONCURRENCY: u16 = 16;

/// Reconciles until `shutdown`.
///
/// Cancel safety: may be dropped at any moment; the next call continues from what is stored.
pub(super) async fn run(context: ControllerContext, shutdown: CancellationToken) {
    let client = context.client.clone();
    let clusters: Api<Cluster> = Api::all(client.clone());
    let controller = ReconcileLoop::new(
        Api::<OpenStackCluster>::all(client.clone()),
        CONCURRENCY,
        &context.queues,
        "openstackcluster",
    );
    let (of_machines, of_servers) = (controller.store(), controller.store());
    let controller = controller.watches(clusters, |cluster: Cluster| {
        let reference = cluster.spec.infrastructure_ref.as_ref().filter(|it| it.kind == "OpenStackCluster");
        let namespace = cluster.namespace().unwrap_or_default();
        reference.map(|it| ObjectRef::<OpenStackCluster>::new(&it.name).within(&namespace))
    });
    // Control plane machines are members of the load balancer.
    let controller = controller
        .watches(Api::<Machine>::all(client.clone()), move |machine: Machine| {
            let serves = machine.labels().contains_key(names::CONTROL_PLANE_LABEL);
            concerned(&of_machines, &machine, |cluster| serves && is_balanced(cluster, &machine))
        })
        .watches(Api::<OpenStackMachine>::all(client.clone()), move |machine: OpenStackMachine| {
            concerned(&of_servers, &machine, |cluster| is_balanced(cluster, &machine))
        });
    // A bastion is an OpenStackServer that the cluster owns.
    let controller = controller.watches(Api::<OpenStackServer>::all(client), |server: OpenStackServer| {
        let namespace = server.namespace().unwrap_or_default();
        let owner = server.owner_references().iter().find(|owner| owner.kind == "OpenStackCluster");
        owner.map(|owner| ObjectRef::<OpenStackCluster>::new(&owner.name).within(&namespace))
    });
    let shared = context.clone();
    let reconciler = Arc::new(OpenStackClusterReconciler::new(context));
    let waking = Arc::clone(&reconciler);
    // A cluster that was refused would try again in a minute, and one that is settled in some minutes.
    let wake = move |cluster: &OpenStackCluster| {
        waking.requeue.forget(&cluster.uid().unwrap_or_default());
    };
    let identity = |cluster: &OpenStackCluster| Some(cluster.spec.identity_ref.clone());
    let controller = credential_watch::watch(controller, &shared, identity, wake);
    let pass = move |object: Arc<OpenStackCluster>| {
        let reconciler = Arc::clone(&reconciler);
        async move { reconciler.reconcile(&object).await }
    };
    controller.run(pass, shutdown).await;
}

/// Returns true if a machine belongs to a cluster with a load balancer.
fn is_balanced(cluster: &OpenStackCluster, machine: &impl ResourceExt) -> bool {
    let label =
        |labels: &std::collections::BTreeMap<String, String>| labels.get(crate::CLUSTER_NAME_LABEL).cloned();
    let name = label(cluster.labels());
    has_load_balancer(cluster) && name.is_some() && name == label(machine.labels())
}
