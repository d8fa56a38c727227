//! One of several servers runs the controllers: the one that holds a Lease in our own store, so
//! that an election works when the host does not.

mod record;
#[cfg(test)]
mod tests;

use std::time::Duration;

use apiserver_executor::RestartCounter;
use controllers_runtime::PolicyRule;
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::PostParams;
use kube::{Api, Client};
use storage_contract::Outage;
use tokio::task::{JoinError, JoinSet};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use record::View;

const NAMESPACE: &str = "capstan-system";
const NAME: &str = "capstan-controllers";

/// Identity of the candidate.
pub(crate) const IDENTITY: &str = "leader-election";

/// Permissions of the candidate.
pub(crate) const RULES: &[PolicyRule] = &[
    PolicyRule { groups: &["coordination.k8s.io"], resources: &["leases"], verbs: PolicyRule::WRITE },
    PolicyRule { groups: &[""], resources: &["namespaces"], verbs: &["get", "create"] },
];

/// The times of an election.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Timing {
    /// How long the others wait after the holder's last sign of life.
    lease: Duration,
    /// How often the holder gives one.
    renew: Duration,
    /// How long after its last good one the holder stops.
    deadline: Duration,
    /// How long controllers that were told to stop may take. With `deadline` it is less than
    /// `lease`: nobody acts any more when the next holder begins.
    grace: Duration,
    /// How often the others look, and how soon a failed attempt is made again.
    retry: Duration,
}

impl Default for Timing {
    fn default() -> Self {
        let seconds = Duration::from_secs;
        Self {
            lease: seconds(15),
            renew: seconds(5),
            deadline: seconds(10),
            grace: seconds(3),
            retry: seconds(1),
        }
    }
}

/// A candidate.
///
/// *Guarantees.* As long as a monotonic clock runs equally fast everywhere, what two candidates
/// started never runs at the same time. The times in the Lease are for people: each side goes by
/// how long ago it saw something change itself, so no wall clock has to be right, or to stand still.
pub(crate) struct Election {
    leases: Api<Lease>,
    namespaces: Api<Namespace>,
    identity: String,
    timing: Timing,
    alone: bool,
    restarts: Option<RestartCounter>,
}

impl Election {
    /// A candidate of this name, which must be nobody else's.
    pub(crate) fn new(client: Client, identity: String, timing: Timing) -> Self {
        let leases = Api::namespaced(client.clone(), NAMESPACE);
        Self { leases, namespaces: Api::all(client), identity, timing, alone: false, restarts: None }
    }

    /// A candidate whose store nobody else can have open: whoever holds the Lease is no more.
    pub(crate) fn alone(self, alone: bool) -> Self {
        Self { alone, ..self }
    }

    /// Counts each time that a controller ended by itself and all were restarted.
    pub(crate) fn counting_restarts(self, restarts: RestartCounter) -> Self {
        Self { restarts: Some(restarts), ..self }
    }

    /// Runs what `start` starts whenever it is elected, until `shutdown`; then gives the Lease back.
    /// The token given to `start` is cancelled as soon as the Lease is lost; who does not end soon
    /// after that is aborted.
    pub(crate) async fn run(
        self,
        shutdown: CancellationToken,
        start: impl Fn(CancellationToken) -> JoinSet<()> + Send,
    ) {
        while let Some(acquired) = shutdown.run_until_cancelled(self.acquire()).await {
            tracing::info!(identity = self.identity, "elected; starting the controllers");
            let term = shutdown.child_token();
            let mut controllers = start(term.clone());
            self.hold(acquired, &shutdown, &mut controllers).await;
            term.cancel();
            self.end(controllers).await;
            if !shutdown.is_cancelled() {
                tracing::warn!(identity = self.identity, "no longer elected; the controllers have stopped");
                shutdown.run_until_cancelled(tokio::time::sleep(self.timing.retry)).await;
            }
        }
        self.release().await;
    }

    /// Tries until the Lease is ours; since when it is, at the latest.
    async fn acquire(&self) -> Instant {
        let mut view = View::default();
        let started = Instant::now();
        let mut outage = Outage::default();
        loop {
            let asked = Instant::now();
            let why = match tokio::time::timeout(self.timing.renew, self.try_acquire(&mut view)).await {
                Ok(Ok(true)) => return asked,
                Ok(Ok(false)) => None,
                Ok(Err(error)) => Some(error_text(&error)),
                Err(_) => Some("no answer".to_owned()),
            };
            // The server may still be reading its store.
            let is_early = started.elapsed() < self.timing.renew;
            if let Some(why) = why.filter(|_| !is_early && outage.should_log()) {
                tracing::warn!(why, "cannot acquire the controller lease; retrying");
            }
            tokio::time::sleep(self.timing.retry).await;
        }
    }

    async fn try_acquire(&self, view: &mut View) -> Result<bool, kube::Error> {
        let Some(lease) = self.leases.get_opt(NAME).await? else { return self.create().await };
        view.observe(&lease, Instant::now());
        if !self.alone && !view.is_free(&self.identity, self.timing.lease, Instant::now()) {
            return Ok(false);
        }
        let spec = record::taken(&lease, &self.identity, self.timing.lease, Timestamp::now());
        settled(self.leases.replace(NAME, &PostParams::default(), &Lease { spec: Some(spec), ..lease }).await)
    }

