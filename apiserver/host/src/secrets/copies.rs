//! Copies of Secrets that outlive the process.

use std::fmt::Debug;
use std::time::Duration;

use async_trait::async_trait;
use k8s_openapi::api::core::v1::Secret;

/// Longest age of the copy of bootstrap data. The join token in it ends at about that time.
pub(super) const BOOTSTRAP_DATA: Duration = Duration::from_secs(24 * 3600);

/// Type of the Secrets of Cluster API.
const CLUSTER_SECRET: &str = "cluster.x-k8s.io/secret";

/// Key in bootstrap data that no other Secret of Cluster API has.
const FORMAT: &str = "format";

/// Copies of the host's Secrets in Capstan's own store. An error of the store is logged, and is no copy.
#[async_trait]
pub trait SecretCopies: Debug + Send + Sync {
    /// Returns the copy of a Secret, with its age.
    async fn read(&self, namespace: &str, name: &str) -> Option<(Secret, Duration)>;

    /// Keeps the copy of a Secret that the host has returned now.
    async fn write(&self, secret: &Secret);

    /// Removes the copy of a Secret.
    async fn remove(&self, namespace: &str, name: &str);

    /// Returns namespace and name of all copies.
    async fn names(&self) -> Vec<(String, String)>;

    /// Returns true if a Secret of the host, which has the label of those that Capstan writes there, is one of them. `None` if
    /// the store does not answer.
    async fn is_written_back(&self, secret: &Secret) -> Option<bool>;
}

/// Copies in memory alone.
#[derive(Debug)]
pub(super) struct NoCopies;

#[async_trait]
impl SecretCopies for NoCopies {
    async fn read(&self, _: &str, _: &str) -> Option<(Secret, Duration)> {
        None
    }

    async fn write(&self, _: &Secret) {}

    async fn remove(&self, _: &str, _: &str) {}

    async fn names(&self) -> Vec<(String, String)> {
        Vec::new()
    }

    /// Without records, the label decides.
    async fn is_written_back(&self, _: &Secret) -> Option<bool> {
        Some(true)
    }
}

/// Returns true if a copy of this age is too old to be used.
pub(super) fn is_stale(secret: &Secret, age: Duration) -> bool {
    let is_bootstrap_data = secret.type_.as_deref() == Some(CLUSTER_SECRET)
        && secret.data.as_ref().is_some_and(|data| data.contains_key(FORMAT));
    is_bootstrap_data && age > BOOTSTRAP_DATA
}
