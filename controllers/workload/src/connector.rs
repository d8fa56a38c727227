//! Creation of API clients from kubeconfigs.

use std::fmt::Debug;

use async_trait::async_trait;
use kube::Client;

use crate::WorkloadError;

/// Connector that creates API clients of workload clusters.
#[async_trait]
pub trait WorkloadConnector: Send + Sync + Debug + 'static {
    /// Returns a client for the current context of a kubeconfig in YAML. No call is made yet.
    ///
    /// # Errors
    /// The kubeconfig cannot be used.
    async fn client(&self, kubeconfig: &[u8]) -> Result<Client, WorkloadError>;
}

/// Connector over the network.
#[derive(Debug, Default)]
pub struct KubeconfigConnector;

#[async_trait]
impl WorkloadConnector for KubeconfigConnector {
    async fn client(&self, _kubeconfig: &[u8]) -> Result<Client, WorkloadError> {
        Err(WorkloadError::Kubeconfig("not written yet".to_owned()))
    }
}
