//! Namespace controller: empties a namespace that is being deleted, if no host cluster does it.
//!
//! The order lets every cloud resource be deleted: first Clusters, which take their Machines and networks
//! along, then the rest, and last the objects that others need for their deletion (credentials).

mod conditions;

use std::sync::Arc;
use std::time::Duration;

use controllers_runtime::{ControllerContext, ControllerSpec, PolicyRule, ReconcileLoop, Requeue};
use k8s_openapi::api::core::v1::{Namespace, NamespaceStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use kube::api::{ApiResource, DeleteParams, DynamicObject, ListParams, PartialObjectMeta, PostParams};
use kube::{Api, Client, ResourceExt};
use tokio_util::sync::CancellationToken;

use conditions::Remains;

/// Finalizer of a namespace that is not empty.
const FINALIZER: &str = "kubernetes";

/// Interval of a namespace that is not empty.
const WAITING: Duration = Duration::from_secs(2);

/// Number of namespaces that are reconciled at the same time: as many as upstream does.
const CONCURRENCY: u16 = 10;

/// Last stage whose objects without owners are deleted together with earlier stages: a Cluster may wait
/// for them, and does not delete them itself.
const ALONGSIDE: u8 = 1;

/// Specification of this controller.
pub(crate) const CONTROLLER: ControllerSpec = ControllerSpec {
    identity: "namespace-controller",
    rules: &[
        PolicyRule {
            groups: &["*"],
            resources: &["*"],
            verbs: &["get", "list", "watch", "delete", "deletecollection"],
        },
        PolicyRule {
            groups: &[""],
            resources: &["namespaces/finalize", "namespaces/status"],
            verbs: &["update"],
        },
    ],
    standalone_only: true,
    run: |context, shutdown| Box::pin(run(context, shutdown)),
};

/// Reconciler that empties namespaces.
struct NamespaceReconciler {
    client: Client,
    kinds: Vec<ApiResource>,
}

impl std::fmt::Debug for NamespaceReconciler {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NamespaceReconciler").field("kinds", &self.kinds.len()).finish_non_exhaustive()
    }
}

/// Returns the stage of a kind's deletion: kinds that delete others first, kinds that others need last.
fn stage(group: &str, kind: &str) -> u8 {
    match (group, kind) {
        ("cluster.x-k8s.io", "Cluster") => 0,
        (group, _) if group.ends_with("cluster.x-k8s.io") => 1,
        ("capstan.dev", _) => 2,
        _ => 3,
    }
}

impl NamespaceReconciler {
    /// Creates a reconciler over the namespaced kinds.
    fn new(client: Client, mut kinds: Vec<ApiResource>) -> Self {
        kinds.sort_by_key(|kind| stage(&kind.group, &kind.kind));
        Self { client, kinds }
    }

    /// Makes one pass. Returns when the next one is due.
    ///
    /// # Errors
    /// The API's own failure.
    async fn reconcile(&self, namespace: &Namespace) -> Result<Option<Duration>, kube::Error> {
        let finalizers =
            namespace.spec.as_ref().and_then(|spec| spec.finalizers.as_deref()).unwrap_or_default();
        if namespace.metadata.deletion_timestamp.is_none() || finalizers.is_empty() {
            return Ok(None);
        }
        let remains = self.empty(namespace).await;
        let Some(mut done) = self.report(namespace, &remains).await? else { return Ok(None) };
        if !remains.is_nothing() {
            return Ok(Some(WAITING));
        }
        if !finalizers.iter().any(|finalizer| finalizer == FINALIZER) {
            // Finalizers of others are left.
            return Ok(None);
        }
        done.metadata.managed_fields = None;
        if let Some(spec) = &mut done.spec {
            spec.finalizers = Some(finalizers.iter().filter(|it| *it != FINALIZER).cloned().collect());
        }
        let api: Api<Namespace> = Api::all(self.client.clone());
        match api.replace_subresource("finalize", &namespace.name_any(), &PostParams::default(), &done).await
        {
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
            result => result.map(|_| None),
        }
    }

