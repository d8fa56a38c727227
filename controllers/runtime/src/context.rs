//! Context of a controller: its API client, and the parts that all controllers share.

use std::fmt::Debug;
use std::sync::Arc;

use controllers_infrastructure::{Cloud, CloudConnector, Connection};
use controllers_workload::WorkloadClusters;
use kube::Client;

use crate::{Queues, ReconcileError, Recorder, SecretSource, ServedKind, ServerLists, read_credentials};
use apiserver_types::OpenStackIdentityReference;

/// Context of a controller.
#[derive(Clone)]
pub struct ControllerContext {
    /// The API, as the controller's own identity.
    pub client: Client,
    /// Creates clouds from credentials.
    pub connector: Arc<dyn CloudConnector>,
    /// Source of credentials and bootstrap data.
    pub secrets: Arc<dyn SecretSource>,
    /// Servers of each project, listed once for all controllers.
    pub servers: Arc<ServerLists>,
    /// Connections to the workload clusters.
    pub workloads: Arc<WorkloadClusters>,
    /// Recorder of Events.
    pub events: Recorder,
    /// Metrics of queues.
    pub queues: Queues,
    /// Every kind that the API serves.
    pub kinds: Arc<[ServedKind]>,
}

impl Debug for ControllerContext {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ControllerContext").field("connector", &self.connector).finish_non_exhaustive()
    }
}

impl ControllerContext {
    /// Connects to the cloud that an identity names.
    ///
    /// # Errors
    /// A cloud error that names the Secret or the identity and its error, or the cloud's refusal of the login.
    pub async fn cloud(
        &self,
        namespace: &str,
        identity: &OpenStackIdentityReference,
    ) -> Result<Arc<dyn Cloud>, ReconcileError> {
        Ok(self.connect(namespace, identity).await?.cloud)
    }

    /// Connects to the cloud that an identity names, with earlier credentials if the present ones are refused.
    ///
    /// # Errors
    /// As of `cloud`.
    pub async fn connect(
        &self,
        namespace: &str,
        identity: &OpenStackIdentityReference,
    ) -> Result<Connection, ReconcileError> {
        let credentials = read_credentials(&self.client, self.secrets.as_ref(), namespace, identity).await?;
        let source = crate::credentials::source(namespace, identity);
        Ok(self.connector.connect_from(&source, &credentials).await?)
    }
}
