//! Secret in the workload cluster, and the Pods that read it at their start.

use std::collections::BTreeMap;
use std::fmt::Debug;

use controllers_workload::{describe, found};
use jiff::Timestamp;
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, StatefulSet};
use k8s_openapi::api::core::v1::{PodTemplateSpec, Secret};
use kube::api::{ListParams, Patch, PatchParams};
use kube::{Api, Client, Resource, ResourceExt};
use serde::de::DeserializeOwned;
use serde_json::json;

use super::cloud_conf::content_hash;
use super::decide::Deployed;

/// Namespace of the Secret and of its readers.
const NAMESPACE: &str = "kube-system";

/// Name of the Secret, as the manifests of the cloud controller manager have it.
const NAME: &str = "cloud-config";

/// Label of a Secret that Capstan has made. Another one is never overwritten.
const OWNED: &str = "capstan.dev/owned";

/// Annotation of the Secret with the name of its credential.
const CREDENTIAL: &str = "capstan.dev/application-credential-name";

/// Annotation of the Secret with the time at which it was written.
const DELIVERED: &str = "capstan.dev/delivered-at";

/// Annotation of a Pod template with the hash of the Secret. A change restarts the Pods.
const RESTARTED: &str = "capstan.dev/cloud-config-hash";

/// Field manager of the Secret and of the annotation.
const MANAGER: &str = "capstan-cloud-config";

/// Content of the Secret.
pub(super) type Files = BTreeMap<String, String>;

/// Reader of the Secret: kind, name, hash at its last restart, and whether all of its Pods are new and ready.
struct Consumer {
    kind: &'static str,
    name: String,
    hash: Option<String>,
    is_rolled: bool,
}

impl Consumer {
    fn shown(&self) -> String {
        format!("{} {NAMESPACE}/{}", self.kind, self.name)
    }
}

/// Reads the state of the workload cluster, compared with the content that it must have.
///
/// # Errors
/// A request failed, or the Secret is another's. For people.
pub(super) async fn observe(client: &Client, files: Option<&Files>) -> Result<Deployed, String> {
    let secrets: Api<Secret> = Api::namespaced(client.clone(), NAMESPACE);
    let secret = found(secrets.get(NAME).await).map_err(|error| error.to_string())?;
    if let Some(secret) = secret.as_ref().filter(|secret| !secret.labels().contains_key(OWNED)) {
        return Err(format!(
            "Secret {NAMESPACE}/{} of the workload cluster was not made by Capstan. Delete it, or give it the label \
             {OWNED}=true",
            secret.name_any()
        ));
    }
    let Some(files) = files else { return Ok(Deployed::default()) };
    let hash = content_hash(files);
    let mut deployed = Deployed {
        secret: secret.as_ref().map(delivery),
        is_current: secret.as_ref().is_some_and(|secret| has(secret, files)),
        ..Deployed::default()
    };
    for consumer in consumers(client).await.map_err(|error| describe(&error))? {
        if consumer.hash.as_ref() != Some(&hash) {
            deployed.stale.push(consumer.shown());
        } else if !consumer.is_rolled {
            deployed.rolling.push(consumer.shown());
        }
    }
    Ok(deployed)
}

/// Writes the Secret.
pub(super) async fn deliver(client: &Client, name: &str, files: &Files) -> Result<(), String> {
    let secrets: Api<Secret> = Api::namespaced(client.clone(), NAMESPACE);
    let data: BTreeMap<&String, k8s_openapi::ByteString> =
        files.iter().map(|(key, text)| (key, k8s_openapi::ByteString(text.clone().into_bytes()))).collect();
    let annotations = json!({CREDENTIAL: name, DELIVERED: Timestamp::now().to_string()});
    let metadata =
        json!({"name": NAME, "namespace": NAMESPACE, "labels": {OWNED: "true"}, "annotations": annotations});
    let secret =
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "type": "Opaque", "data": data});
    let parameters = PatchParams::apply(MANAGER).force();
    let applied = secrets.patch(NAME, &parameters, &Patch::Apply(secret)).await;
    let applied = applied.map_err(|error| describe(&error))?;
    // An apply leaves the keys of other field managers, as in a Secret that a user has labelled.
    let foreign = foreign_keys(&applied, files);
    if foreign.is_empty() {
        return Ok(());
    }
    let parameters = PatchParams { field_manager: Some(MANAGER.to_owned()), ..PatchParams::default() };
    let patch = Patch::Merge(json!({"data": foreign}));
    secrets.patch(NAME, &parameters, &patch).await.map(drop).map_err(|error| describe(&error))
}

/// Returns a merge patch that removes all keys that are not in `files`.
fn foreign_keys(secret: &Secret, files: &Files) -> BTreeMap<String, serde_json::Value> {
    let keys = secret.data.iter().flat_map(BTreeMap::keys);
    keys.filter(|key| !files.contains_key(*key)).map(|key| (key.clone(), serde_json::Value::Null)).collect()
}

/// Restarts the readers that have another content.
pub(super) async fn restart(client: &Client, files: &Files) -> Result<(), String> {
    let hash = content_hash(files);
    let annotations = json!({"metadata": {"annotations": {RESTARTED: hash}}});
    let patch = Patch::Merge(json!({"spec": {"template": annotations}}));
    let parameters = PatchParams { field_manager: Some(MANAGER.to_owned()), ..PatchParams::default() };
    for it in consumers(client).await.map_err(|error| describe(&error))? {
        if it.hash.as_ref() == Some(&hash) {
            continue;
        }
        let client = client.clone();
        let result = match it.kind {
            "Deployment" => patched::<Deployment>(client, &it.name, &parameters, &patch).await,
            "DaemonSet" => patched::<DaemonSet>(client, &it.name, &parameters, &patch).await,
            _ => patched::<StatefulSet>(client, &it.name, &parameters, &patch).await,
        };
        result.map_err(|error| format!("{}: {}", it.shown(), describe(&error)))?;
    }
    Ok(())
}

