//! Connection to the host cluster: clients that follow the kubeconfig, and send nothing to a host that is down.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use http::{Request, Response};
use jiff::Timestamp;
use kube::Client;
use kube::client::Body;
use kube::config::{KubeConfigOptions, Kubeconfig, KubeconfigError};
use kube::core::Status;
use tokio::time::Instant;

use crate::credential::{self, Notice};
use crate::health::{HostHealth, Outcome};
use crate::metrics::HostMetrics;

/// Time limit of a request: every request through the host waits for a SubjectAccessReview.
pub(crate) const DEADLINE: Duration = Duration::from_secs(10);

/// Longest silence of a watch: the host ends each watch before that.
const WATCHED: Duration = Duration::from_secs(295);

/// Time after which a request that is given up counts as one without an answer: a little less than the prober waits.
const TIMED_OUT: Duration = Duration::from_millis(900);

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
    health: HostHealth,
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
    /// A request of the prober, which is sent to any host.
    Probe,
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
        let config = configuration(kubeconfig).await?;
        let fingerprint = credential::fingerprint(kubeconfig, &config);
        let (clients, end) = (Clients::new(kubeconfig, &config)?, credential::end(&config.auth_info));
        metrics.set_credential_end(end);
        let credential = Credential { fingerprint, end, notice: Notice::default(), error: String::new() };
        Ok(Self(Arc::new(Shared {
            kubeconfig: kubeconfig.to_owned(),
            clients: RwLock::new(clients),
            credential: Mutex::new(credential),
            health: HostHealth::new(metrics.clone()),
            metrics,
        })))
    }

    /// Returns the health of the host, as the requests of these clients and the prober observe it.
    pub fn health(&self) -> HostHealth {
        self.0.health.clone()
    }

    /// Returns a client for requests. It uses the newest kubeconfig for each of them. While the host is cut off, each
    /// request fails at once with 503.
    pub fn client(&self) -> Client {
        self.client_for(Purpose::Request)
    }

    /// Returns a client for watches. It uses the newest kubeconfig for each of them.
    pub fn watching(&self) -> Client {
        self.client_for(Purpose::Watch)
    }

    /// Returns the client of the prober.
    pub(crate) fn probing(&self) -> Client {
        self.client_for(Purpose::Probe)
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
        let kubeconfig = &self.0.kubeconfig;
        // A change during the read gives another fingerprint next time.
        let config = configuration(kubeconfig).await?;
        let fingerprint = credential::fingerprint(kubeconfig, &config);
        let mut credential = self.credential();
        credential.error.clear();
        if credential.fingerprint == fingerprint {
            return Ok(false);
        }
        let (clients, end) = (Clients::new(kubeconfig, &config)?, credential::end(&config.auth_info));
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
            tracing::error!(
                error,
                "the kubeconfig of the host cluster cannot be used; the last one stays in use"
            );
        }
    }

    fn credential(&self) -> std::sync::MutexGuard<'_, Credential> {
        self.0.credential.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Shared {
    async fn send(&self, purpose: Purpose, request: Request<Body>) -> Result<Response<Body>, kube::Error> {
        if purpose != Purpose::Probe && self.health.state().is_cut_off() {
            return Err(cut_off());
        }
        let pending = Pending { health: &self.health, begun: Instant::now(), purpose, is_done: false };
        pending.end(self.client(purpose).send(request).await)
    }

    fn client(&self, purpose: Purpose) -> Client {
        let clients = self.clients.read().unwrap_or_else(PoisonError::into_inner);
        match purpose {
            Purpose::Request | Purpose::Probe => clients.requests.clone(),
            Purpose::Watch => clients.watches.clone(),
        }
    }
}

/// Request in flight, whose result is recorded. If it is dropped, its caller has stopped waiting.
struct Pending<'a> {
    health: &'a HostHealth,
    begun: Instant,
    purpose: Purpose,
    is_done: bool,
}

impl Pending<'_> {
    fn end<T>(mut self, result: Result<T, kube::Error>) -> Result<T, kube::Error> {
        self.is_done = true;
        match &result {
            // The beginning of a watch may take as long as its first event.
            Ok(_) if self.purpose == Purpose::Watch => {}
            Ok(_) => self.health.request(Outcome::Answer(self.begun.elapsed())),
            Err(_) => self.health.request(Outcome::Failure),
        }
        result
    }
}

impl Drop for Pending<'_> {
    fn drop(&mut self) {
        // A caller that leaves earlier says nothing about the host.
        if !self.is_done && self.purpose != Purpose::Watch && self.begun.elapsed() >= TIMED_OUT {
            self.health.request(Outcome::TimedOut);
        }
    }
}

/// Returns the error of a request to a host that is cut off.
pub(crate) fn cut_off() -> kube::Error {
    let text = "the host cluster does not answer";
    kube::Error::Api(Status::failure(text, "ServiceUnavailable").with_code(503).boxed())
}

impl Clients {
    fn new(kubeconfig: &Path, config: &kube::Config) -> Result<Self, ConnectError> {
        let requests = client(kubeconfig, config.clone(), DEADLINE)?;
        let watches = client(kubeconfig, config.clone(), WATCHED)?;
        Ok(Self { requests, watches })
    }
}

pub(crate) async fn configuration(kubeconfig: &Path) -> Result<kube::Config, ConnectError> {
    let read = Kubeconfig::read_from(kubeconfig).map_err(|error| unreadable(kubeconfig, &error))?;
    let options = KubeConfigOptions::default();
    let config = kube::Config::from_custom_kubeconfig(read, &options).await;
    config.map_err(|error| unusable(kubeconfig, &error))
}

pub(crate) fn client(
    kubeconfig: &Path,
    mut config: kube::Config,
    patience: Duration,
) -> Result<Client, ConnectError> {
    config.connect_timeout = Some(DEADLINE);
    config.read_timeout = Some(patience);
    Client::try_from(config).map_err(|error| unusable(kubeconfig, &error))
}

/// Returns the place of an error, and not its text: the parser quotes the lines around it, which can have credentials.
fn unreadable(kubeconfig: &Path, error: &KubeconfigError) -> ConnectError {
    let KubeconfigError::Parse(error) = error else { return unusable(kubeconfig, error) };
    let place = error.location().map(|place| format!(" at line {} column {}", place.line(), place.column()));
    let detail = format!("it is no kubeconfig in YAML{}", place.unwrap_or_default());
    ConnectError { path: kubeconfig.display().to_string(), detail }
}

pub(crate) fn unusable(kubeconfig: &Path, error: &dyn std::error::Error) -> ConnectError {
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
