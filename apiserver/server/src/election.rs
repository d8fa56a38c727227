//! Leader election: the replica that holds a Lease runs the controllers. The Lease is in Capstan's own store, so an
//! election also works while the host cluster does not respond.

mod calls;
mod history;
mod metrics;
mod permit;
mod record;
mod release;
#[cfg(test)]
mod tests;
mod timing;

use std::sync::Arc;

use apiserver_executor::RestartCounter;
use controllers_infrastructure::CallPermit;
use controllers_runtime::{PolicyRule, TermStart};
use futures::StreamExt;
use futures::stream::BoxStream;
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{PostParams, WatchEvent, WatchParams};
use kube::{Api, Client, ResourceExt};
use storage_contract::Outage;
use tokio::task::{JoinError, JoinSet};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::storage_history::HistoryNumber;
use history::TermHistory;
pub(crate) use metrics::ElectionMetrics;
use permit::{LeasePermit, boot_time};
use record::View;
pub(crate) use timing::Timing;

const NAMESPACE: &str = "capstan-system";
const NAME: &str = "capstan-controllers";

/// Identity of the candidate.
pub(crate) const IDENTITY: &str = "leader-election";

/// Permissions of the candidate.
pub(crate) const RULES: &[PolicyRule] = &[
    PolicyRule { groups: &["coordination.k8s.io"], resources: &["leases"], verbs: PolicyRule::WRITE },
    PolicyRule { groups: &[""], resources: &["namespaces"], verbs: &["get", "create"] },
];

/// Stream of changes of the Lease.
type Changes = BoxStream<'static, Result<WatchEvent<Lease>, kube::Error>>;

/// Term of the leader, as its controllers see it.
#[derive(Debug, Clone)]
pub(crate) struct Term {
    /// Cancelled as soon as the Lease is lost.
    pub(crate) end: CancellationToken,
    /// Begin of the term.
    pub(crate) start: TermStart,
    permit: Arc<LeasePermit>,
}

impl Term {
    /// Returns the permit to change a cloud, which the term must have directly before each call.
    pub(crate) fn permit(&self) -> Arc<dyn CallPermit> {
        self.permit.clone()
    }
}

/// Lease that this candidate acquired.
struct Acquired {
    /// Time just before the successful attempt.
    asked: Instant,
    /// History of the store just before the successful attempt.
    history: TermHistory,
    lease: Lease,
    /// Time until which calls of holders before may still reach a cloud.
    unsettled_until: Option<Instant>,
}

impl Acquired {
    fn term_start(&self) -> TermStart {
        let number = self.lease.resource_version().and_then(|text| text.parse().ok()).unwrap_or_default();
        match self.unsettled_until {
            Some(until) => TermStart::unsettled_until(number, until),
            None => TermStart::in_order(number),
        }
    }
}

/// Candidate of the election.
///
/// *Guarantees.* The controllers of two candidates never run at the same time, as long as monotonic clocks run equally
/// fast on all machines. The times in the Lease are only informative. Each candidate measures the time since it
/// observed a change itself, so wall clocks may be wrong and may jump.
pub(crate) struct Election {
    leases: Api<Lease>,
    namespaces: Api<Namespace>,
    identity: String,
    timing: Timing,
    alone: bool,
    history: Option<HistoryNumber>,
    restarts: Option<RestartCounter>,
    metrics: ElectionMetrics,
}

impl Election {
    /// Creates a candidate. No other candidate may have the same `identity`.
    pub(crate) fn new(client: Client, identity: String, timing: Timing) -> Self {
        let leases = Api::namespaced(client.clone(), NAMESPACE);
        Self {
            leases,
            namespaces: Api::all(client),
            identity,
            timing,
            alone: false,
            history: None,
            restarts: None,
            metrics: ElectionMetrics::default(),
        }
    }

    /// Sets the history of a store that other processes can use, too. A term ends when that history goes back.
    ///
    /// Without it no other process can have the store open, so a previous holder of the Lease no longer runs.
    pub(crate) fn sharing(self, history: Option<HistoryNumber>) -> Self {
        Self { alone: history.is_none(), history, ..self }
    }

    /// Counts the restarts of all controllers after one of them ended by itself.
    pub(crate) fn counting_restarts(self, restarts: RestartCounter) -> Self {
        Self { restarts: Some(restarts), ..self }
    }

