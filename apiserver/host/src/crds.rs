//! CRD objects on the host that serve no requests, for tools that look up kinds in the list of CRDs.

use apiserver_machinery::resource::Resource;
use serde_json::{Map, Value, json};

/// Returns one CRD for each Cluster API kind, with all its versions. No tool looks up Capstan's own kinds.
pub(crate) fn crds(hosted: &[&Resource]) -> Vec<Value> {
    let upstream = hosted.iter().filter(|resource| resource.group.ends_with("x-k8s.io"));
    let kinds = upstream.filter(|resource| resource.conversion.is_none());
    kinds
        .map(|kind| {
            let same = |other: &&&Resource| other.group == kind.group && other.plural == kind.plural;
            crd(kind, &hosted.iter().filter(same).copied().collect::<Vec<_>>())
        })
        .collect()
}

fn crd(kind: &Resource, versions: &[&Resource]) -> Value {
    let mut labels = Map::new();
    labels.insert("clusterctl.cluster.x-k8s.io".to_owned(), "".into());
    labels.insert("cluster.x-k8s.io/provider".to_owned(), provider(&kind.group).into());
    // Contract version of each of our versions; there are two, both betas.
    for version in versions.iter().filter(|version| version.version.contains("beta")) {
        labels.insert(format!("cluster.x-k8s.io/{}", version.version), version.version.clone().into());
    }
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": kind.qualified_plural(), "labels": labels},
        "spec": {"group": kind.group, "scope": if kind.namespaced { "Namespaced" } else { "Cluster" },
            "names": {"plural": kind.plural, "singular": kind.singular, "kind": kind.kind,
                "listKind": kind.list_kind(), "shortNames": kind.short_names, "categories": kind.categories},
            "versions": versions.iter().map(|resource| version(resource)).collect::<Vec<_>>()}})
}

/// Returns the provider of a group's kinds, as clusterctl knows it.
fn provider(group: &str) -> &'static str {
    match group {
        "infrastructure.cluster.x-k8s.io" => "infrastructure-openstack",
        "bootstrap.cluster.x-k8s.io" => "bootstrap-kubeadm",
        "controlplane.cluster.x-k8s.io" => "control-plane-kubeadm",
        _ => "cluster-api",
    }
}

fn version(resource: &Resource) -> Value {
    let columns: Vec<Value> = resource
        .columns
        .iter()
        .map(|column| json!({"name": column.name, "type": column.kind, "jsonPath": column.json_path, "priority": column.priority}))
        .collect();
    let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let mut version = json!({"name": resource.version, "served": false, "storage": resource.conversion.is_none(),
        "schema": {"openAPIV3Schema": schema}, "additionalPrinterColumns": columns});
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
