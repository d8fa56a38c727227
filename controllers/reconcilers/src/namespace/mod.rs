//! Namespace: empties one that is being deleted, where no host does it.
//!
//! In an order that lets everything be undone: Clusters take their Machines and networks with them,
//! then whatever else is left, and what others need for their undoing (credentials) last.

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

/// What a namespace keeps until it is empty.
const FINALIZER: &str = "kubernetes";

/// Pause before looking whether a namespace is empty.
const WAITING: Duration = Duration::from_secs(2);

/// Namespaces worked on at the same time: as many as upstream does.
const CONCURRENCY: u16 = 10;

/// The last turn whose objects without owners go alongside earlier turns: a Cluster may wait for
/// them, and nothing of its own brings them down.
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

/// Empties namespaces.
struct NamespaceReconciler {
    client: Client,
    kinds: Vec<ApiResource>,
}

impl std::fmt::Debug for NamespaceReconciler {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NamespaceReconciler").field("kinds", &self.kinds.len()).finish_non_exhaustive()
    }
}

/// When a kind's turn comes: what brings others down first, what others need last.
fn turn(group: &str, kind: &str) -> u8 {
    match (group, kind) {
        ("cluster.x-k8s.io", "Cluster") => 0,
        (group, _) if group.ends_with("cluster.x-k8s.io") => 1,
        ("capstan.dev", _) => 2,
        _ => 3,
    }
}

impl NamespaceReconciler {
    /// A reconciler over the namespaced kinds.
    fn new(client: Client, mut kinds: Vec<ApiResource>) -> Self {
        kinds.sort_by_key(|kind| turn(&kind.group, &kind.kind));
        Self { client, kinds }
    }

    /// One pass. Says when to look again.
    ///
    /// # Errors
    /// When the API fails.
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
            // Somebody else's are left.
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

    /// Writes what is left into the namespace's conditions. `None` when it is gone.
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
        let mut told = namespace.clone();
        told.metadata.managed_fields = None;
        told.status = Some(NamespaceStatus { conditions: Some(conditions), ..status });
        let api: Api<Namespace> = Api::all(self.client.clone());
        match api.replace_status(&namespace.name_any(), &PostParams::default(), &told).await {
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
            result => result.map(Some),
        }
    }

    /// Deletes what is left, turn by turn, and says what is left then.
    async fn empty(&self, namespace: &Namespace) -> Remains {
        let mut waiting_for = None;
        let mut remains = Remains::default();
        for kind in &self.kinds {
            let turn = turn(&kind.group, &kind.kind);
            let early = waiting_for.is_some_and(|waiting| waiting < turn);
            let api: Api<DynamicObject> =
                Api::namespaced_with(self.client.clone(), &namespace.name_any(), kind);
            let left = match self.delete_all(&api, kind, early, turn).await {
                Ok(left) => left,
                // What others wait for must not go before it is known whether they are there.
                Err(error) => {
                    tracing::warn!(%error, namespace = namespace.name_any(), kind = kind.kind, "not emptied");
                    remains.failed(&error);
                    waiting_for.get_or_insert(turn);
                    continue;
                }
            };
            if !left.is_empty() {
                waiting_for.get_or_insert(turn);
            }
            remains.count(kind, &left);
        }
        remains
    }

    /// Deletes the objects of a kind, as far as it is their turn. Says which are left.
    async fn delete_all(
        &self,
        api: &Api<DynamicObject>,
        kind: &ApiResource,
        early: bool,
        turn: u8,
    ) -> Result<Vec<PartialObjectMeta<DynamicObject>>, kube::Error> {
        let left = api.list_metadata(&ListParams::default()).await?.items;
        let is_alive =
            |object: &PartialObjectMeta<DynamicObject>| object.metadata.deletion_timestamp.is_none();
        if !left.iter().any(is_alive) || (early && turn > ALONGSIDE) {
            return Ok(left);
        }
        if early {
            self.delete_ownerless(api, &left).await?;
        } else {
            tracing::info!(kind = kind.kind, "emptying a namespace");
            api.delete_collection(&DeleteParams::background(), &ListParams::default()).await?;
        }
        Ok(api.list_metadata(&ListParams::default()).await?.items)
    }
}

impl NamespaceReconciler {
    /// Deletes what nobody will take along, while others still wait for their turn.
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
    fn credentials_go_after_what_needs_them() {
        let order = [
            ("cluster.x-k8s.io", "Cluster"),
            ("cluster.x-k8s.io", "Machine"),
            ("capstan.dev", "MachineOperation"),
            ("", "Secret"),
        ];
        assert!(order.is_sorted_by_key(|(group, kind)| turn(group, kind)));
        assert!(turn("infrastructure.cluster.x-k8s.io", "OpenStackCluster") < turn("", "Secret"));
    }
}
