//! Client of the host cluster.

use std::path::Path;
use std::time::Duration;

use kube::config::{KubeConfigOptions, Kubeconfig};

/// Time limit of a request: every request through the host waits for a SubjectAccessReview.
const DEADLINE: Duration = Duration::from_secs(10);

/// Error of a kubeconfig.
#[derive(Debug, thiserror::Error)]
#[error("{path}: not a usable kubeconfig: {detail}")]
pub struct ConnectError {
    path: String,
    detail: String,
}

/// Longest silence of a watch: the host ends each watch before that.
const WATCHED: Duration = Duration::from_secs(295);

/// Creates a client for requests, with the identity in a kubeconfig. Nothing is sent yet.
///
/// # Errors
/// [`ConnectError`] names the file and its error.
pub async fn connect(kubeconfig: &Path) -> Result<kube::Client, ConnectError> {
    client(kubeconfig, DEADLINE).await
}

/// Creates a client for watches.
///
/// # Errors
/// As [`connect`].
pub async fn connect_to_watch(kubeconfig: &Path) -> Result<kube::Client, ConnectError> {
    client(kubeconfig, WATCHED).await
}

async fn client(kubeconfig: &Path, patience: Duration) -> Result<kube::Client, ConnectError> {
    let failed = |detail: String| ConnectError { path: kubeconfig.display().to_string(), detail };
    let read = Kubeconfig::read_from(kubeconfig).map_err(|error| failed(error.to_string()))?;
    let options = KubeConfigOptions::default();
    let config = kube::Config::from_custom_kubeconfig(read, &options).await;
    let mut config = config.map_err(|error| failed(error.to_string()))?;
    config.connect_timeout = Some(DEADLINE);
    config.read_timeout = Some(patience);
    kube::Client::try_from(config).map_err(|error| failed(error.to_string()))
}

/// Returns true if the host was not reached, is overloaded or has failed. Any other error is the host's answer.
pub(crate) fn is_silence(error: &kube::Error) -> bool {
    match error {
        kube::Error::Api(status) => status.code == 429 || status.code >= 500,
        _ => true,
    }
}
