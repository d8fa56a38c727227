//! Effects of the steps of the garbage collector.

use controllers_runtime::Severity;
use k8s_openapi::api::core::v1::ObjectReference;
use kube::api::{Api, ApiResource, DeleteParams, DynamicObject, Patch, PatchParams, Preconditions};
use kube::{Error, ResourceExt};
use serde_json::json;

use super::GarbageCollector;
use super::decide::Step;
use super::graph::{Graph, Node, Owner};

impl GarbageCollector {
    pub(super) async fn act(&self, graph: &Graph, step: &Step) -> Result<(), Error> {
        match step {
            Step::DeleteUnowned(uid, owners) => {
                let Some(node) = graph.get(uid) else { return Ok(()) };
                self.tell_of_those_elsewhere(graph, node, owners).await;
                for owner in owners {
                    if !self.is_gone(node, owner).await? {
                        return Ok(());
                    }
                }
                self.delete(node, as_it_says(node)).await
            }
            Step::StrikeAbsent(uid, owners) => {
                let Some(node) = graph.get(uid) else { return Ok(()) };
                self.tell_of_those_elsewhere(graph, node, owners).await;
                for owner in owners {
                    if self.is_gone(node, owner).await? {
                        self.strike(node, &owner.uid).await?;
                    }
                }
                Ok(())
            }
            Step::DeleteForOwner(uid, first) => match graph.get(uid) {
                Some(node) if *first => self.delete(node, DeleteParams::foreground()).await,
                Some(node) => self.delete(node, as_it_says(node)).await,
                None => Ok(()),
            },
            Step::Unblock(uid) => match graph.get(uid) {
                Some(node) => self.unblock(node).await,
                None => Ok(()),
            },
            Step::Strike(dependent, owner) => match graph.get(dependent) {
                Some(node) => self.strike(node, owner).await,
                None => Ok(()),
            },
            Step::RemoveFinalizer(uid, finalizer) => match graph.get(uid) {
                Some(node) => self.remove_finalizer(node, finalizer).await,
                None => Ok(()),
            },
        }
    }

    fn api(&self, node: &Node) -> Option<Api<DynamicObject>> {
        let kind = self.kinds.get(node.kind)?;
        Some(self.api_in(&kind.resource, node.namespace.as_deref()))
    }

    fn api_in(&self, kind: &ApiResource, namespace: Option<&str>) -> Api<DynamicObject> {
        match namespace {
            Some(namespace) => Api::namespaced_with(self.client.clone(), namespace, kind),
            None => Api::all_with(self.client.clone(), kind),
        }
    }

    /// Reads from the API whether an owner is absent. An owner of a kind that is not served here counts as
    /// present: it may be in a host cluster. So does an owner in a namespace of a dependent without one,
    /// because the reference does not name the namespace.
    async fn is_gone(&self, node: &Node, owner: &Owner) -> Result<bool, Error> {
        let Some(kind) = self.kinds.iter().find(|kind| owner.means(kind)) else { return Ok(false) };
        let namespace = node.namespace.as_deref().filter(|_| kind.namespaced);
        if kind.namespaced && namespace.is_none() {
            return Ok(false);
        }
        let found = self.api_in(&kind.resource, namespace).get_metadata_opt(&owner.name).await?;
        Ok(found.is_none_or(|found| found.uid().as_deref() != Some(owner.uid.as_str())))
    }

    /// Records an Event for a reference to an owner in another namespace.
    async fn tell_of_those_elsewhere(&self, graph: &Graph, node: &Node, owners: &[Owner]) {
        let Some(about) = self.reference(node) else { return };
        let namespace = node.namespace.as_deref().unwrap_or_default();
        for owner in owners.iter().filter(|owner| graph.is_owner_elsewhere(node, owner)) {
            let Owner { uid, api_version, kind, name, blocks: _ } = owner;
            let message = format!(
                "ownerRef [{api_version}/{kind}, namespace: {namespace}, name: {name}, uid: {uid}] \
                 does not exist in namespace {namespace:?}"
            );
            self.events.record_about(&about, Severity::Warning, "OwnerRefInvalidNamespace", &message).await;
        }
    }

