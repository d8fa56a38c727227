//! What makes a Machine be looked at.

use std::sync::Arc;

use apiserver_types::{Cluster, Machine, OpenStackMachine};
use controllers_runtime::{ControllerContext, ReconcileLoop};
use kube::runtime::reflector::ObjectRef;
use kube::{Api, ResourceExt};
use tokio_util::sync::CancellationToken;

use super::MachineReconciler;
use crate::change_predicate::ChangePredicate;

/// Machines worked on at the same time; a pass is a few calls inside the process.
const CONCURRENCY: u16 = 32;

/// Reconciles until `shutdown`.
///
/// Cancel safety: may be dropped at any moment; another call goes on where this one was.
pub(super) async fn run(context: ControllerContext, shutdown: CancellationToken) {
    let client = context.client.clone();
    let controller =
        ReconcileLoop::new(Api::<Machine>::all(client.clone()), CONCURRENCY, &context.queues, "machine");
    let (known, known_too) = (controller.store(), controller.store());
    let of_infrastructure = move |infrastructure: OpenStackMachine| -> Vec<ObjectRef<Machine>> {
        let refers = |machine: &Arc<Machine>| {
            machine.namespace() == infrastructure.namespace()
                && machine.spec.infrastructure_ref.name == infrastructure.name_any()
        };
        let machines = known.state();
        machines
            .iter()
            .filter(|machine| refers(machine))
            .map(|machine| ObjectRef::from_obj(&**machine))
            .collect()
    };
    let news = ChangePredicate::default();
    let of_cluster = move |cluster: Cluster| -> Vec<ObjectRef<Machine>> {
        // A Cluster's status is made of its Machines'; what they need of it is in its spec.
        if !news.is_new(&cluster) {
            return Vec::new();
        }
        let belongs = |machine: &Arc<Machine>| {
            machine.namespace() == cluster.namespace() && machine.spec.cluster_name == cluster.name_any()
        };
        let machines = known_too.state();
        machines
            .iter()
            .filter(|machine| belongs(machine))
            .map(|machine| ObjectRef::from_obj(&**machine))
            .collect()
    };
    let controller = controller
        .watches(Api::<OpenStackMachine>::all(client.clone()), of_infrastructure)
        .watches(Api::<Cluster>::all(client), of_cluster);
    let reconciler = Arc::new(MachineReconciler::new(context));
    let pass = move |object: Arc<Machine>| {
        let reconciler = Arc::clone(&reconciler);
        async move { reconciler.reconcile(&object).await }
    };
    controller.run(pass, shutdown).await;
}
