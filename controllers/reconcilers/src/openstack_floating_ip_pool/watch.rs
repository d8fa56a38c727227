//! Watches that trigger passes over an OpenStackFloatingIPPool.

use std::sync::Arc;

use apiserver_types::{Cluster, IPAddress, IPAddressClaim, OpenStackFloatingIPPool};
use controllers_runtime::{ControllerContext, ReconcileLoop};
use kube::{Api, ResourceExt};
use tokio_util::sync::CancellationToken;

use super::{OpenStackFloatingIPPoolReconciler, act, observe};
use crate::change_predicate::ChangePredicate;
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
    let (of_claims, of_addresses, of_clusters) = (controller.store(), controller.store(), controller.store());
    let claims = ClaimPredicate::default();
    let of_claim = move |claim: IPAddressClaim| match claims.is_relevant(&claim) {
        true => concerned(&of_claims, &claim, |pool: &OpenStackFloatingIPPool| act::is_of(&claim, pool)),
        false => Vec::new(),
    };
    // A pause ends, or a claim finds its Cluster.
    let clusters = ChangePredicate::default();
    let of_cluster = move |cluster: Cluster| match clusters.is_new(&cluster) {
        true => concerned(&of_clusters, &cluster, |_: &OpenStackFloatingIPPool| true),
        false => Vec::new(),
    };
    let of_address = move |address: IPAddress| {
        concerned(&of_addresses, &address, |pool: &OpenStackFloatingIPPool| {
            observe::names(&address.spec.pool_ref, &pool.name_any())
        })
    };
    let controller = controller
        .watches(Api::<Cluster>::all(client.clone()), of_cluster)
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

/// Predicate that drops those changes of claims that only their status has. The pool writes it, and an error in it may
/// differ in each pass, so that each pass would begin the next one.
#[derive(Debug, Default)]
struct ClaimPredicate {
    without_status: ChangePredicate,
    with_status: ChangePredicate,
}

impl ClaimPredicate {
    /// The last event of a claim that is gone has no change at all, and counts.
    fn is_relevant(&self, claim: &IPAddressClaim) -> bool {
        let is_new = self.without_status.is_new(claim);
        let has_changed = self.with_status.is_new_with(claim, &claim.status);
        is_new || !has_changed
    }
}

#[cfg(test)]
mod tests {
    use apiserver_types::{IPAddressClaimSpec, IPAddressClaimStatus};

    use super::*;

    #[test]
    fn a_claim_concerns_its_pool_unless_only_its_status_has_changed() {
        let mut claim = IPAddressClaim::new("c", IPAddressClaimSpec::default());
        claim.metadata.uid = Some("uid".to_owned());
        let predicate = ClaimPredicate::default();
        assert!(predicate.is_relevant(&claim), "it is new");
        claim.status = Some(IPAddressClaimStatus::default());
        assert!(!predicate.is_relevant(&claim), "the pool wrote its status");
        assert!(predicate.is_relevant(&claim), "it is gone");
        claim.annotations_mut().insert("cluster.x-k8s.io/paused".to_owned(), String::new());
        assert!(predicate.is_relevant(&claim));
    }
}
