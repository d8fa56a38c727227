//! Objects in a workload cluster: applied, looked at, deleted. The kinds are those that the cluster serves.

use std::collections::{BTreeSet, HashMap};

use controllers_workload::{describe, found};
use kube::api::{ApiResource, DeleteParams, Patch, PatchParams, PostParams};
use kube::core::{DynamicObject, Status};
use kube::{Api, Client, ResourceExt};

use super::notes::AppliedObject;

/// Field manager of the objects.
const MANAGER: &str = "capstan-clusterresourceset";

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
    /// Server-side apply. Conflicts with other field managers are errors. Those with earlier patches of a set are not.
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
            return server_side_apply(&api, object).await.map_err(words);
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

    /// Deletes an object that has left its set. It stays if its kind is kept, or if it is one of `kept` under another
    /// version. An object that is gone, and one whose kind is gone, are no errors.
    pub(super) async fn prune(
        &mut self,
        object: &AppliedObject,
        kept: &BTreeSet<AppliedObject>,
    ) -> Result<(), String> {
        if KEPT.contains(&object.kind.as_str()) {
            return Ok(());
        }
        let Some((resource, namespaced)) = self.kind(&object.api_version, &object.kind).await? else {
            return Ok(());
        };
        if kept.iter().any(|it| it.is_same(object, namespaced)) {
            return Ok(());
        }
        let api = api_of(&self.client, &resource, namespaced, object);
        match api.delete(&object.name, &DeleteParams::background()).await {
            Err(kube::Error::Api(status)) if status.reason == "NotFound" => Ok(()),
            result => result.map(drop).map_err(|error| format!("{}: {}", shown(object), describe(&error))),
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
            let is_ready = |now: DynamicObject| {
                super::readiness::is_ready(&identity.kind, now.metadata.generation, &now.data)
            };
            if !now.is_some_and(is_ready) {
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
        Ok(api_of(&self.client, &resource, namespaced, object))
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

/// Applies an object. Before a set had its annotation, it wrote merge patches under the same name. The API server
/// counts these as another field manager, so a change of such a field needs force.
async fn server_side_apply(api: &Api<DynamicObject>, object: &DynamicObject) -> Result<(), kube::Error> {
    let (name, patch) = (object.name_any(), Patch::Apply(object));
    let applied = api.patch(&name, &PatchParams::apply(MANAGER), &patch).await;
    match applied {
        Err(kube::Error::Api(status)) if conflicts_with_itself(&status) => {
            api.patch(&name, &PatchParams::apply(MANAGER).force(), &patch).await.map(drop)
        }
        applied => applied.map(drop),
    }
}

/// Returns true if all conflicts of an apply are with earlier updates under the same name.
fn conflicts_with_itself(status: &Status) -> bool {
    let causes = status.details.as_ref().map(|details| details.causes.as_slice()).unwrap_or_default();
    let own = format!("conflict with {MANAGER:?} using ");
    status.code == 409
        && !causes.is_empty()
        && causes.iter().all(|it| it.reason == "FieldManagerConflict" && it.message.starts_with(&own))
}

fn api_of(
    client: &Client,
    resource: &ApiResource,
    namespaced: bool,
    object: &AppliedObject,
) -> Api<DynamicObject> {
    match namespaced {
        true => Api::namespaced_with(client.clone(), object.effective_namespace(), resource),
        false => Api::all_with(client.clone(), resource),
    }
}

fn shown(object: &AppliedObject) -> String {
    match object.namespace.as_str() {
        "" => format!("{} {}", object.kind, object.name),
        namespace => format!("{} {namespace}/{}", object.kind, object.name),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::api_in_memory::FakeApi;

    fn status(code: u16, messages: &[&str]) -> Status {
        let cause =
            |text: &&str| json!({"reason": "FieldManagerConflict", "message": text, "field": ".data.a"});
        let causes: Vec<Value> = messages.iter().map(cause).collect();
        let status =
            json!({"code": code, "message": "m", "reason": "Conflict", "details": {"causes": causes}});
        serde_json::from_value(status).unwrap()
    }

    #[test]
    fn only_earlier_patches_of_a_set_may_be_overwritten_by_its_apply() {
        let own = r#"conflict with "capstan-clusterresourceset" using v1 at 2026-11-21T06:00:00Z"#;
        assert!(conflicts_with_itself(&status(409, &[own, own])));
        let other = r#"conflict with "kubectl-edit" using v1"#;
        for (code, messages) in [(409, vec![own, other]), (409, vec![other]), (409, vec![]), (422, vec![own])]
        {
            assert!(!conflicts_with_itself(&status(code, &messages)), "{code} {messages:?}");
        }
        let longer = r#"conflict with "capstan-clusterresourceset-2" using v1"#;
        assert!(!conflicts_with_itself(&status(409, &[longer])));
    }

    #[tokio::test]
    async fn an_object_that_stays_under_another_version_is_not_pruned() {
        const WIDGET: &str = "/apis/example.com/v1beta1/namespaces/default/widgets/w";
        let api = FakeApi::default();
        let kind = json!({"name": "widgets", "singularName": "widget", "namespaced": true, "kind": "Widget",
            "verbs": ["delete"]});
        let listed = json!({"kind": "APIResourceList", "apiVersion": "v1",
            "groupVersion": "example.com/v1beta1", "resources": [kind]});
        api.put("/apis/example.com/v1beta1", listed);
        api.put(WIDGET, json!({"apiVersion": "example.com/v1beta1", "kind": "Widget"}));
        let widget = |version: &str, namespace: &str, name: &str| AppliedObject {
            api_version: format!("example.com/{version}"),
            kind: "Widget".to_owned(),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        };
        let (mut workload, former) = (Workload::new(api.client()), widget("v1beta1", "", "w"));
        let kept = BTreeSet::from([widget("v1", "default", "w")]);
        assert_eq!(workload.prune(&former, &kept).await, Ok(()));
        assert!(api.get(WIDGET).is_some(), "the set has it in its new version");
        let others = BTreeSet::from([widget("v1", "default", "x")]);
        for _ in 0..2 {
            assert_eq!(workload.prune(&former, &others).await, Ok(()), "also if it is gone");
            assert!(api.get(WIDGET).is_none());
        }
    }
}
