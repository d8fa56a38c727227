//! Secrets that objects name. The leader keeps copies of those in the host cluster.

use std::sync::Arc;

use apiserver_host::{SecretReferences, SecretUsers};
use apiserver_machinery::object;
use apiserver_machinery::store::ObjectStore;
use async_trait::async_trait;
use controllers_runtime::is_object_name;
use serde_json::Value;

use super::{all, hosted};

/// Ends of the names of the Secrets that a Cluster can have in the host. Part of Cluster API's contract.
const OF_CLUSTER: [&str; 6] = ["apiserver-etcd-client", "ca", "etcd", "kubeconfig", "proxy", "sa"];

/// Objects of the store, which name Secrets.
#[derive(Debug)]
pub(crate) struct ObjectReferences(Arc<ObjectStore>);

impl ObjectReferences {
    pub(crate) fn new(objects: Arc<ObjectStore>) -> Self {
        Self(objects)
    }
}

#[async_trait]
impl SecretUsers for ObjectReferences {
    async fn references(&self) -> Option<SecretReferences> {
        let mut found = SecretReferences::default();
        for kind in hosted(&self.0) {
            for item in all(&self.0, &kind.group, &kind.plural).await? {
                // No controller can read an object that cannot be decoded.
                if let Ok(object) = item.to_value() {
                    add(&kind.kind, &object, &mut found);
                }
                // Decoding ten thousand objects takes long enough to delay requests on this thread.
                tokio::task::coop::consume_budget().await;
            }
        }
        Some(found)
    }
}

/// Adds the Secrets that an object names. They are in its own namespace, except for a shared identity's.
pub(super) fn add(kind: &str, object: &Value, found: &mut SecretReferences) {
    let key = |namespace: &str, name: &str| (namespace.to_owned(), name.to_owned());
    if kind == "OpenStackClusterIdentity" {
        let reference = &object["spec"]["secretRef"];
        let both = reference["namespace"].as_str().zip(reference["name"].as_str());
        found.named.extend(both.map(|(namespace, name)| key(namespace, name)));
        return;
    }
    let namespace = object::meta(object, "namespace");
    if namespace.is_empty() {
        return;
    }
    if kind == "Cluster" {
        let cluster = object::meta(object, "name");
        found.derived.extend(OF_CLUSTER.map(|end| key(namespace, &format!("{cluster}-{end}"))));
    }
    let mut names = Vec::new();
    collect(&object["spec"], &mut names);
    let names = names.into_iter().filter(|name| is_object_name(name));
    found.named.extend(names.map(|name| key(namespace, name)));
}

/// Collects the names of Secrets in a part of an object.
fn collect<'a>(value: &'a Value, names: &mut Vec<&'a str>) {
    match value {
        Value::Array(items) => items.iter().for_each(|item| collect(item, names)),
        Value::Object(fields) => {
            // A resource of a ClusterResourceSet.
            if fields.get("kind").is_some_and(|kind| kind == "Secret") {
                names.extend(fields.get("name").and_then(Value::as_str));
            }
            for (field, value) in fields {
                match field.as_str() {
                    "dataSecretName" => names.extend(value.as_str()),
                    "identityRef" if value["type"] != "ClusterIdentity" => {
                        names.extend(value["name"].as_str());
                    }
                    // The source of a file or of a password.
                    "secret" => names.extend(value["name"].as_str()),
                    _ => {}
                }
                collect(value, names);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}
