//! Watches that trigger passes over an OpenStackMachineTemplate.

use std::sync::Arc;

use apiserver_types::{OpenStackCluster, OpenStackMachineTemplate};
use controllers_runtime::{ControllerContext, ReconcileLoop};
use kube::{Api, ResourceExt};
use tokio_util::sync::CancellationToken;

use super::OpenStackMachineTemplateReconciler;
use crate::change_predicate::ChangePredicate;
use crate::credential_watch::{self, ClusterCredentials};
use crate::object_refs::concerned;

/// Number of templates that are reconciled at the same time: each makes a few calls to the cloud.
const CONCURRENCY: u16 = 4;

/// Reconciles until `shutdown`.
///
/// Cancel safety: may be dropped at any moment; the next call continues from what is stored.
pub(super) async fn run(context: ControllerContext, shutdown: CancellationToken) {
    let client = context.client.clone();
    let controller = ReconcileLoop::new(
        Api::<OpenStackMachineTemplate>::all(client.clone()),
        CONCURRENCY,
        &context.queues,
        "openstackmachinetemplate",
    );
    let known = controller.store();
    let predicate = ChangePredicate::default();
    // The credentials of a template are those of its cluster.
    let credentials = ClusterCredentials::default();
    let noted = credentials.clone();
    let of_cluster = move |cluster: OpenStackCluster| {
        noted.note(&cluster);
        if !predicate.is_new(&cluster) {
            return Vec::new();
        }
        let name = cluster.labels().get(crate::CLUSTER_NAME_LABEL).cloned();
        concerned(&known, &cluster, |template: &OpenStackMachineTemplate| {
            let mut owners = template.owner_references().iter();
            owners.any(|owner| owner.kind == "Cluster" && Some(&owner.name) == name.as_ref())
        })
    };
    let controller = controller.watches(Api::<OpenStackCluster>::all(client), of_cluster);
    let shared = context.clone();
    let reconciler = Arc::new(OpenStackMachineTemplateReconciler::new(context));
    let identity = move |template: &OpenStackMachineTemplate| {
        let own = template.spec.template.spec.identity_ref.clone();
        let owner = template.owner_references().iter().find(|owner| owner.kind == "Cluster");
        own.or_else(|| credentials.of(template, &owner?.name))
    };
    let waking = Arc::clone(&reconciler);
    let wake = move |template: &OpenStackMachineTemplate| {
        waking.requeue.forget(&template.uid().unwrap_or_default());
    };
    let controller = credential_watch::watch(controller, &shared, identity, wake);
    let pass = move |object: Arc<OpenStackMachineTemplate>| {
        let reconciler = Arc::clone(&reconciler);
        async move { reconciler.reconcile(&object).await }
    };
    controller.run(pass, shutdown).await;
}
