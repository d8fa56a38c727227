//! Connection to the host cluster: clients that follow the kubeconfig.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use http::{Request, Response};
use jiff::Timestamp;
use kube::Client;
use kube::client::Body;
use kube::config::{KubeConfigOptions, Kubeconfig};

use crate::credential::{self, Notice};
use crate::metrics::HostMetrics;

/// Time limit of a request: every request through the host waits for a SubjectAccessReview.
const DEADLINE: Duration = Duration::from_secs(10);

/// Longest silence of a watch: the host ends each watch before that.
const WATCHED: Duration = Duration::from_secs(295);

/// Interval at which the kubeconfig and its files are read again. A renewed credential is in use after that.
const POLL_INTERVAL: Duration = Duration::from_secs(15);

/// Error of a kubeconfig.
#[derive(Debug, thiserror::Error)]
#[error("{path}: not a usable kubeconfig: {detail}")]
pub struct ConnectError {
    path: String,
    detail: String,
}

/// Creates a client for requests, with the identity in a kubeconfig. Nothing is sent yet. The client does not follow
/// changes of the file.
///
/// # Errors
/// [`ConnectError`] names the file and its error.
pub async fn connect(kubeconfig: &Path) -> Result<Client, ConnectError> {
    client(kubeconfig, configuration(kubeconfig).await?, DEADLINE)
}

/// Connection to the host, as its kubeconfig describes it now. Clones share it.
#[derive(Clone)]
pub struct HostConnection(Arc<Shared>);

struct Shared {
    kubeconfig: PathBuf,
    clients: RwLock<Clients>,
    credential: Mutex<Credential>,
    metrics: HostMetrics,
}

/// Clients of one state of the kubeconfig.
struct Clients {
    requests: Client,
    watches: Client,
}

/// The credential in use.
struct Credential {
    /// Hash of the kubeconfig and its files.
    fingerprint: Vec<u8>,
    end: Option<Timestamp>,
    notice: Notice,
    /// Error of the newest state of the files, which is not in use.
    error: String,
}

/// Purpose of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Purpose {
    Request,
    Watch,
}

impl std::fmt::Debug for HostConnection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HostConnection").finish_non_exhaustive()
    }
}

impl HostConnection {
    /// Reads a kubeconfig. Nothing is sent yet.
    ///
    /// # Errors
    /// [`ConnectError`] names the file and its error.
    pub async fn open(kubeconfig: &Path, metrics: HostMetrics) -> Result<Self, ConnectError> {
        let (clients, fingerprint, end) = read(kubeconfig).await?;
        metrics.set_credential_end(end);
        let credential = Credential { fingerprint, end, notice: Notice::default(), error: String::new() };
        Ok(Self(Arc::new(Shared {
            kubeconfig: kubeconfig.to_owned(),
            clients: RwLock::new(clients),
            credential: Mutex::new(credential),
            metrics,
        })))
    }

    /// Returns a client for requests. It uses the newest kubeconfig for each of them.
    pub fn client(&self) -> Client {
        self.client_for(Purpose::Request)
    }

    /// Returns a client for watches. It uses the newest kubeconfig for each of them.
    pub fn watching(&self) -> Client {
        self.client_for(Purpose::Watch)
    }

    fn client_for(&self, purpose: Purpose) -> Client {
        let shared = Arc::clone(&self.0);
        let service = tower::service_fn(move |request: Request<Body>| {
            let shared = Arc::clone(&shared);
            async move { shared.send(purpose, request).await }
        });
        Client::new(service, "default")
    }

    /// Follows the kubeconfig and the files that it names. Never returns. Files that cannot be used change nothing.
    pub async fn follow(&self) {
        loop {
            self.warn_of_end(Timestamp::now());
            tokio::time::sleep(POLL_INTERVAL).await;
            match self.reload().await {
                Ok(true) => tracing::info!(
                    kubeconfig = %self.0.kubeconfig.display(),
                    "the kubeconfig of the host cluster changed; new requests use it"
                ),
                Ok(false) => {}
                Err(error) => self.warn_of_error(&error.to_string()),
            }
        }
    }

