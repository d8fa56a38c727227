//! A client of the host.

use std::path::Path;
use std::time::Duration;

use kube::config::{KubeConfigOptions, Kubeconfig};

/// Longest the host may take to answer: a SubjectAccessReview stands before every request of ours.
const DEADLINE: Duration = Duration::from_secs(10);

/// Why there is no client.
#[derive(Debug, thiserror::Error)]
#[error("{path}: is not a kubeconfig that can be used: {detail}")]
pub struct ConnectError {
    path: String,
    detail: String,
}

/// Longest a watch may say nothing: the host ends each of its own accord before that.
const WATCHED: Duration = Duration::from_secs(295);

/// A client with the identity in a kubeconfig, for questions. Nothing is sent yet.
///
/// # Errors
/// [`ConnectError`] names the file and what is wrong with it.
pub async fn connect(kubeconfig: &Path) -> Result<kube::Client, ConnectError> {
    client(kubeconfig, DEADLINE).await
}

/// The same, for watches.
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

/// Whether an error says nothing about what was asked: the host was not reached, is overloaded or
/// broken. Anything else is its answer.
pub(crate) fn is_silence(error: &kube::Error) -> bool {
    match error {
        kube::Error::Api(status) => status.code == 429 || status.code >= 500,
        _ => true,
    }
}
