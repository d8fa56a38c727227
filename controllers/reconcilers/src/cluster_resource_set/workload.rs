//! Objects in a workload cluster: applied, looked at, deleted. The kinds are those that the cluster serves.

use std::collections::HashMap;

use controllers_workload::{describe, found};
use kube::api::{ApiResource, DeleteParams, Patch, PatchParams, PostParams};
use kube::core::DynamicObject;
use kube::{Api, Client, ResourceExt};

use super::notes::AppliedObject;

/// Field manager of the objects.
const MANAGER: &str = "capstan-clusterresourceset";

/// Namespace of objects that name none, as kubectl has it.
const DEFAULT_NAMESPACE: &str = "default";

/// Kinds that pruning keeps, because other objects and data go with them.
const KEPT: [&str; 4] =
    ["Namespace", "CustomResourceDefinition", "PersistentVolume", "PersistentVolumeClaim"];

/// Way of applying an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Method {
    /// An object that exists stays as it is.
    Create,
    /// An object that exists gets a merge patch.
    Merge,
    /// Server-side apply. Conflicts with other field managers are errors.
    Apply,
}

/// A workload cluster.
pub(super) struct Workload {
    client: Client,
    /// Kinds that were looked up: by apiVersion and kind, with `true` for those in namespaces.
    kinds: HashMap<(String, String), (ApiResource, bool)>,
}

impl Workload {
    pub(super) fn new(client: Client) -> Self {
        Self { client, kinds: HashMap::new() }
    }

    /// Applies objects one after the other. One failure does not stop the others. Returns the failures.
    pub(super) async fn apply(&mut self, objects: &[DynamicObject], method: Method) -> Vec<String> {
        let mut failures = Vec::new();
        for object in objects {
            if let Err(error) = self.apply_one(object, method).await {
                failures.push(format!("{}: {error}", shown(&identity(object))));
            }
        }
        failures
    }

    async fn apply_one(&mut self, object: &DynamicObject, method: Method) -> Result<(), String> {
        let api = self.api(&identity(object)).await?;
        let name = object.name_any();
        let words = |error: kube::Error| describe(&error);
        let params = PatchParams { field_manager: Some(MANAGER.to_owned()), ..PatchParams::default() };
        if method == Method::Apply {
            api.patch(&name, &PatchParams::apply(MANAGER), &Patch::Apply(object)).await.map_err(words)?;
            return Ok(());
        }
        let exists = method == Method::Merge
            && found(api.get(&name).await).map_err(|error| error.to_string())?.is_some();
        if !exists {
            let params = PostParams { field_manager: Some(MANAGER.to_owned()), ..PostParams::default() };
            match api.create(&params, object).await {
                Err(kube::Error::Api(status)) if status.reason == "AlreadyExists" => {}
                result => return result.map(|_| ()).map_err(words),
            }
            if method == Method::Create {
                return Ok(());
            }
        }
        api.patch(&name, &params, &Patch::Merge(object)).await.map_err(words)?;
        Ok(())
    }

    /// Deletes an object that has left its set. Returns false if its kind is kept. An object that is gone, and one whose
    /// kind is gone, are no errors.
    pub(super) async fn prune(&mut self, object: &AppliedObject) -> Result<bool, String> {
        if KEPT.contains(&object.kind.as_str()) {
            return Ok(false);
        }
        let Some((resource, namespaced)) = self.kind(&object.api_version, &object.kind).await? else {
            return Ok(true);
        };
        let api = api_of(&self.client, &resource, namespaced, &object.namespace);
        match api.delete(&object.name, &DeleteParams::background()).await {
            Err(kube::Error::Api(status)) if status.reason == "NotFound" => Ok(true),
            result => {
                result.map(|_| true).map_err(|error| format!("{}: {}", shown(object), describe(&error)))
            }
        }
    }

    /// Returns what is not ready yet of the objects: CustomResourceDefinitions, Deployments and DaemonSets.
    pub(super) async fn unready(&mut self, objects: &[DynamicObject]) -> Result<Vec<String>, String> {
        let mut unready = Vec::new();
        for object in objects {
            let identity = identity(object);
            if !super::readiness::matters(&identity.kind) {
                continue;
            }
            let api = self.api(&identity).await?;
            let now = found(api.get(&identity.name).await).map_err(|error| error.to_string())?;
            if !now.is_some_and(|now| super::readiness::is_ready(&identity.kind, &now.data)) {
                unready.push(shown(&identity));
            }
        }
        Ok(unready)
    }

    async fn api(&mut self, object: &AppliedObject) -> Result<Api<DynamicObject>, String> {
        let (version, kind) = (&object.api_version, &object.kind);
        let found = self.kind(version, kind).await?;
        let (resource, namespaced) = found.ok_or_else(|| {
            format!(
                "the workload cluster does not serve {kind} of {version}. Correct apiVersion, or install its \
                     CustomResourceDefinition"
            )
        })?;
        Ok(api_of(&self.client, &resource, namespaced, &object.namespace))
    }

    /// Returns a kind of the cluster. Kinds that were not found are looked up again the next time: a
    /// CustomResourceDefinition may have been applied in between.
    async fn kind(&mut self, version: &str, kind: &str) -> Result<Option<(ApiResource, bool)>, String> {
        let key = (version.to_owned(), kind.to_owned());
        if let Some(known) = self.kinds.get(&key) {
            return Ok(Some(known.clone()));
        }
        let listed = match version.contains('/') {
            true => self.client.list_api_group_resources(version).await,
            false => self.client.list_core_api_resources(version).await,
        };
        let listed = match listed {
            // Servers differ in the reason for a path that they do not know.
            Err(kube::Error::Api(status)) if status.code == 404 => return Ok(None),
            other => other.map_err(|error| describe(&error))?,
        };
        let (group, short) = version.split_once('/').unwrap_or(("", version));
        for it in listed.resources.into_iter().filter(|it| !it.name.contains('/')) {
            let resource = ApiResource {
                group: group.to_owned(),
                version: short.to_owned(),
                api_version: version.to_owned(),
                kind: it.kind.clone(),
                plural: it.name,
            };
            self.kinds.insert((version.to_owned(), it.kind), (resource, it.namespaced));
        }
        Ok(self.kinds.get(&key).cloned())
    }
}

/// Returns what identifies an object.
pub(super) fn identity(object: &DynamicObject) -> AppliedObject {
    let types = object.types.clone().unwrap_or_default();
    AppliedObject {
        api_version: types.api_version,
        kind: types.kind,
        namespace: object.namespace().unwrap_or_default(),
        name: object.name_any(),
    }
}

fn api_of(client: &Client, resource: &ApiResource, namespaced: bool, namespace: &str) -> Api<DynamicObject> {
    let namespace = if namespace.is_empty() { DEFAULT_NAMESPACE } else { namespace };
    match namespaced {
        true => Api::namespaced_with(client.clone(), namespace, resource),
        false => Api::all_with(client.clone(), resource),
    }
}

fn shown(object: &AppliedObject) -> String {
    match object.namespace.as_str() {
        "" => format!("{} {}", object.kind, object.name),
        namespace => format!("{} {namespace}/{}", object.kind, object.name),
    }
}
