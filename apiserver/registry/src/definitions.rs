//! CRD objects of Cluster API's kinds, for tools that look up kinds in the list of CRDs.

use apiserver_machinery::resource::{Registry, Resource};
use apiserver_machinery::strategy::Strategy;
use apiserver_types::{Described, OpenStackClusterIdentity};
use serde_json::{Map, Value, json};

use crate::providers::CORE;

/// Group of Capstan's own kinds.
const OWN_GROUP: &str = "capstan.dev";

/// Label value of clusterctl's own kind.
pub(crate) const INVENTORY: &str = "inventory";

/// Label of a kind whose objects clusterctl moves although no Cluster owns them.
const MOVED: &str = "clusterctl.cluster.x-k8s.io/move";

/// Creation time of the objects that the server defines. They have none, and kubectl shows an invalid age without it.
pub(crate) const EPOCH: &str = "1970-01-01T00:00:00Z";

/// Server of the kinds in CRD objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Serving {
    /// The server that has the CRD objects. They have whole schemas and a status.
    Here,
    /// Another server, to which the host forwards requests. The host serves none of the versions, so their schemas
    /// are empty.
    Elsewhere,
}

/// Returns one CRD for each kind that both endpoints serve, with all its versions. No tool looks up Capstan's own
/// kinds.
pub fn definitions(registry: &Registry, serving: Serving) -> Vec<Value> {
    let resources = || registry.resources().iter().map(AsRef::as_ref);
    let upstream = resources().filter(|kind: &&Resource| kind.hosted && kind.group != OWN_GROUP);
    let kinds = upstream.filter(|kind| kind.conversion.is_none());
    kinds
        .map(|kind| {
            let same = |other: &&Resource| other.group == kind.group && other.plural == kind.plural;
            definition(kind, &resources().filter(same).collect::<Vec<_>>(), serving)
        })
        .collect()
}

fn definition(kind: &Resource, versions: &[&Resource], serving: Serving) -> Value {
    let names = json!({"plural": kind.plural, "singular": kind.singular, "kind": kind.kind,
        "listKind": kind.list_kind(), "shortNames": kind.short_names, "categories": kind.categories});
    let scope = if kind.namespaced { "Namespaced" } else { "Cluster" };
    let versions_of = || versions.iter().map(|resource| version(resource, serving)).collect::<Vec<_>>();
    let mut crd = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": kind.qualified_plural(), "labels": labels(kind, versions)},
        "spec": {"group": kind.group, "scope": scope, "names": names, "versions": versions_of()}});
    if serving == Serving::Here {
        crd["metadata"]["creationTimestamp"] = json!(EPOCH);
        crd["metadata"]["generation"] = json!(1);
        crd["spec"]["conversion"] = json!({"strategy": "None"});
        crd["status"] = json!({"acceptedNames": names, "storedVersions": [kind.version], "conditions": [
            condition("NamesAccepted", "NoConflicts", "no conflicts found"),
            condition("Established", "InitialNamesAccepted", "the initial names have been accepted")]});
    }
    crd
}

fn condition(kind: &str, reason: &str, message: &str) -> Value {
    json!({"type": kind, "status": "True", "reason": reason, "message": message, "lastTransitionTime": EPOCH})
}

/// Returns the labels by which clusterctl finds the kinds, and the contract versions.
fn labels(kind: &Resource, versions: &[&Resource]) -> Map<String, Value> {
    let mut labels = Map::new();
    let Some(provider) = provider(&kind.group) else { return labels };
    labels.insert("clusterctl.cluster.x-k8s.io".to_owned(), "".into());
    if provider == INVENTORY {
        labels.insert("clusterctl.cluster.x-k8s.io/core".to_owned(), provider.into());
        return labels;
    }
    labels.insert("cluster.x-k8s.io/provider".to_owned(), provider.into());
    // Clusters of all namespaces name an identity. Without it, a moved Cluster has no credentials.
    if kind.plural == OpenStackClusterIdentity::DESCRIPTOR.plural {
        labels.insert(MOVED.to_owned(), "".into());
    }
    // Contract version of each of our versions; there are two, both betas.
    for version in versions.iter().filter(|version| version.version.contains("beta")) {
        labels.insert(format!("cluster.x-k8s.io/{}", version.version), version.version.clone().into());
    }
    labels
}

/// Returns the provider of a group's kinds, as clusterctl knows it.
pub(crate) fn provider(group: &str) -> Option<&'static str> {
    Some(match group {
        "infrastructure.cluster.x-k8s.io" => "infrastructure-openstack",
        "bootstrap.cluster.x-k8s.io" => "bootstrap-kubeadm",
        "controlplane.cluster.x-k8s.io" => "control-plane-kubeadm",
        "clusterctl.cluster.x-k8s.io" => INVENTORY,
        group if group.ends_with("cluster.x-k8s.io") => CORE,
        _ => return None,
    })
}

fn version(resource: &Resource, serving: Serving) -> Value {
    let columns: Vec<Value> = resource
        .columns
        .iter()
        .map(|column| {
            json!({"name": column.name, "type": column.kind, "jsonPath": column.json_path,
                "priority": column.priority})
        })
        .collect();
    let is_here = serving == Serving::Here;
    let any = || json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let schema = if is_here { resource.schema.published() } else { any() };
    let mut version = json!({"name": resource.version, "served": is_here, "storage": resource.conversion.is_none(),
        "schema": {"openAPIV3Schema": schema}, "additionalPrinterColumns": columns});
    if let Some(warning) = resource.deprecation.as_ref().filter(|_| is_here) {
        version["deprecated"] = json!(true);
        version["deprecationWarning"] = json!(warning);
    }
    let mut subresources = Map::new();
    if resource.status_subresource {
        subresources.insert("status".to_owned(), json!({}));
    }
    if let Some(scale) = &resource.scale {
        let mut paths =
            json!({"specReplicasPath": scale.spec_replicas, "statusReplicasPath": scale.status_replicas});
        if let Some(selector) = &scale.selector {
            paths["labelSelectorPath"] = json!(selector);
        }
        subresources.insert("scale".to_owned(), paths);
    }
    if !subresources.is_empty() {
        version["subresources"] = Value::Object(subresources);
    }
    version
}

/// Strategy of the CRD objects on the direct endpoint.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DefinitionStrategy;

impl Strategy for DefinitionStrategy {
    fn is_read_only(&self) -> bool {
        true
    }

    fn fixed_objects(&self, registry: &Registry) -> Vec<Value> {
        definitions(registry, Serving::Here)
    }
}
