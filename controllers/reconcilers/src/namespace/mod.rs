//! Namespace: empties one that is being deleted, where no host does it.
//!
//! In an order that lets everything be undone: Clusters take their Machines and networks with them,
//! then whatever else is left, and what others need for their undoing (credentials) last.

use std::sync::Arc;
use std::time::Duration;

use controllers_runtime::Trouble;
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{ApiResource, DeleteParams, DynamicObject, ListParams, PartialObjectMeta, PostParams};
use kube::runtime::controller::Controller;
use kube::runtime::watcher;
use kube::{Api, Client, ResourceExt};
use tokio_util::sync::CancellationToken;

use crate::drive;

/// What a namespace keeps until it is empty.
const FINALIZER: &str = "kubernetes";

/// Pause before looking whether a namespace is empty.
const WAITING: Duration = Duration::from_secs(2);

/// The last turn whose objects without owners go alongside earlier turns: a Cluster may wait for
/// them, and nothing of its own brings them down.
const ALONGSIDE: u8 = 1;

/// Empties namespaces.
pub struct NamespaceReconciler {
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
    pub fn new(client: Client, mut kinds: Vec<ApiResource>) -> Self {
        kinds.sort_by_key(|kind| turn(&kind.group, &kind.kind));
        Self { client, kinds }
    }

    /// One pass. Says when to look again.
    ///
    /// # Errors
    /// When the API fails.
    pub async fn reconcile(&self, namespace: &Namespace) -> Result<Option<Duration>, kube::Error> {
        let finalizers =
            namespace.spec.as_ref().and_then(|spec| spec.finalizers.as_deref()).unwrap_or_default();
        let ours = finalizers.iter().any(|finalizer| finalizer == FINALIZER);
        if namespace.metadata.deletion_timestamp.is_none() || !ours {
            return Ok(None);
        }
        match self.empty(namespace).await {
            Ok(true) => {}
            Ok(false) => return Ok(Some(WAITING)),
            Err(Trouble::Api(error)) => return Err(error),
            Err(_) => return Ok(Some(WAITING)),
        }
        let mut done = namespace.clone();
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

    /// Deletes what is left, turn by turn. Says whether nothing was.
    async fn empty(&self, namespace: &Namespace) -> Result<bool, Trouble> {
        let mut waiting_for = None;
        for kind in &self.kinds {
            let turn = turn(&kind.group, &kind.kind);
            let early = waiting_for.is_some_and(|waiting| waiting < turn);
            if early && turn > ALONGSIDE {
                break;
            }
            let api: Api<DynamicObject> =
                Api::namespaced_with(self.client.clone(), &namespace.name_any(), kind);
            let left = api.list_metadata(&ListParams::default()).await?;
            if left.items.is_empty() {
                continue;
            }
            waiting_for.get_or_insert(turn);
            if early {
                self.delete_ownerless(&api, &left.items).await?;
                continue;
            }
            if left.items.iter().any(|object| object.metadata.deletion_timestamp.is_none()) {
                tracing::info!(namespace = namespace.name_any(), kind = kind.kind, "emptying a namespace");
                api.delete_collection(&DeleteParams::background(), &ListParams::default()).await?;
            }
        }
        Ok(waiting_for.is_none())
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
///
/// Cancel safety: may be dropped at any moment; another call goes on where this one was.
pub async fn run(client: Client, kinds: Vec<ApiResource>, shutdown: CancellationToken) {
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let reconciler = Arc::new(NamespaceReconciler::new(client, kinds));
    let stream = Controller::new(namespaces, watcher::Config::default()).run(
        |namespace, reconciler: Arc<NamespaceReconciler>| async move {
            reconciler.reconcile(&namespace).await.map(drive::action)
        },
        |namespace, error, _| drive::failed(&*namespace, error),
        reconciler,
    );
    drive::until(stream, shutdown).await;
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
