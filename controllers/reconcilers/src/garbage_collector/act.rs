//! Carrying out one step.

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
                for owner in owners {
                    if !self.is_gone(node, owner).await? {
                        return Ok(());
                    }
                }
                self.delete(node, DeleteParams::background()).await
            }
            Step::StrikeAbsent(uid, owners) => {
                let Some(node) = graph.get(uid) else { return Ok(()) };
                for owner in owners {
                    if self.is_gone(node, owner).await? {
                        self.strike(node, &owner.uid).await?;
                    }
                }
                Ok(())
            }
            Step::DeleteForOwner(uid, first) => match graph.get(uid) {
                Some(node) if *first => self.delete(node, DeleteParams::foreground()).await,
                Some(node) => self.delete(node, DeleteParams::background()).await,
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
        Some(self.api_in(kind, node.namespace.as_deref()))
    }

    fn api_in(&self, kind: &ApiResource, namespace: Option<&str>) -> Api<DynamicObject> {
        match namespace {
            Some(namespace) => Api::namespaced_with(self.client.clone(), namespace, kind),
            None => Api::all_with(self.client.clone(), kind),
        }
    }

    /// Asks the server whether an owner is gone. Of a kind that is not served here nothing can be
    /// said: it may live in a host.
    async fn is_gone(&self, node: &Node, owner: &Owner) -> Result<bool, Error> {
        let kind =
            self.kinds.iter().find(|kind| kind.api_version == owner.api_version && kind.kind == owner.kind);
        let Some(kind) = kind else { return Ok(false) };
        let same_namespace = self.api_in(kind, node.namespace.as_deref());
        let found = match same_namespace.get_metadata_opt(&owner.name).await {
            // A namespaced path to a kind that has none: look where it is.
            Err(Error::Api(status)) if status.code == 404 => {
                self.api_in(kind, None).get_metadata_opt(&owner.name).await?
            }
            Ok(None) => self.api_in(kind, None).get_metadata_opt(&owner.name).await.unwrap_or_default(),
            other => other?,
        };
        Ok(found.is_none_or(|found| found.uid().as_deref() != Some(owner.uid.as_str())))
    }

    /// Deletes this very object. One that is gone, or was made anew, is as wanted.
    async fn delete(&self, node: &Node, params: DeleteParams) -> Result<(), Error> {
        let Some(api) = self.api(node) else { return Ok(()) };
        let preconditions = Preconditions { uid: Some(node.uid.clone()), resource_version: None };
        tracing::info!(object = %node.name, namespace = node.namespace, "deleting: its owners are gone or wait for it");
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

/// Gone, or no longer the object that was meant: the watch will tell, and the next look decides.
fn settled(result: Result<(), Error>) -> Result<(), Error> {
    match result {
        Err(Error::Api(status)) if status.code == 404 || status.code == 409 => Ok(()),
        other => other,
    }
}