async fn patched<K>(
    client: Client,
    name: &str,
    parameters: &PatchParams,
    patch: &Patch<serde_json::Value>,
) -> Result<(), kube::Error>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + Debug + DeserializeOwned,
{
    Api::<K>::namespaced(client, NAMESPACE).patch(name, parameters, patch).await.map(drop)
}

fn delivery(secret: &Secret) -> (String, Timestamp) {
    let annotation = |key: &str| secret.annotations().get(key).cloned().unwrap_or_default();
    // A time that is not one, because a user changed it, counts as long ago.
    (annotation(CREDENTIAL), annotation(DELIVERED).parse().unwrap_or_default())
}

fn has(secret: &Secret, files: &Files) -> bool {
    let data = secret.data.clone().unwrap_or_default();
    let equal = |(key, value): (&String, &String)| data.get(key).is_some_and(|it| it.0 == value.as_bytes());
    data.len() == files.len() && files.iter().all(equal)
}

/// Lists the workloads whose Pods mount the Secret.
async fn consumers(client: &Client) -> Result<Vec<Consumer>, kube::Error> {
    let all = ListParams::default();
    let mut consumers = Vec::new();
    for it in Api::<Deployment>::namespaced(client.clone(), NAMESPACE).list(&all).await? {
        let (spec, status) = (it.spec.clone().unwrap_or_default(), it.status.clone().unwrap_or_default());
        let wanted = spec.replicas.unwrap_or(1);
        let counts = [status.updated_replicas, status.available_replicas, status.replicas];
        let is_rolled = status.observed_generation == it.metadata.generation && counts == [Some(wanted); 3];
        consumers.extend(consumer("Deployment", it.name_any(), &spec.template, is_rolled || wanted == 0));
    }
    for it in Api::<DaemonSet>::namespaced(client.clone(), NAMESPACE).list(&all).await? {
        let (spec, status) = (it.spec.clone().unwrap_or_default(), it.status.clone().unwrap_or_default());
        let wanted = status.desired_number_scheduled;
        let is_rolled = status.observed_generation == it.metadata.generation
            && status.updated_number_scheduled.unwrap_or(0) >= wanted
            && status.number_ready >= wanted;
        consumers.extend(consumer("DaemonSet", it.name_any(), &spec.template, is_rolled));
    }
    for it in Api::<StatefulSet>::namespaced(client.clone(), NAMESPACE).list(&all).await? {
        let (spec, status) = (it.spec.clone().unwrap_or_default(), it.status.clone().unwrap_or_default());
        let wanted = spec.replicas.unwrap_or(1);
        let counts = [status.updated_replicas, status.ready_replicas];
        let is_rolled = status.observed_generation == it.metadata.generation && counts == [Some(wanted); 2];
        consumers.extend(consumer("StatefulSet", it.name_any(), &spec.template, is_rolled || wanted == 0));
    }
    Ok(consumers)
}

/// Returns a workload, if its Pods mount the Secret.
fn consumer(
    kind: &'static str,
    name: String,
    template: &PodTemplateSpec,
    is_rolled: bool,
) -> Option<Consumer> {
    let volumes = template.spec.iter().filter_map(|spec| spec.volumes.as_ref()).flatten();
    let mut secrets = volumes.filter_map(|volume| volume.secret.as_ref()?.secret_name.as_deref());
    let annotations = template.metadata.as_ref().and_then(|it| it.annotations.as_ref());
    let hash = annotations.and_then(|it| it.get(RESTARTED)).cloned();
    secrets.any(|secret| secret == NAME).then_some(Consumer { kind, name, hash, is_rolled })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_workloads_that_mount_the_secret_are_restarted() {
        let template = |secret: &str| -> PodTemplateSpec {
            let volumes = json!([{"name": "c", "secret": {"secretName": secret}}]);
            let metadata = json!({"annotations": {RESTARTED: "h"}});
            serde_json::from_value(
                json!({"metadata": metadata, "spec": {"containers": [], "volumes": volumes}}),
            )
            .unwrap()
        };
        let found = consumer("DaemonSet", "ccm".to_owned(), &template(NAME), true).unwrap();
        assert_eq!((found.shown().as_str(), found.hash.as_deref()), ("DaemonSet kube-system/ccm", Some("h")));
        assert!(consumer("DaemonSet", "ccm".to_owned(), &template("other"), true).is_none());
        assert!(consumer("DaemonSet", "ccm".to_owned(), &PodTemplateSpec::default(), true).is_none());
    }

    #[test]
    fn a_secret_has_the_content_exactly() {
        let files: Files = [("cloud.conf".to_owned(), "a".to_owned())].into();
        let of = |data: serde_json::Value| serde_json::from_value::<Secret>(json!({"data": data})).unwrap();
        assert!(has(&of(json!({"cloud.conf": "YQ=="})), &files));
        assert!(!has(&of(json!({"cloud.conf": "Yg=="})), &files));
        assert!(!has(&of(json!({"cloud.conf": "YQ==", "ca.crt": "YQ=="})), &files));
        assert!(!has(&Secret::default(), &files));
        let foreign = foreign_keys(&of(json!({"cloud.conf": "YQ==", "vsphere.conf": "YQ=="})), &files);
        assert_eq!(json!(foreign), json!({"vsphere.conf": null}));
        assert!(foreign_keys(&of(json!({"cloud.conf": "Yg=="})), &files).is_empty());
    }
}