    /// Records the terms in these metrics.
    pub(crate) fn with_metrics(self, metrics: ElectionMetrics) -> Self {
        Self { metrics, ..self }
    }

    /// Runs the controllers of `start` while this candidate is elected, until `shutdown`. Then calls in flight may end,
    /// and it releases the Lease. The term passed to `start` ends as soon as the Lease is lost. Controllers that do not
    /// stop within the grace period are aborted.
    pub(crate) async fn run(self, shutdown: CancellationToken, start: impl Fn(Term) -> JoinSet<()> + Send) {
        let mut is_drained = true;
        while let Some(acquired) = shutdown.run_until_cancelled(self.acquire()).await {
            let epoch = acquired.lease.resource_version();
            tracing::info!(identity = self.identity, epoch, "elected; starting controllers");
            self.metrics.begin(&acquired.lease);
            let term = self.term(&acquired, &shutdown);
            let mut controllers = start(term.clone());
            let mut renewed = acquired.asked;
            let is_orderly = tokio::select! {
                biased;
                () = acquired.history.ended() => {
                    tracing::warn!("the data of the store were replaced; giving up the controller lease");
                    false
                }
                () = self.hold(&mut renewed, &term, &mut controllers) => shutdown.is_cancelled(),
            };
            term.permit.calls().close();
            term.end.cancel();
            if is_orderly {
                self.drain(&mut renewed, &term).await;
            }
            self.end(controllers).await;
            is_drained = term.permit.calls().are_settled();
            self.metrics.end();
            if !shutdown.is_cancelled() {
                tracing::warn!(identity = self.identity, "no longer elected; controllers have stopped");
                shutdown.run_until_cancelled(tokio::time::sleep(self.timing.retry)).await;
            }
        }
        self.release(is_drained).await;
    }

    fn term(&self, acquired: &Acquired, shutdown: &CancellationToken) -> Term {
        let end = shutdown.child_token();
        let transitions = acquired.lease.spec.as_ref().and_then(|spec| spec.lease_transitions);
        let (leases, identity) = (self.leases.clone(), self.identity.clone());
        let history = acquired.history.clone();
        let permit = LeasePermit::new(
            leases,
            identity,
            (self.timing, self.alone),
            (transitions, history),
            end.clone(),
        );
        permit.extend(boot_time().saturating_sub(acquired.asked.elapsed()));
        let start = acquired.term_start();
        Term { end, start, permit: Arc::new(permit.numbered(start.number())) }
    }

    /// Retries until this candidate holds the Lease. Follows its changes, so that a release is seen at once.
    async fn acquire(&self) -> Acquired {
        let mut view = View::default();
        let mut changes = None;
        let started = Instant::now();
        let mut outage = Outage::default();
        loop {
            let (asked, history) = (Instant::now(), TermHistory::new(self.history.clone()));
            let why = match tokio::time::timeout(self.timing.renew, self.try_acquire(&mut view)).await {
                Ok(Ok(Some((lease, unsettled_until)))) => {
                    return Acquired { asked, history, lease, unsettled_until };
                }
                Ok(Ok(None)) => None,
                Ok(Err(error)) => Some(error_text(&error)),
                Err(_) => Some("no answer".to_owned()),
            };
            // At startup the server may still be loading its store.
            let is_early = started.elapsed() < self.timing.renew;
            if let Some(why) = why.filter(|_| !is_early && outage.should_log()) {
                tracing::warn!(why, "cannot acquire the controller lease; retrying");
            }
            let _ = tokio::time::timeout(self.timing.retry, self.changed(&mut changes)).await;
        }
    }

    /// Waits for a change of the Lease. Without a watch it waits for ever: the caller reads the Lease regularly, too.
    async fn changed(&self, changes: &mut Option<Changes>) {
        if changes.is_none() {
            let parameters = WatchParams::default().fields(&format!("metadata.name={NAME}"));
            *changes = self.leases.watch(&parameters, "0").await.ok().map(StreamExt::boxed);
        }
        let Some(stream) = changes else { return std::future::pending().await };
        if !matches!(stream.next().await, Some(Ok(_))) {
            *changes = None;
        }
    }

