//! Resources of a set: ConfigMaps and Secrets whose values are manifests.

use std::collections::BTreeMap;

use apiserver_types::{ClusterResourceSet, ResourceRef, ResourceSetKind};
use aws_lc_rs::digest::{Context, SHA256};
use controllers_runtime::{ControllerContext, ReconcileError};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::api::{Patch, PatchParams};
use kube::core::DynamicObject;
use kube::{Api, Resource, ResourceExt};
use serde_json::json;

use super::manifests;
use crate::ownership;

/// Type of the Secrets that may be resources. A Secret of another type, such as credentials, must not reach a workload
/// cluster by a mistake in a name.
const SECRET_TYPE: &str = "addons.cluster.x-k8s.io/resource-set";

/// Resource of a set, as it was read.
#[derive(Debug, Clone)]
pub(super) struct Resourced {
    pub reference: ResourceRef,
    pub state: State,
}

/// State of a resource.
#[derive(Debug, Clone)]
pub(super) enum State {
    Missing,
    WrongType,
    /// The resource cannot be read. For people.
    Unreadable(String),
    Found(Contents),
}

/// Values of a resource, in the order of their keys.
#[derive(Debug, Clone, Default)]
pub(super) struct Contents(BTreeMap<String, Vec<u8>>);

impl Contents {
    /// Returns the hash of the values, as upstream has it: a set that was moved from there is not applied again.
    pub(super) fn hash(&self) -> String {
        let mut context = Context::new(&SHA256);
        self.0.values().for_each(|value| context.update(value));
        let digest = context.finish();
        let hex: String = digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
        format!("sha256:{hex}")
    }

    /// Returns the objects in the order of creation.
    pub(super) fn objects(&self) -> Result<Vec<DynamicObject>, String> {
        let mut found = Vec::new();
        for (key, value) in &self.0 {
            let text = std::str::from_utf8(value).map_err(|_| format!("{key}: it is not UTF-8 text"))?;
            found.extend(manifests::parse(key, text)?);
        }
        manifests::sort(&mut found);
        Ok(found)
    }
}

/// Describes a resource, as in `ConfigMap cni`.
pub(super) fn shown(reference: &ResourceRef) -> String {
    format!("{} {}", kind_name(reference.kind), reference.name)
}

/// Returns the name of a resource's kind.
pub(super) fn kind_name(kind: ResourceSetKind) -> &'static str {
    match kind {
        ResourceSetKind::Secret => "Secret",
        ResourceSetKind::ConfigMap => "ConfigMap",
    }
}

/// Reads all resources, and makes the set an owner of each. By their owners `clusterctl move` finds them.
pub(super) async fn read(
    context: &ControllerContext,
    set: &ClusterResourceSet,
) -> Result<Vec<Resourced>, ReconcileError> {
    let mut found = Vec::new();
    for reference in &set.spec.resources {
        let state = match reference.kind {
            ResourceSetKind::ConfigMap => config_map(context, set, &reference.name).await?,
            ResourceSetKind::Secret => secret(context, set, &reference.name).await?,
        };
        found.push(Resourced { reference: reference.clone(), state });
    }
    Ok(found)
}

async fn config_map(
    context: &ControllerContext,
    set: &ClusterResourceSet,
    name: &str,
) -> Result<State, ReconcileError> {
    if !controllers_runtime::is_object_name(name) {
        return Ok(State::Missing);
    }
    let api: Api<ConfigMap> = Api::namespaced(context.client.clone(), &set.namespace().unwrap_or_default());
    let Some(found) = api.get_opt(name).await? else { return Ok(State::Missing) };
    if let Some(owners) = with_owner(&found, set) {
        let metadata = json!({"resourceVersion": found.resource_version(), "ownerReferences": owners});
        let patch = Patch::Merge(json!({"metadata": metadata}));
        api.patch(name, &PatchParams::default(), &patch).await?;
    }
    let binary = found.binary_data.unwrap_or_default().into_iter().map(|(key, value)| (key, value.0));
    let text = found.data.unwrap_or_default().into_iter().map(|(key, value)| (key, value.into_bytes()));
    Ok(State::Found(Contents(binary.chain(text).collect())))
}

async fn secret(
    context: &ControllerContext,
    set: &ClusterResourceSet,
    name: &str,
) -> Result<State, ReconcileError> {
    let namespace = set.namespace().unwrap_or_default();
    let found: Option<Secret> = match context.secrets.secret(&namespace, name).await {
        Ok(found) => found,
        Err(error) => return Ok(State::Unreadable(controllers_workload::describe(&error))),
    };
    let Some(mut found) = found else { return Ok(State::Missing) };
    if found.type_.as_deref() != Some(SECRET_TYPE) {
        return Ok(State::WrongType);
    }
    if let Some(owners) = with_owner(&found, set) {
        found.metadata.owner_references = Some(owners);
        context.secrets.replace(&found).await?;
    }
    let values = found.data.unwrap_or_default().into_iter().map(|(key, value)| (key, value.0));
    Ok(State::Found(Contents(values.collect())))
}

/// Returns the owners of a resource with the set among them; `None` if it is one already.
fn with_owner<K: Resource>(
    object: &K,
    set: &ClusterResourceSet,
) -> Option<Vec<k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference>> {
    if ownership::is_owned(object, set) {
        return None;
    }
    let own = ownership::shared(set);
    let mut owners = object.owner_references().to_vec();
    // A set of the same name that was deleted and created again.
    owners.retain(|it| (it.kind.as_str(), it.name.as_str()) != (own.kind.as_str(), own.name.as_str()));
    owners.push(own);
    Some(owners)
}

#[cfg(test)]
mod tests {
    use apiserver_types::ClusterResourceSetSpec;

    use super::*;

    #[test]
    fn the_hash_is_over_the_values_in_the_order_of_their_keys() {
        let of = |pairs: &[(&str, &str)]| {
            let pairs = pairs.iter().map(|(key, value)| ((*key).to_owned(), value.as_bytes().to_vec()));
            Contents(pairs.collect()).hash()
        };
        let empty = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        assert_eq!(of(&[]), empty);
        let abc = "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(of(&[("b", "c"), ("a", "ab")]), abc);
    }

    #[test]
    fn objects_of_all_values_are_sorted_together_and_binary_values_are_refused() {
        let text =
            |kind: &str| format!("apiVersion: v1\nkind: {kind}\nmetadata: {{name: {}}}", kind.to_lowercase());
        let values = [("a", text("DaemonSet")), ("b", text("Namespace"))];
        let values = values.map(|(key, value)| (key.to_owned(), value.into_bytes()));
        let names: Vec<String> =
            Contents(values.into()).objects().unwrap().iter().map(ResourceExt::name_any).collect();
        assert_eq!(names, ["namespace", "daemonset"]);
        let binary = Contents([("x".to_owned(), vec![0xff])].into());
        assert_eq!(binary.objects().unwrap_err(), "x: it is not UTF-8 text");
    }

    #[test]
    fn a_set_that_was_created_again_replaces_its_former_self_as_an_owner() {
        let mut set = ClusterResourceSet::new("cni", ClusterResourceSetSpec::default());
        set.metadata.uid = Some("new".to_owned());
        let mut map = ConfigMap::default();
        let mut old = ownership::shared(&set);
        old.uid = "old".to_owned();
        map.metadata.owner_references = Some(vec![old]);
        let owners = with_owner(&map, &set).unwrap();
        assert_eq!(owners.iter().map(|it| it.uid.as_str()).collect::<Vec<_>>(), ["new"]);
        map.metadata.owner_references = Some(owners);
        assert!(with_owner(&map, &set).is_none());
    }
}