    /// Reads the files again. Returns true if they changed and are in use now.
    async fn reload(&self) -> Result<bool, ConnectError> {
        let (clients, fingerprint, end) = read(&self.0.kubeconfig).await?;
        let mut credential = self.credential();
        credential.error.clear();
        if credential.fingerprint == fingerprint {
            return Ok(false);
        }
        *self.0.clients.write().unwrap_or_else(PoisonError::into_inner) = clients;
        self.0.metrics.set_credential_end(end);
        *credential = Credential { fingerprint, end, notice: Notice::default(), error: String::new() };
        Ok(true)
    }

    /// Logs that the credential ends within a week, once, and within a day, once.
    fn warn_of_end(&self, now: Timestamp) {
        let mut credential = self.credential();
        let Some(end) = credential.end.filter(|end| credential.notice.is_due(*end, now)) else { return };
        tracing::warn!(
            %end,
            kubeconfig = %self.0.kubeconfig.display(),
            "the client certificate of Capstan in the host cluster ends soon: renew it in the kubeconfig, which is read again without a restart"
        );
    }

    /// Logs an error of the files, once.
    fn warn_of_error(&self, error: &str) {
        let mut credential = self.credential();
        if credential.error != error {
            error.clone_into(&mut credential.error);
            tracing::error!(error, "the kubeconfig of the host cluster cannot be used; the last one stays in use");
        }
    }

    fn credential(&self) -> std::sync::MutexGuard<'_, Credential> {
        self.0.credential.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Shared {
    async fn send(&self, purpose: Purpose, request: Request<Body>) -> Result<Response<Body>, kube::Error> {
        let client = self.client(purpose);
        client.send(request).await
    }

    fn client(&self, purpose: Purpose) -> Client {
        let clients = self.clients.read().unwrap_or_else(PoisonError::into_inner);
        match purpose {
            Purpose::Request => clients.requests.clone(),
            Purpose::Watch => clients.watches.clone(),
        }
    }
}

/// Returns the clients of a kubeconfig, its fingerprint, and the end of its client certificate.
async fn read(kubeconfig: &Path) -> Result<(Clients, Vec<u8>, Option<Timestamp>), ConnectError> {
    // A change during the read gives another fingerprint next time.
    let config = configuration(kubeconfig).await?;
    let fingerprint = credential::fingerprint(kubeconfig, &config);
    let end = credential::end(&config.auth_info);
    let requests = client(kubeconfig, config.clone(), DEADLINE)?;
    let watches = client(kubeconfig, config, WATCHED)?;
    Ok((Clients { requests, watches }, fingerprint, end))
}

async fn configuration(kubeconfig: &Path) -> Result<kube::Config, ConnectError> {
    let read = Kubeconfig::read_from(kubeconfig).map_err(|error| unusable(kubeconfig, &error))?;
    let options = KubeConfigOptions::default();
    let config = kube::Config::from_custom_kubeconfig(read, &options).await;
    config.map_err(|error| unusable(kubeconfig, &error))
}

fn client(kubeconfig: &Path, mut config: kube::Config, patience: Duration) -> Result<Client, ConnectError> {
    config.connect_timeout = Some(DEADLINE);
    config.read_timeout = Some(patience);
    Client::try_from(config).map_err(|error| unusable(kubeconfig, &error))
}

fn unusable(kubeconfig: &Path, error: &dyn std::error::Error) -> ConnectError {
    ConnectError { path: kubeconfig.display().to_string(), detail: error.to_string() }
}

/// Returns true if the host was not reached, is overloaded or has failed. Any other error is the host's answer.
pub(crate) fn is_silence(error: &kube::Error) -> bool {
    match error {
        kube::Error::Api(status) => status.code == 429 || status.code >= 500,
        _ => true,
    }
}

#[cfg(test)]
mod tests;
