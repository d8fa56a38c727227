//! Kinds of the server in the test: one of each class of requests.

use std::sync::Arc;

use apiserver_machinery::resource::Resource;
use apiserver_machinery::strategy::Plain;
use apiserver_schema::KindSchema;
use serde_json::json;

/// Returns the kinds.
pub(super) fn kinds() -> Vec<Resource> {
    vec![
        resource("cluster.x-k8s.io", "v1beta2", "Machine"),
        resource("cluster.x-k8s.io", "v1beta2", "Cluster"),
        resource("capstan.dev", "v1alpha1", "MachineOperation"),
        Resource { hosted: false, ..resource("", "v1", "Secret") },
        Resource { hosted: false, namespaced: false, ..resource("", "v1", "Namespace") },
    ]
}

fn resource(group: &str, version: &str, kind: &str) -> Resource {
    let open_api = json!({"type": "object", "properties": {
        "apiVersion": {"type": "string"}, "kind": {"type": "string"}, "metadata": {"type": "object"},
        "spec": {"type": "object", "properties": {"size": {"type": "integer"}}}}});
    Resource {
        group: group.to_owned(),
        version: version.to_owned(),
        kind: kind.to_owned(),
        plural: format!("{}s", kind.to_lowercase()),
        singular: kind.to_lowercase(),
        short_names: Vec::new(),
        categories: Vec::new(),
        namespaced: true,
        status_subresource: false,
        scale: None,
        deprecation: None,
        conversion: None,
        generation: true,
        hosted: true,
        columns: Vec::new(),
        selectable: Vec::new(),
        schema: KindSchema::new(apiserver_machinery::metadata::RULES, move || open_api.clone()),
        strategy: Arc::new(Plain),
        verbs: Vec::new(),
        preview: None,
    }
}
