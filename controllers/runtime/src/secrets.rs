//! Sources of Secrets.

use std::fmt::Debug;

use async_trait::async_trait;
use k8s_openapi::api::core::v1::Secret;
use kube::{Api, Client};

/// Source of Secrets: our own API, or a host cluster.
#[async_trait]
pub trait SecretSource: Send + Sync + Debug + 'static {
    /// Reads one Secret; `None` if it does not exist.
    ///
    /// # Errors
    /// The source cannot be read.
    async fn secret(&self, namespace: &str, name: &str) -> Result<Option<Secret>, kube::Error>;
}

/// Secrets read through the API.
#[derive(Clone)]
pub struct ApiSecrets(pub Client);

impl Debug for ApiSecrets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ApiSecrets")
    }
}

#[async_trait]
impl SecretSource for ApiSecrets {
    async fn secret(&self, namespace: &str, name: &str) -> Result<Option<Secret>, kube::Error> {
        Api::namespaced(self.0.clone(), namespace).get_opt(name).await
    }
}