    /// Makes the Lease, and before it the namespace when there is none.
    async fn create(&self) -> Result<bool, kube::Error> {
        let metadata = ObjectMeta { name: Some(NAME.to_owned()), ..ObjectMeta::default() };
        let spec = record::taken(&Lease::default(), &self.identity, self.timing.lease, Timestamp::now());
        let lease = Lease { metadata, spec: Some(spec) };
        match self.leases.create(&PostParams::default(), &lease).await {
            Err(kube::Error::Api(status)) if status.code == 404 => {
                let metadata = ObjectMeta { name: Some(NAMESPACE.to_owned()), ..ObjectMeta::default() };
                let namespace = Namespace { metadata, ..Namespace::default() };
                settled(self.namespaces.create(&PostParams::default(), &namespace).await)?;
                Ok(false)
            }
            other => settled(other),
        }
    }

    /// Keeps the Lease; returns when it is lost, on `shutdown`, and when a controller ended by
    /// itself, which none should: then all are started again.
    async fn hold(&self, mut good: Instant, shutdown: &CancellationToken, controllers: &mut JoinSet<()>) {
        loop {
            tokio::select! {
                biased;
                () = shutdown.cancelled() => return,
                Some(ended) = controllers.join_next() => return self.log_end(&ended),
                () = tokio::time::sleep(self.timing.renew) => {}
            }
            // From before the attempt on: the others count from when they see it, which is later.
            let renewed = tokio::time::timeout_at(good + self.timing.deadline, self.renew());
            match shutdown.run_until_cancelled(renewed).await {
                Some(Ok(Some(at))) => good = at,
                Some(Ok(None)) => return tracing::warn!("another replica holds the controller lease"),
                Some(Err(_)) => {
                    return tracing::warn!("could not renew the controller lease in time");
                }
                None => return,
            }
        }
    }

    /// Tries until the Lease is renewed, or is not ours; as of when.
    async fn renew(&self) -> Option<Instant> {
        loop {
            let asked = Instant::now();
            match tokio::time::timeout(self.timing.renew, self.try_renew()).await {
                Ok(Ok(true)) => return Some(asked),
                Ok(Ok(false)) => return None,
                Ok(Err(error)) => {
                    tracing::debug!(%error, "could not renew the controller lease; retrying")
                }
                Err(_) => {
                    tracing::debug!("could not renew the controller lease: no answer; retrying")
                }
            }
            tokio::time::sleep(self.timing.retry).await;
        }
    }

    /// Whether it is still ours. A failure leaves that open, and so does a write in between.
    async fn try_renew(&self) -> Result<bool, kube::Error> {
        let Some(lease) = self.leases.get_opt(NAME).await? else { return Ok(false) };
        if !record::is_held_by(&lease, &self.identity) {
            return Ok(false);
        }
        let spec = record::taken(&lease, &self.identity, self.timing.lease, Timestamp::now());
        self.leases.replace(NAME, &PostParams::default(), &Lease { spec: Some(spec), ..lease }).await?;
        Ok(true)
    }

    fn log_end(&self, ended: &Result<(), JoinError>) {
        if let Some(restarts) = &self.restarts {
            restarts.increment();
        }
        match ended {
            Ok(()) => tracing::error!("controller ended; restarting all controllers"),
            Err(error) => tracing::error!(%error, "controller failed; restarting all controllers"),
        }
    }

    /// Waits for the controllers to end, and ends those that do not.
    async fn end(&self, mut controllers: JoinSet<()>) {
        let all = async { while controllers.join_next().await.is_some() {} };
        if tokio::time::timeout(self.timing.grace, all).await.is_err() {
            tracing::warn!(running = controllers.len(), "controllers did not stop in time; aborting them");
            controllers.shutdown().await;
        }
    }

    /// Gives the Lease back, if it is ours, so that the next one need not wait.
    async fn release(&self) {
        match tokio::time::timeout(self.timing.grace, self.try_release()).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => {
                tracing::debug!(%error, "could not release the controller lease; it expires")
            }
            Err(_) => {
                tracing::debug!("could not release the controller lease: no answer; it expires")
            }
        }
    }

    /// A renewal that was asked for when the end came is carried out all the same, maybe between our question and our
    /// answer: then the question is asked again.
    async fn try_release(&self) -> Result<(), kube::Error> {
        loop {
            let lease = self.leases.get_opt(NAME).await?;
            let Some(lease) = lease.filter(|lease| record::is_held_by(lease, &self.identity)) else {
                return Ok(());
            };
            let lease = Lease { spec: Some(record::released(&lease)), ..lease };
            if settled(self.leases.replace(NAME, &PostParams::default(), &lease).await)? {
                return Ok(());
            }
        }
    }
}

/// An answer's own words, where it is one.
fn error_text(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) => status.message.clone(),
        other => other.to_string(),
    }
}

/// Whether a write went through; `false` when somebody was faster.
fn settled<T>(written: Result<T, kube::Error>) -> Result<bool, kube::Error> {
    match written {
        Ok(_) => Ok(true),
        Err(kube::Error::Api(status)) if status.code == 409 => Ok(false),
        Err(error) => Err(error),
    }
}

/// A name for this process that nobody else has: the host's, for people, and something random.
pub(crate) fn identity() -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").ok();
    let host = host.or_else(|| std::env::var("HOSTNAME").ok()).unwrap_or_default();
    let host = host.trim();
    let host = if host.is_empty() { "capstan" } else { host };
    format!("{host}_{}", uuid::Uuid::new_v4())
}
