//! Watches that trigger passes over an OpenStackFloatingIPPool.

use std::sync::Arc;

use apiserver_types::{IPAddress, IPAddressClaim, OpenStackFloatingIPPool};
use controllers_runtime::{ControllerContext, ReconcileLoop};
use kube::{Api, ResourceExt};
use tokio_util::sync::CancellationToken;

use super::{OpenStackFloatingIPPoolReconciler, act, observe};
use crate::credential_watch;
use crate::object_refs::concerned;

/// Number of pools that are reconciled at the same time: each makes one call after another.
const CONCURRENCY: u16 = 4;

/// Reconciles until `shutdown`.
///
/// Cancel safety: may be dropped at any moment; the next call continues from what is stored.
pub(super) async fn run(context: ControllerContext, shutdown: CancellationToken) {
    let client = context.client.clone();
    let controller = ReconcileLoop::new(
        Api::<OpenStackFloatingIPPool>::all(client.clone()),
        CONCURRENCY,
        &context.queues,
        "openstackfloatingippool",
    );
    let (of_claims, of_addresses) = (controller.store(), controller.store());
    let of_claim = move |claim: IPAddressClaim| {
        concerned(&of_claims, &claim, |pool: &OpenStackFloatingIPPool| act::is_of(&claim, pool))
    };
    let of_address = move |address: IPAddress| {
        concerned(&of_addresses, &address, |pool: &OpenStackFloatingIPPool| {
            observe::names(&address.spec.pool_ref, &pool.name_any())
        })
    };
    let controller = controller
        .watches(Api::<IPAddressClaim>::all(client.clone()), of_claim)
        .watches(Api::<IPAddress>::all(client), of_address);
    let shared = context.clone();
    let reconciler = Arc::new(OpenStackFloatingIPPoolReconciler::new(context));
    let waking = Arc::clone(&reconciler);
    let wake = move |pool: &OpenStackFloatingIPPool| {
        waking.requeue.forget(&pool.uid().unwrap_or_default());
    };
    let identity = |pool: &OpenStackFloatingIPPool| Some(pool.spec.identity_ref.clone());
    let controller = credential_watch::watch(controller, &shared, identity, wake);
    let pass = move |object: Arc<OpenStackFloatingIPPool>| {
        let reconciler = Arc::clone(&reconciler);
        async move { reconciler.reconcile(&object).await }
    };
    controller.run(pass, shutdown).await;
}
