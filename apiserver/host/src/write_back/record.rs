//! Records of the copies that the host has, or may have.

use async_trait::async_trait;
use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt;
use serde::{Deserialize, Serialize};

use super::OWNER;

/// Key of a Secret: namespace and name.
pub(super) type Key = (String, String);

/// Record of one copy. It is written before the copy, and removed after it. So the leader knows what it has to remove from
/// the host, although the Cluster and its Secrets are gone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CopyRecord {
    /// Namespace of the copy.
    pub namespace: String,
    /// Name of the copy.
    pub name: String,
    /// Name of its Cluster.
    pub cluster: String,
    /// Uid of its Cluster, which the copy has in a label.
    pub owner: String,
    /// Uid of the host cluster with the copy. Another host cluster is not changed because of this record.
    pub host: String,
    /// Uid of the copy. Absent from before a create call until its answer, and in records of earlier releases.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uid: Option<String>,
}

/// Records in Capstan's own store.
#[async_trait]
pub trait CopyRecords: Send + Sync + 'static {
    /// Returns all records. It waits for the store.
    async fn list(&self) -> Vec<CopyRecord>;

    /// Writes a record, or replaces that of its namespace and name. Returns false if the store does not take it.
    async fn write(&self, record: &CopyRecord) -> bool;

    /// Removes a record. Returns false if the store does not answer.
    async fn remove(&self, record: &CopyRecord) -> bool;
}

impl CopyRecord {
    /// Returns true if a Secret of the host is the copy of this record. The label alone does not tell: `clusterctl move` takes
    /// it along, also to another host cluster and back.
    pub fn is_of(&self, secret: &Secret) -> bool {
        let is_same = self.uid.is_none() || self.uid == secret.uid();
        is_same && secret.labels().get(OWNER) == Some(&self.owner)
    }

    pub(super) fn key(&self) -> Key {
        (self.namespace.clone(), self.name.clone())
    }
}
