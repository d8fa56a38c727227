//! The host's namespaces: an object that comes through the host lives in one of those.

use apiserver_machinery::status::{ApiError, ApiResult};
use apiserver_machinery::store::NamespaceSource;
use async_trait::async_trait;
use k8s_openapi::api::core::v1::Namespace;
use kube::{Api, Client};
use serde_json::Value;

/// Asks the host for a namespace when our own store does not have it.
#[derive(Clone)]
pub struct HostNamespaces(Client);

impl std::fmt::Debug for HostNamespaces {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HostNamespaces").finish_non_exhaustive()
    }
}

impl HostNamespaces {
    /// Asks through this client.
    pub fn new(client: Client) -> Self {
        Self(client)
    }
}

#[async_trait]
impl NamespaceSource for HostNamespaces {
    async fn namespace(&self, name: &str) -> ApiResult<Option<Value>> {
        let api: Api<Namespace> = Api::all(self.0.clone());
        match api.get_opt(name).await {
            Ok(found) => found
                .map(|namespace| {
                    serde_json::to_value(namespace).map_err(|error| ApiError::internal(error.to_string()))
                })
                .transpose(),
            Err(error) => {
                tracing::warn!(%error, namespace = name, "the host did not answer for a namespace");
                Err(ApiError::unavailable(format!(
                    "namespace {name:?} is not known here and the host cluster cannot be asked for it"
                )))
            }
        }
    }
}