    /// Writes the remaining objects into the namespace's conditions. `None` if the namespace does not exist any more.
    async fn report(
        &self,
        namespace: &Namespace,
        remains: &Remains,
    ) -> Result<Option<Namespace>, kube::Error> {
        let status = namespace.status.clone().unwrap_or_default();
        let old = status.conditions.as_deref().unwrap_or_default();
        let Some(conditions) = remains.conditions(old, &Time(Timestamp::now())) else {
            return Ok(Some(namespace.clone()));
        };
        let mut reported = namespace.clone();
        reported.metadata.managed_fields = None;
        reported.status = Some(NamespaceStatus { conditions: Some(conditions), ..status });
        let api: Api<Namespace> = Api::all(self.client.clone());
        match api.replace_status(&namespace.name_any(), &PostParams::default(), &reported).await {
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
            result => result.map(Some),
        }
    }

    /// Deletes objects, stage by stage, and returns those that remain.
    async fn empty(&self, namespace: &Namespace) -> Remains {
        let mut waiting_for = None;
        let mut remains = Remains::default();
        for kind in &self.kinds {
            let stage = stage(&kind.group, &kind.kind);
            let early = waiting_for.is_some_and(|waiting| waiting < stage);
            let api: Api<DynamicObject> =
                Api::namespaced_with(self.client.clone(), &namespace.name_any(), kind);
            let left = match self.delete_all(&api, kind, early, stage).await {
                Ok(left) => left,
                // Objects that others need must not be deleted before it is known whether these exist.
                Err(error) => {
                    tracing::warn!(%error, namespace = namespace.name_any(), kind = kind.kind, "cannot delete the objects of a kind in a namespace; retrying");
                    remains.failed(&error);
                    waiting_for.get_or_insert(stage);
                    continue;
                }
            };
            if !left.is_empty() {
                waiting_for.get_or_insert(stage);
            }
            remains.count(kind, &left);
        }
        remains
    }

    /// Deletes the objects of a kind, as far as their stage has come. Returns those that are left.
    async fn delete_all(
        &self,
        api: &Api<DynamicObject>,
        kind: &ApiResource,
        early: bool,
        stage: u8,
    ) -> Result<Vec<PartialObjectMeta<DynamicObject>>, kube::Error> {
        let left = api.list_metadata(&ListParams::default()).await?.items;
        let is_alive =
            |object: &PartialObjectMeta<DynamicObject>| object.metadata.deletion_timestamp.is_none();
        if !left.iter().any(is_alive) || (early && stage > ALONGSIDE) {
            return Ok(left);
        }
        if early {
            self.delete_ownerless(api, &left).await?;
        } else {
            tracing::info!(kind = kind.kind, "deleting objects of a namespace");
            api.delete_collection(&DeleteParams::background(), &ListParams::default()).await?;
        }
        Ok(api.list_metadata(&ListParams::default()).await?.items)
    }
}

impl NamespaceReconciler {
    /// Deletes objects without owners, while those with owners wait for their stage.
    async fn delete_ownerless(
        &self,
        api: &Api<DynamicObject>,
        objects: &[PartialObjectMeta<DynamicObject>],
    ) -> Result<(), kube::Error> {
        let staying = |object: &&PartialObjectMeta<DynamicObject>| {
            object.metadata.deletion_timestamp.is_none() && object.owner_references().is_empty()
        };
        for object in objects.iter().filter(staying) {
            match api.delete(&object.name_any(), &DeleteParams::background()).await {
                Err(kube::Error::Api(status)) if status.code == 404 => {}
                result => {
                    result?;
                }
            }
        }
        Ok(())
    }
}

/// Reconciles until `shutdown`.
async fn run(context: ControllerContext, shutdown: CancellationToken) {
    let namespaces: Api<Namespace> = Api::all(context.client.clone());
    let kinds = context.kinds.iter().filter(|kind| kind.namespaced).map(|kind| kind.resource.clone());
    let reconciler = Arc::new(NamespaceReconciler::new(context.client, kinds.collect()));
    let pass = move |namespace: Arc<Namespace>| {
        let reconciler = Arc::clone(&reconciler);
        async move { reconciler.reconcile(&namespace).await.map(Requeue::from) }
    };
    ReconcileLoop::new(namespaces, CONCURRENCY, &context.queues, "namespace").run(pass, shutdown).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_are_deleted_after_the_objects_that_use_them() {
        let order = [
            ("cluster.x-k8s.io", "Cluster"),
            ("cluster.x-k8s.io", "Machine"),
            ("capstan.dev", "MachineOperation"),
            ("", "Secret"),
        ];
        assert!(order.is_sorted_by_key(|(group, kind)| stage(group, kind)));
        assert!(stage("infrastructure.cluster.x-k8s.io", "OpenStackCluster") < stage("", "Secret"));
    }
}
