//! Decision on the copy of one Secret. It is a pure function.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::ResourceExt;
use kube::api::DynamicObject;

use crate::secrets::is_of_cluster;

/// Label of a Secret with the name of its Cluster. Part of Cluster API's contract.
pub(super) const CLUSTER_NAME: &str = "cluster.x-k8s.io/cluster-name";

/// Annotation of a Cluster: which of its Secrets have a copy in the host: `none`, `kubeconfig` or `all`, the default.
pub(super) const POLICY: &str = "capstan.dev/host-secrets";

/// Label of a copy with the uid of its Cluster. Capstan changes only Secrets that have it.
pub(crate) const OWNER: &str = "capstan.dev/owner-uid";

/// Ends of the names of Secrets that are copied: by `kubeconfig` the first one alone.
const PURPOSES: [&str; 5] = ["kubeconfig", "ca", "etcd", "sa", "proxy"];

/// Next step for a copy.
#[derive(Debug, PartialEq)]
pub(super) enum Step {
    /// The copy is as it should be.
    Nothing,
    /// Create this copy.
    Create(Box<Secret>),
    /// Replace the copy with this one.
    Replace(Box<Secret>),
    /// Report this reason and message.
    Refuse(&'static str, String),
}

/// Decides what to do with the `copy` of a Secret that the Cluster wants to be copied.
pub(super) fn decide(secret: &Secret, cluster: &DynamicObject, copy: Option<&Secret>) -> Step {
    let wanted = wanted(secret, cluster);
    let Some(copy) = copy else { return Step::Create(Box::new(wanted)) };
    if copy.data == wanted.data {
        return Step::Nothing;
    }
    if copy.labels().get(OWNER) != wanted.labels().get(OWNER) {
        let (namespace, name) = (secret.namespace().unwrap_or_default(), secret.name_any());
        return Step::Refuse(
            "WriteBackRefused",
            format!(
                "Secret {namespace}/{name} of the host cluster has other content, and no label {OWNER} of this \
                 Cluster. It is not changed. Delete it, and Capstan writes its copy there"
            ),
        );
    }
    let metadata = ObjectMeta { resource_version: copy.resource_version(), ..wanted.metadata };
    Step::Replace(Box::new(Secret { metadata, ..wanted }))
}

/// Returns the place of the Secret's purpose in [`PURPOSES`].
fn purpose(secret: &Secret) -> Option<usize> {
    let cluster = secret.labels().get(CLUSTER_NAME)?;
    let name = secret.name_any();
    let purpose = name.strip_prefix(cluster)?.strip_prefix('-')?;
    PURPOSES.iter().position(|known| *known == purpose)
}

/// Returns true if a Secret is one of those that Clusters have copies of.
pub(super) fn has_copies(secret: &Secret) -> bool {
    is_of_cluster(secret) && purpose(secret).is_some()
}

/// Returns true if the Cluster wants a copy of its Secret.
pub(super) fn is_wanted(secret: &Secret, cluster: &DynamicObject) -> bool {
    let policy = cluster.annotations().get(POLICY).map_or("all", String::as_str);
    let count = match policy {
        "none" => 0,
        "kubeconfig" => 1,
        _ => PURPOSES.len(),
    };
    has_copies(secret) && purpose(secret).is_some_and(|place| place < count)
}

/// Returns the copy as it should be.
fn wanted(secret: &Secret, cluster: &DynamicObject) -> Secret {
    // Labels of other programs, such as Argo CD, have an effect in the host.
    let is_of_cluster_api =
        |key: &str| key.split('/').next().is_some_and(|it| it.ends_with("cluster.x-k8s.io"));
    let labels = secret.labels().iter().filter(|(key, _)| is_of_cluster_api(key));
    let mut labels: BTreeMap<String, String> =
        labels.map(|(key, value)| (key.clone(), value.clone())).collect();
    labels.insert(OWNER.to_owned(), cluster.uid().unwrap_or_default());
    let owners = secret.owner_references().iter().cloned().map(|owner| {
        // The host's garbage collector needs a permission of the writer for such a reference.
        k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference { block_owner_deletion: None, ..owner }
    });
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