    /// Records an Event for an object whose step the server refused, e.g. because the object is protected.
    pub(super) async fn report_refusal(&self, graph: &Graph, uid: &str, why: &str) {
        let Some(about) = graph.get(uid).and_then(|node| self.reference(node)) else { return };
        let message = format!("The garbage collector cannot delete it: {why}");
        self.events.record_about(&about, Severity::Warning, "FailedDelete", &message).await;
    }

    fn reference(&self, node: &Node) -> Option<ObjectReference> {
        let kind = self.kinds.get(node.kind)?;
        Some(ObjectReference {
            api_version: Some(kind.resource.api_version.clone()),
            kind: Some(kind.resource.kind.clone()),
            name: Some(node.name.clone()),
            namespace: node.namespace.clone(),
            uid: Some(node.uid.clone()),
            ..ObjectReference::default()
        })
    }

    /// Deletes this very object, as it was observed: another owner may take it over at the same moment, as bootstrap data of
    /// a new KubeadmConfig with the name of the old one. One that is absent, or was changed, is no error.
    async fn delete(&self, node: &Node, params: DeleteParams) -> Result<(), Error> {
        let Some(api) = self.api(node) else { return Ok(()) };
        let preconditions =
            Preconditions { uid: Some(node.uid.clone()), resource_version: node.revision.clone() };
        tracing::info!(object = %node.name, namespace = node.namespace, "deleting object: its owners are absent or wait for it");
        settled(api.delete(&node.name, &params.preconditions(preconditions)).await.map(|_| ()))
    }

    async fn strike(&self, node: &Node, owner: &str) -> Result<(), Error> {
        let Some(api) = self.api(node) else { return Ok(()) };
        let Some(current) = api.get_metadata_opt(&node.name).await? else { return Ok(()) };
        let left: Vec<_> =
            current.owner_references().iter().filter(|reference| reference.uid != owner).collect();
        let patch = json!({"metadata": {"uid": node.uid, "resourceVersion": current.resource_version(),
            "ownerReferences": left}});
        settled(
            api.patch_metadata(&node.name, &PatchParams::default(), &Patch::Merge(patch)).await.map(|_| ()),
        )
    }

    async fn unblock(&self, node: &Node) -> Result<(), Error> {
        let Some(api) = self.api(node) else { return Ok(()) };
        let Some(current) = api.get_metadata_opt(&node.name).await? else { return Ok(()) };
        let mut owners = current.owner_references().to_vec();
        for owner in &mut owners {
            owner.block_owner_deletion = owner.block_owner_deletion.map(|_| false);
        }
        let patch = json!({"metadata": {"uid": node.uid, "resourceVersion": current.resource_version(),
            "ownerReferences": owners}});
        settled(
            api.patch_metadata(&node.name, &PatchParams::default(), &Patch::Merge(patch)).await.map(|_| ()),
        )
    }

    async fn remove_finalizer(&self, node: &Node, finalizer: &str) -> Result<(), Error> {
        let Some(api) = self.api(node) else { return Ok(()) };
        let Some(current) = api.get_metadata_opt(&node.name).await? else { return Ok(()) };
        let left: Vec<&String> = current.finalizers().iter().filter(|name| *name != finalizer).collect();
        let patch = json!({"metadata": {"uid": node.uid, "resourceVersion": current.resource_version(),
            "finalizers": left}});
        settled(
            api.patch_metadata(&node.name, &PatchParams::default(), &Patch::Merge(patch)).await.map(|_| ()),
        )
    }
}

/// Returns the propagation policy that the object's finalizers request for its dependents.
fn as_it_says(node: &Node) -> DeleteParams {
    if node.has_finalizer("orphan") {
        DeleteParams::orphan()
    } else if node.has_finalizer("foregroundDeletion") {
        DeleteParams::foreground()
    } else {
        DeleteParams::background()
    }
}

/// Ignores an object that is absent or another one: its watch reports it, and the next step follows.
fn settled(result: Result<(), Error>) -> Result<(), Error> {
    match result {
        Err(Error::Api(status)) if status.code == 404 || status.code == 409 => Ok(()),
        other => other,
    }
}
