//! Context of a controller: its API client, and the parts that all controllers share.

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use controllers_infrastructure::{Cloud, CloudConnector, CloudError, Connection, Credentials, ErrorClass};
use controllers_workload::WorkloadClusters;
use kube::Client;

use crate::{
    ControllerSettings, EventHolds, Queues, ReconcileError, Recorder, SecretSource, ServedKind, ServerLists,
    TermStart,
};
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
    /// Servers of each project, listed once for all controllers, and what looks at rest share.
    pub servers: Arc<ServerLists>,
    /// Connections to the workload clusters.
    pub workloads: Arc<WorkloadClusters>,
    /// Recorder of Events.
    pub events: Recorder,
    /// Holds on Events that must not expire yet.
    pub event_holds: Arc<dyn EventHolds>,
    /// Metrics of queues.
    pub queues: Queues,
    /// Every kind that the API serves.
    pub kinds: Arc<[ServedKind]>,
    /// Settings of the operator.
    pub settings: Arc<ControllerSettings>,
    /// Begin of the term in which the controllers run.
    pub term: TermStart,
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
        let (credentials, _) = self.credentials(namespace, identity).await?;
        self.connect_with(namespace, identity, &credentials).await
    }

    /// Reads the credentials that an identity names, with the age of the copy of their Secret. Zero: it is no copy.
    ///
    /// # Errors
    /// A cloud error that names the Secret or the identity and its error; the API's own.
    pub async fn credentials(
        &self,
        namespace: &str,
        identity: &OpenStackIdentityReference,
    ) -> Result<(Credentials, Duration), ReconcileError> {
        crate::credentials::read_aged(&self.client, self.secrets.as_ref(), namespace, identity).await
    }

    /// Connects to a cloud as [`connect`](Self::connect) does, with credentials that [`credentials`](Self::credentials)
    /// has read.
    ///
    /// # Errors
    /// The cloud's refusal of the login.
    pub async fn connect_with(
        &self,
        namespace: &str,
        identity: &OpenStackIdentityReference,
        credentials: &Credentials,
    ) -> Result<Connection, ReconcileError> {
        let source = crate::credentials::source(namespace, identity);
        let with_remedy = |error| with_remedy(error, namespace, identity);
        let Connection { cloud, refused } =
            self.connector.connect_from(&source, credentials).await.map_err(with_remedy)?;
        Ok(Connection { cloud, refused: refused.map(with_remedy) })
    }
}

/// Adds to an error of a login where the credentials come from, and what to do if they are wrong.
fn with_remedy(mut error: CloudError, namespace: &str, identity: &OpenStackIdentityReference) -> CloudError {
    let source = crate::credentials::words(namespace, identity);
    error.operation = format!("{} with cloud {:?} of {source}", error.operation, identity.cloud_name);
    let remedy = match error.class {
        ErrorClass::Unauthorized | ErrorClass::Forbidden => "Correct the credentials in the Secret",
        ErrorClass::Credentials => "Correct the Secret, or identityRef.cloudName",
        ErrorClass::Unreachable => "Check auth_url in the Secret, and that Capstan can reach that address",
        _ => return error,
    };
    error.message = format!("{}. {remedy}", error.message.trim_end_matches('.'));
    error
}

#[cfg(test)]
mod tests {
    use apiserver_types::IdentityType;

    use super::*;

    #[test]
    fn an_error_of_a_login_names_the_secret_and_the_remedy() {
        let shown = |class, kind| {
            let identity = OpenStackIdentityReference {
                name: "openrc".to_owned(),
                cloud_name: "prod".to_owned(),
                kind,
                ..OpenStackIdentityReference::default()
            };
            with_remedy(CloudError::new(class, "log in", "No."), "team", &identity).to_string()
        };
        let wrong = shown(ErrorClass::Unauthorized, None);
        let source = "log in with cloud \"prod\" of Secret team/openrc";
        assert_eq!(wrong, format!("{source}: No. Correct the credentials in the Secret"));
        assert_eq!(shown(ErrorClass::Broken, None), format!("{source}: No."));
        let shared = shown(ErrorClass::Credentials, Some(IdentityType::ClusterIdentity));
        assert!(shared.contains("the Secret of OpenStackClusterIdentity openrc: No. Correct"), "{shared}");
        assert!(!shared.contains("team"), "{shared}");
    }
}
