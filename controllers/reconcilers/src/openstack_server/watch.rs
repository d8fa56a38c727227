//! Watches that trigger passes over an OpenStackServer.

use std::sync::Arc;

use apiserver_types::{IPAddressClaim, OpenStackServer};
use controllers_runtime::{ControllerContext, ReconcileLoop};
use kube::runtime::reflector::ObjectRef;
use kube::{Api, ResourceExt};
use tokio_util::sync::CancellationToken;

use super::OpenStackServerReconciler;
use crate::credential_watch;

/// Number of servers that are reconciled at the same time. Clusters have one at most, for their bastion.
const CONCURRENCY: u16 = 16;

/// Reconciles until `shutdown`.
///
/// Cancel safety: may be dropped at any moment; the next call continues from what is stored.
pub(super) async fn run(context: ControllerContext, shutdown: CancellationToken) {
    let client = context.client.clone();
    let servers = Api::<OpenStackServer>::all(client.clone());
    let controller = ReconcileLoop::new(servers, CONCURRENCY, &context.queues, "openstackserver");
    // A server waits for the address of its claim.
    let of_claim = |claim: IPAddressClaim| {
        let namespace = claim.namespace().unwrap_or_default();
        let owners = claim.owner_references().iter().filter(|owner| owner.kind == "OpenStackServer");
        let references =
            owners.map(|owner| ObjectRef::<OpenStackServer>::new(&owner.name).within(&namespace));
        references.collect::<Vec<_>>()
    };
    let controller = controller.watches(Api::<IPAddressClaim>::all(client), of_claim);
    let shared = context.clone();
    let reconciler = Arc::new(OpenStackServerReconciler::new(context));
    let waking = Arc::clone(&reconciler);
    let wake = move |server: &OpenStackServer| waking.passes.wake(&server.uid().unwrap_or_default());
    let identity = |server: &OpenStackServer| Some(server.spec.identity_ref.clone());
    let controller = credential_watch::watch(controller, &shared, identity, wake);
    let pass = move |object: Arc<OpenStackServer>| {
        let reconciler = Arc::clone(&reconciler);
        async move { reconciler.reconcile(&object).await }
    };
    controller.run(pass, shutdown).await;
}
