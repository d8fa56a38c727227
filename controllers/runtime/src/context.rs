//! What a controller is given to work with.

use std::fmt::Debug;
use std::sync::Arc;

use controllers_infrastructure::{Cloud, CloudConnector};
use kube::Client;

use crate::{Queues, ReconcileError, Recorder, SecretSource, ServedKind, ServerLists, credentials};
use apiserver_types::OpenStackIdentityReference;

/// What a controller works with.
#[derive(Clone)]
pub struct ControllerContext {
    /// The API, as the controller's own identity.
    pub client: Client,
    /// Makes clouds from credentials.
    pub connector: Arc<dyn CloudConnector>,
    /// Where credentials and bootstrap data are.
    pub secrets: Arc<dyn SecretSource>,
    /// The servers of each project, listed once for all.
    pub servers: Arc<ServerLists>,
    /// Tells people.
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
    /// The cloud that an identity leads to.
    ///
    /// # Errors
    /// A cloud error of class `Credentials` that names the Secret and what is wrong with it, or why
    /// the cloud did not let us in.
    pub async fn cloud(
        &self,
        namespace: &str,
        identity: &OpenStackIdentityReference,
    ) -> Result<Arc<dyn Cloud>, ReconcileError> {
        let credentials = credentials::read(self.secrets.as_ref(), namespace, identity).await?;
        Ok(self.connector.connect(&credentials).await?)
    }
}
