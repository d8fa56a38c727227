//! Watches that trigger passes over a ClusterResourceSet.

use std::sync::Arc;

use apiserver_types::{Cluster, ClusterResourceSet, ResourceSetKind};
use controllers_runtime::{ControllerContext, CredentialChange, ReconcileLoop};
use controllers_workload::{ClusterKey, WorkloadChange};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::PartialObjectMeta;
use kube::runtime::reflector::{ObjectRef, Store};
use kube::{Api, ResourceExt};
use tokio_util::sync::CancellationToken;

use super::ClusterResourceSetReconciler;
use crate::change_predicate::ChangePredicate;
use crate::object_refs::concerned;
use crate::{selectors, workload_changes};

/// Number of sets that are reconciled at the same time. Upstream's.
const CONCURRENCY: u16 = 10;

/// Reconciles until `shutdown`.
///
/// Cancel safety: may be dropped at any moment; the next call continues from what is stored.
pub(super) async fn run(context: ControllerContext, shutdown: CancellationToken) {
    let client = context.client.clone();
    let sets = Api::<ClusterResourceSet>::all(client.clone());
    let controller = ReconcileLoop::new(sets, CONCURRENCY, &context.queues, "clusterresourceset");
    let (of_clusters, of_maps) = (controller.store(), controller.store());
    let (of_secrets, of_workloads) = (controller.store(), controller.store());
    let changed = ChangePredicate::default();
    let controller = controller
        .watches(Api::<Cluster>::all(client.clone()), move |cluster| {
            // Only the labels of a Cluster and its deletion matter here.
            match changed.is_new_with(&cluster, cluster.labels()) {
                true => concerned(&of_clusters, &cluster, |set| {
                    selectors::selects(&set.spec.cluster_selector, cluster.labels())
                }),
                false => Vec::new(),
            }
        })
        .watches(Api::<PartialObjectMeta<ConfigMap>>::all(client), move |map| {
            let name = map.name_any();
            concerned(&of_maps, &map, |set| names(set, ResourceSetKind::ConfigMap, &name))
        })
        .triggered_by(context.secrets.changes(), move |change| of_secret(&of_secrets, &change))
        .triggered_by(workload_changes::stream(&context.workloads), move |change| match change {
            None => within(&of_workloads, None),
            Some(WorkloadChange::Connected(key)) => within(&of_workloads, Some(&key)),
            Some(_) => Vec::new(),
        });
    let reconciler = Arc::new(ClusterResourceSetReconciler::new(context));
    let pass = move |object: Arc<ClusterResourceSet>| {
        let reconciler = Arc::clone(&reconciler);
        async move { reconciler.reconcile(&object).await }
    };
    controller.run(pass, shutdown).await;
}

/// Returns true if a set names a resource.
fn names(set: &ClusterResourceSet, kind: ResourceSetKind, name: &str) -> bool {
    set.spec.resources.iter().any(|it| it.kind == kind && it.name == name)
}

fn of_secret(
    store: &Store<ClusterResourceSet>,
    change: &CredentialChange,
) -> Vec<ObjectRef<ClusterResourceSet>> {
    let CredentialChange::Secret(namespace, name) = change else { return Vec::new() };
    select(store, |set| {
        set.namespace().as_ref() == Some(namespace) && names(set, ResourceSetKind::Secret, name)
    })
}

/// Returns the sets in the namespace of a Cluster whose connection was established; without a Cluster, all.
fn within(
    store: &Store<ClusterResourceSet>,
    cluster: Option<&ClusterKey>,
) -> Vec<ObjectRef<ClusterResourceSet>> {
    select(store, |set| cluster.is_none_or(|key| set.namespace().as_ref() == Some(&key.namespace)))
}

fn select(
    store: &Store<ClusterResourceSet>,
    concerns: impl Fn(&ClusterResourceSet) -> bool,
) -> Vec<ObjectRef<ClusterResourceSet>> {
    let all = store.state();
    all.iter().filter(|set| concerns(set)).map(|set| ObjectRef::from_obj(&**set)).collect()
}
