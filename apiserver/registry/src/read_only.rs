//! Resources of the read-only kinds: the server itself defines their objects, so no type describes them.

use std::sync::Arc;

use apiserver_machinery::resource::{Column, Resource};
use apiserver_machinery::strategy::Strategy;
use apiserver_schema::KindSchema;
use serde_json::{Value, json};

use crate::definitions::DefinitionStrategy;
use crate::host_status;
use crate::providers::ProviderStrategy;

/// Returns the resources.
pub(crate) fn resources() -> [Resource; 3] {
    [provider(), definition(), host_status::resource()]
}

fn provider() -> Resource {
    let text = |description: &str| json!({"type": "string", "description": description});
    let schema = json!({"type": "object", "description": "Provider of Cluster API in the inventory of clusterctl.",
        "properties": {
            "apiVersion": text("Group and version of this representation."),
            "kind": text("Kind of this object."),
            "metadata": {"type": "object"},
            "providerName": text("Name of the provider."),
            "type": text("Type of the provider, e.g. CoreProvider."),
            "version": text("Version of the provider."),
            "watchedNamespace": text("Namespace that the provider watches. Empty means all namespaces.")}});
    Resource {
        group: "clusterctl.cluster.x-k8s.io".to_owned(),
        version: "v1alpha3".to_owned(),
        kind: "Provider".to_owned(),
        plural: "providers".to_owned(),
        singular: "provider".to_owned(),
        namespaced: true,
        hosted: true,
        columns: vec![
            column("Type", "string", ".type"),
            column("Provider", "string", ".providerName"),
            column("Version", "string", ".version"),
            column("Age", "date", ".metadata.creationTimestamp"),
        ],
        ..bare(schema, ProviderStrategy)
    }
}

fn definition() -> Resource {
    let any = |description: &str| json!({"type": "object", "description": description, "x-kubernetes-preserve-unknown-fields": true});
    let schema = json!({"type": "object", "description": "Definition of a kind that this server serves.",
        "properties": {
            "apiVersion": {"type": "string", "description": "Group and version of this representation."},
            "kind": {"type": "string", "description": "Kind of this object."},
            "metadata": {"type": "object"},
            "spec": any("Names, scope, versions and schemas of the kind."),
            "status": any("Names that are in use, and stored versions.")}});
    Resource {
        group: "apiextensions.k8s.io".to_owned(),
        version: "v1".to_owned(),
        kind: "CustomResourceDefinition".to_owned(),
        plural: "customresourcedefinitions".to_owned(),
        singular: "customresourcedefinition".to_owned(),
        short_names: vec!["crd".to_owned(), "crds".to_owned()],
        categories: vec!["api-extensions".to_owned()],
        columns: vec![column("Created At", "date", ".metadata.creationTimestamp")],
        ..bare(schema, DefinitionStrategy)
    }
}

fn column(name: &str, kind: &str, path: &str) -> Column {
    Column {
        name: name.to_owned(),
        kind: kind.to_owned(),
        json_path: path.to_owned(),
        priority: 0,
        description: String::new(),
    }
}

pub(crate) fn bare(schema: Value, strategy: impl Strategy) -> Resource {
    Resource {
        group: String::new(),
        version: String::new(),
        kind: String::new(),
        plural: String::new(),
        singular: String::new(),
        short_names: Vec::new(),
        categories: Vec::new(),
        namespaced: false,
        status_subresource: false,
        scale: None,
        deprecation: None,
        conversion: None,
        generation: false,
        hosted: false,
        columns: Vec::new(),
        selectable: Vec::new(),
        schema: KindSchema::new(apiserver_machinery::metadata::RULES, move || schema.clone()),
        strategy: Arc::new(strategy),
        verbs: Vec::new(),
        preview: None,
    }
}