    /// Tries to acquire the Lease. Returns it, and the time until which calls of holders before may still reach a cloud;
    /// `None` if another candidate holds it or was faster.
    async fn try_acquire(&self, view: &mut View) -> Result<Option<(Lease, Option<Instant>)>, kube::Error> {
        let Some(mut lease) = self.leases.get_opt(NAME).await? else {
            return Ok(self.create().await?.map(|lease| (lease, None)));
        };
        view.observe(&lease, Instant::now());
        if !self.alone && !view.is_free(&self.identity, self.timing.lease, Instant::now()) {
            return Ok(None);
        }
        let now = Timestamp::now();
        let rest = record::unsettled(&lease, now);
        let unsettled_until = rest.map(|rest| Instant::now() + rest);
        record::set_unsettled(&mut lease, rest, now);
        lease.spec = Some(record::taken(&lease, &self.identity, self.timing.lease, now));
        let taken = settled(self.leases.replace(NAME, &PostParams::default(), &lease).await)?;
        Ok(taken.map(|lease| (lease, unsettled_until)))
    }

    /// Creates the Lease. If its namespace does not exist, creates that instead, for the next attempt.
    async fn create(&self) -> Result<Option<Lease>, kube::Error> {
        let metadata = ObjectMeta { name: Some(NAME.to_owned()), ..ObjectMeta::default() };
        let spec = record::taken(&Lease::default(), &self.identity, self.timing.lease, Timestamp::now());
        let lease = Lease { metadata, spec: Some(spec) };
        match self.leases.create(&PostParams::default(), &lease).await {
            Err(kube::Error::Api(status)) if status.code == 404 => {
                let metadata = ObjectMeta { name: Some(NAMESPACE.to_owned()), ..ObjectMeta::default() };
                let namespace = Namespace { metadata, ..Namespace::default() };
                settled(self.namespaces.create(&PostParams::default(), &namespace).await)?;
                Ok(None)
            }
            other => settled(other),
        }
    }

    /// Holds the Lease. Returns if the Lease is lost, at the end of the term, or if a controller ended by itself. A
    /// controller should not end by itself, so all of them are then restarted. `renewed` is the time just before the last
    /// renewal.
    async fn hold(&self, renewed: &mut Instant, term: &Term, controllers: &mut JoinSet<()>) {
        tokio::select! {
            biased;
            () = term.end.cancelled() => {}
            Some(ended) = controllers.join_next() => self.log_end(&ended),
            () = self.keep(renewed, term) => {}
        }
    }

    /// Renews the Lease until it is lost.
    async fn keep(&self, renewed: &mut Instant, term: &Term) {
        loop {
            tokio::time::sleep_until(*renewed + self.timing.renew).await;
            // The deadline counts from before the last renewal. Other candidates count from the time at which they
            // observe it, which is later.
            match tokio::time::timeout_at(*renewed + self.timing.deadline, self.renew()).await {
                Ok(Some(at)) => {
                    *renewed = at;
                    term.permit.extend(boot_time().saturating_sub(at.elapsed()));
                }
                Ok(None) => return tracing::warn!("another replica holds the controller lease"),
                Err(_) => return tracing::warn!("could not renew the controller lease in time"),
            }
        }
    }

    /// Retries until the Lease is renewed. Returns the time just before the renewal, or `None` if the Lease is lost.
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

    /// Renews the Lease once. Returns false if this candidate no longer holds it. An error, also a conflict with
    /// another write, leaves that unknown.
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
}

/// Returns the message of the server's response, or the error itself if there was no response.
fn error_text(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) => status.message.clone(),
        other => other.to_string(),
    }
}

/// Returns what a write stored, or `None` on a conflict with another write.
fn settled<T>(written: Result<T, kube::Error>) -> Result<Option<T>, kube::Error> {
    match written {
        Ok(stored) => Ok(Some(stored)),
        Err(kube::Error::Api(status)) if status.code == 409 => Ok(None),
        Err(error) => Err(error),
    }
}

/// Returns a unique identity of this process: the machine's host name, for people, and a random part.
pub(crate) fn identity() -> String {
    format!("{}_{}", host_name(), uuid::Uuid::new_v4())
}

/// Returns the host name of the machine: in a Pod, the name of the Pod.
pub(crate) fn host_name() -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").ok();
    let host = host.or_else(|| std::env::var("HOSTNAME").ok()).unwrap_or_default();
    let host = host.trim();
    if host.is_empty() { "capstan".to_owned() } else { host.to_owned() }
}
