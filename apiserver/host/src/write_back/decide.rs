//! Decision on the copy of one Secret. It is a pure function.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::ResourceExt;
use kube::api::DynamicObject;

use super::record::CopyRecord;
use crate::secrets::is_of_cluster;

/// Label of a Secret with the name of its Cluster. Part of Cluster API's contract.
pub(super) const CLUSTER_NAME: &str = "cluster.x-k8s.io/cluster-name";

/// Annotation of a Cluster: which of its Secrets have a copy in the host: `none`, `kubeconfig` or `all`, the default.
pub(super) const POLICY: &str = "capstan.dev/host-secrets";

/// Label of a copy with the uid of its Cluster. Capstan changes only Secrets that have it.
pub(crate) const OWNER: &str = "capstan.dev/owner-uid";

/// Ends of the names of Secrets that are copied: by `kubeconfig` the first one alone.
const PURPOSES: [&str; 5] = ["kubeconfig", "ca", "etcd", "sa", "proxy"];

/// Purpose of a pass, as far as Capstan's own store decides it.
#[derive(Debug, PartialEq)]
pub(super) enum Intent {
    /// The host is owed nothing.
    Nothing,
    /// The host is to have this copy.
    Copy(Box<Secret>),
    /// The host is not to have the copy of the record any more.
    Remove,
}

/// Next step for a copy.
#[derive(Debug, PartialEq)]
pub(super) enum Step {
    /// The copy is as it should be.
    Nothing,
    /// Create this copy.
    Create(Box<Secret>),
    /// Replace the copy with this one.
    Replace(Box<Secret>),
    /// Remove the copy.
    Remove,
    /// Remove the record: the host has no such copy.
    Forget,
    /// Report that the host has a Secret of another owner in its place.
    Refuse(String),
}

/// Decides on the purpose of a pass over a Secret and its Cluster, of which the record knows a copy in the host.
///
/// A copy lives as long as its Cluster, unless the Cluster does not want it. It stays if only its Secret is lost: it may
/// be the last one.
pub(super) fn intent(
    secret: Option<&Secret>,
    cluster: Option<&DynamicObject>,
    record: Option<&CopyRecord>,
) -> Intent {
    if let (Some(secret), Some(cluster)) = (secret, cluster)
        && is_selected(&secret.name_any(), cluster)
    {
        return Intent::Copy(Box::new(copy_of(secret, cluster)));
    }
    let Some(record) = record else { return Intent::Nothing };
    let lives = cluster.is_some_and(|cluster| {
        let is_ending = cluster.metadata.deletion_timestamp.is_some() && secret.is_none();
        cluster.uid().as_ref() == Some(&record.owner) && !is_ending && is_selected(&record.name, cluster)
    });
    if lives { Intent::Nothing } else { Intent::Remove }
}

/// Decides on the next step for the `copy` that the host has.
pub(super) fn step(intent: Intent, copy: Option<&Secret>, record: Option<&CopyRecord>) -> Step {
    let owner = copy.and_then(|copy| copy.labels().get(OWNER));
    let is_recorded = copy.zip(record).is_some_and(|(copy, record)| record.is_of(copy));
    let wanted = match intent {
        Intent::Nothing => return Step::Nothing,
        Intent::Remove if is_recorded => return Step::Remove,
        Intent::Remove => return Step::Forget,
        Intent::Copy(wanted) => wanted,
    };
    let Some(copy) = copy else { return Step::Create(wanted) };
    let is_ours = owner == wanted.labels().get(OWNER);
    match copy.data == wanted.data {
        true if is_ours => Step::Nothing,
        false if is_ours => Step::Replace(Box::new(replacement(*wanted, copy))),
        // An earlier Cluster of this name had it.
        _ if is_recorded => Step::Remove,
        true => Step::Nothing,
        false => Step::Refuse(format!(
            "Secret {}/{} of the host cluster has other content, and no label {OWNER} of this Cluster. It is not \
             changed. Delete it, and Capstan writes its copy there",
            wanted.namespace().unwrap_or_default(),
            wanted.name_any()
        )),
    }
}

/// Returns the name of the Cluster of a Secret and the position of its purpose in [`PURPOSES`], by the Secret's name.
fn parts(name: &str) -> Option<(&str, usize)> {
    let (cluster, purpose) = name.rsplit_once('-')?;
    Some((cluster, PURPOSES.iter().position(|known| *known == purpose)?))
}

/// Returns the name of the Cluster, if a Secret is one of those that Clusters have copies of.
pub(super) fn cluster_of(secret: &Secret) -> Option<&str> {
    let (cluster, _) = parts(secret.metadata.name.as_deref()?)?;
    let is_labeled = secret.labels().get(CLUSTER_NAME).is_some_and(|label| label == cluster);
    (is_of_cluster(secret) && is_labeled).then_some(cluster)
}

/// Returns true if the Cluster wants a copy of its Secret of this name.
fn is_selected(name: &str, cluster: &DynamicObject) -> bool {
    let policy = cluster.annotations().get(POLICY).map_or("all", String::as_str);
    let count = match policy {
        "none" => 0,
        "kubeconfig" => 1,
        _ => PURPOSES.len(),
    };
    parts(name).is_some_and(|(_, position)| position < count)
}

/// Returns the copy as it should be.
fn copy_of(secret: &Secret, cluster: &DynamicObject) -> Secret {
    // Labels of other programs, such as Argo CD, have an effect in the host.
    let is_of_cluster_api =
        |key: &str| key.split('/').next().is_some_and(|it| it.ends_with("cluster.x-k8s.io"));
    let labels = secret.labels().iter().filter(|(key, _)| is_of_cluster_api(key));
    let mut labels: BTreeMap<String, String> =
        labels.map(|(key, value)| (key.clone(), value.clone())).collect();
    labels.insert(OWNER.to_owned(), cluster.uid().unwrap_or_default());
    let owners = secret.owner_references().iter().cloned();
    // The host's garbage collector needs a permission of the writer for such a reference.
    let owners = owners.map(|owner| OwnerReference { block_owner_deletion: None, ..owner });
    Secret {
        metadata: ObjectMeta {
            name: secret.metadata.name.clone(),
            namespace: secret.metadata.namespace.clone(),
            labels: Some(labels),
            owner_references: Some(owners.collect()),
            ..ObjectMeta::default()
        },
        type_: secret.type_.clone(),
        data: secret.data.clone(),
        ..Secret::default()
    }
}

/// Returns the copy with the metadata that other programs have added to it. Its revision guards the write.
fn replacement(wanted: Secret, copy: &Secret) -> Secret {
    let Secret { metadata: ObjectMeta { labels: ours, owner_references, .. }, type_, data, .. } = wanted;
    let mut labels = copy.metadata.labels.clone().unwrap_or_default();
    labels.extend(ours.unwrap_or_default());
    let metadata =
        ObjectMeta { labels: Some(labels), owner_references, managed_fields: None, ..copy.metadata.clone() };
    Secret { metadata, type_, data, ..Secret::default() }
}

#[cfg(test)]
#[path = "decide_tests.rs"]
mod tests;
