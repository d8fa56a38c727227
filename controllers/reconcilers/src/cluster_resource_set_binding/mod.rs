//! ClusterResourceSetBinding reconciler: deletes the binding of a Cluster that goes.

use std::sync::Arc;

use apiserver_types::{Cluster, ClusterResourceSetBinding};
use controllers_runtime::{
    ControllerContext, ControllerSpec, PolicyRule, ReconcileError, ReconcileLoop, Requeue, paused,
};
use kube::api::{DeleteParams, Preconditions};
use kube::{Api, ResourceExt};
use tokio_util::sync::CancellationToken;

use crate::change_predicate::ChangePredicate;
use crate::object_refs::concerned;

/// Specification of this controller.
pub const CONTROLLER: ControllerSpec = ControllerSpec {
    identity: "clusterresourcesetbinding-controller",
    rules: &[
        PolicyRule {
            groups: &["addons.cluster.x-k8s.io"],
            resources: &["clusterresourcesetbindings"],
            verbs: &["get", "list", "watch", "delete"],
        },
        PolicyRule { groups: &["cluster.x-k8s.io"], resources: &["clusters"], verbs: PolicyRule::READ },
    ],
    run: |context, shutdown| Box::pin(run(context, shutdown)),
};

/// Annotation of a Cluster of a class that may be deleted now.
const OK_TO_DELETE: &str = "runtime.cluster.x-k8s.io/ok-to-delete";

/// Number of bindings that are reconciled at the same time. A pass makes at most three calls inside the process.
const CONCURRENCY: u16 = 10;

/// Interval after a failure of the API itself.
const AGAIN: std::time::Duration = std::time::Duration::from_secs(5);

/// Reconciler of ClusterResourceSetBindings.
#[derive(Debug)]
pub struct ClusterResourceSetBindingReconciler {
    context: ControllerContext,
}

impl ClusterResourceSetBindingReconciler {
    /// Creates a reconciler.
    pub fn new(context: ControllerContext) -> Self {
        Self { context }
    }

    /// Makes one pass. Returns when the next one is due.
    ///
    /// # Errors
    /// The API's own failure.
    pub async fn reconcile(&self, object: &ClusterResourceSetBinding) -> Result<Requeue, kube::Error> {
        Requeue::after(self.pass(object).await.map(|()| None), AGAIN)
    }

    async fn pass(&self, object: &ClusterResourceSetBinding) -> Result<(), ReconcileError> {
        let namespace = object.namespace().unwrap_or_default();
        let api: Api<ClusterResourceSetBinding> = Api::namespaced(self.context.client.clone(), &namespace);
        let Some(binding) = api.get_opt(&object.name_any()).await? else { return Ok(()) };
        let clusters: Api<Cluster> = Api::namespaced(self.context.client.clone(), &namespace);
        let cluster = clusters.get_opt(&binding.spec.cluster_name).await?;
        if !must_go(&binding, cluster.as_ref()) {
            return Ok(());
        }
        let preconditions = Preconditions { uid: binding.uid(), resource_version: None };
        match api.delete(&binding.name_any(), &DeleteParams::default().preconditions(preconditions)).await {
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
            result => result.map(drop).map_err(Into::into),
        }
    }
}

/// Returns true if a binding must be deleted. Extensions may still need the add-ons of a Cluster of a class, until it may
/// be deleted.
fn must_go(binding: &ClusterResourceSetBinding, cluster: Option<&Cluster>) -> bool {
    if binding.metadata.deletion_timestamp.is_some() || paused(binding, None) {
        return false;
    }
    let Some(cluster) = cluster else { return true };
    let may_go = cluster.spec.topology.is_none() || cluster.annotations().contains_key(OK_TO_DELETE);
    cluster.metadata.deletion_timestamp.is_some() && may_go
}

/// Reconciles until `shutdown`.
///
/// Cancel safety: may be dropped at any moment; the next call continues from what is stored.
async fn run(context: ControllerContext, shutdown: CancellationToken) {
    let client = context.client.clone();
    let bindings = Api::<ClusterResourceSetBinding>::all(client.clone());
    let controller = ReconcileLoop::new(bindings, CONCURRENCY, &context.queues, "clusterresourcesetbinding");
    let of_clusters = controller.store();
    let changed = ChangePredicate::default();
    let controller = controller.watches(Api::<Cluster>::all(client), move |cluster: Cluster| {
        let name = cluster.name_any();
        let may_go = cluster.annotations().contains_key(OK_TO_DELETE);
        let is_new = changed.is_new_with(&cluster, &may_go) || cluster.metadata.deletion_timestamp.is_some();
        concerned(&of_clusters, &cluster, |it| is_new && it.spec.cluster_name == name)
    });
    let reconciler = Arc::new(ClusterResourceSetBindingReconciler::new(context));
    let pass = move |object: Arc<ClusterResourceSetBinding>| {
        let reconciler = Arc::clone(&reconciler);
        async move { reconciler.reconcile(&object).await }
    };
    controller.run(pass, shutdown).await;
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn cluster(metadata: serde_json::Value, spec: serde_json::Value) -> Cluster {
        let kind = json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster"});
        let mut object = kind;
        object["metadata"] = metadata;
        object["spec"] = spec;
        serde_json::from_value(object).unwrap()
    }

    #[test]
    fn a_binding_goes_with_its_cluster_and_one_of_a_class_when_the_cluster_may_go() {
        let binding = ClusterResourceSetBinding::new("c", Default::default());
        let time = "2026-11-21T06:00:00Z";
        let topology = json!({"topology": {"classRef": {"name": "k"}, "version": "v1.33.0"}});
        let table = [
            (json!({"name": "c"}), json!({}), false),
            (json!({"name": "c", "deletionTimestamp": time}), json!({}), true),
            (json!({"name": "c", "deletionTimestamp": time}), topology.clone(), false),
            (
                json!({"name": "c", "deletionTimestamp": time, "annotations": {OK_TO_DELETE: ""}}),
                topology.clone(),
                true,
            ),
            (json!({"name": "c", "annotations": {OK_TO_DELETE: ""}}), topology, false),
        ];
        for (metadata, spec, expected) in table {
            let cluster = cluster(metadata, spec);
            assert_eq!(must_go(&binding, Some(&cluster)), expected, "{cluster:?}");
        }
        assert!(must_go(&binding, None), "the Cluster is gone");
        let mut paused = binding;
        paused.annotations_mut().insert("cluster.x-k8s.io/paused".to_owned(), String::new());
        assert!(!must_go(&paused, None));
    }
}
