//! Prober of the host cluster: finds out that the host is back, ready, and still the same.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use k8s_openapi::api::core::v1::Namespace;
use kube::api::ListParams;
use kube::{Api, Client};
use tokio::time::Instant;

use crate::connection::HostConnection;
use crate::health::{HostHealth, Listed, Probe};
use crate::namespaces::HostNamespaces;

/// Interval of the probes while the host is up: a host that dies without any request is noticed within five seconds.
const INTERVAL: Duration = Duration::from_secs(2);

/// Interval of the probes otherwise.
const SHORT_INTERVAL: Duration = Duration::from_secs(1);

/// Time limit of each request of a probe.
const PATIENCE: Duration = Duration::from_secs(1);

/// Interval at which the identity of a host that is up is read again.
const IDENTITY_INTERVAL: Duration = Duration::from_secs(30);

/// Namespace whose uid identifies a cluster.
const IDENTITY: &str = "kube-system";

/// Identity of the host: the uid of the namespace `kube-system` at the first contact. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct HostPin {
    uid: Arc<Mutex<Option<String>>>,
    /// Uid that replaces the pinned one, as the operator has set it.
    accepted: Option<String>,
}

impl HostPin {
    /// Creates a pin. A host with the uid `accepted` replaces the pinned one.
    pub fn new(accepted: Option<String>) -> Self {
        Self { uid: Arc::default(), accepted }
    }

    /// Returns the pinned uid.
    pub fn uid(&self) -> Option<String> {
        self.lock().clone()
    }

    /// Sets the pin to the record of an earlier process, which counts more than a contact of this one.
    pub fn restore(&self, uid: String) {
        *self.lock() = Some(uid);
    }

    /// Returns true if a stored uid may be replaced by the pinned one.
    pub fn replaces(&self, stored: &str) -> bool {
        let pinned = self.uid();
        pinned.is_some() && pinned == self.accepted && pinned.as_deref() != Some(stored)
    }

    /// Returns true if a host with this uid is the pinned one. The first one is pinned.
    fn admits(&self, found: &str) -> bool {
        let mut uid = self.lock();
        if uid.is_none() || self.accepted.as_deref() == Some(found) {
            *uid = Some(found.to_owned());
        }
        uid.as_deref() == Some(found)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<String>> {
        self.uid.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Prober of one host.
#[derive(Clone)]
pub struct Prober {
    client: Client,
    health: HostHealth,
    namespaces: HostNamespaces,
    pin: HostPin,
    memory: Arc<Mutex<Memory>>,
}

/// Memory of the prober between two passes.
#[derive(Debug, Default)]
struct Memory {
    identified: Option<Instant>,
    last: Option<Probe>,
}

impl std::fmt::Debug for Prober {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Prober").finish_non_exhaustive()
    }
}

impl Prober {
    /// Creates a prober, which compares the host with these namespaces and with this pin.
    pub fn new(connection: &HostConnection, namespaces: HostNamespaces, pin: HostPin) -> Self {
        Self::with(connection.probing(), connection.health(), namespaces, pin)
    }

    fn with(client: Client, health: HostHealth, namespaces: HostNamespaces, pin: HostPin) -> Self {
        Self { client, health, namespaces, pin, memory: Arc::default() }
    }

    /// Probes the host again and again. Never returns.
    pub async fn run(&self) {
        loop {
            self.pass().await;
            let is_up = self.health.state().believes_reviews();
            tokio::time::sleep(if is_up { INTERVAL } else { SHORT_INTERVAL }).await;
        }
    }

    /// Probes the host once, and records the result.
    pub async fn pass(&self) {
        let probe = self.probe().await.unwrap_or_else(|probe| probe);
        let was_up = self.health.state().believes_absence();
        self.health.probe(probe);
        if !was_up && self.health.state().believes_absence() {
            self.namespaces.believe_absence();
        }
        self.report(probe);
    }

    /// Logs a result that needs an operator, once.
    fn report(&self, probe: Probe) {
        let is_new = self.memory().last.replace(probe) != Some(probe);
        match probe {
            Probe::Refused if is_new => tracing::error!(
                "the host cluster refuses Capstan's own user: renew the credential in its kubeconfig, or apply `capstan host manifests` again"
            ),
            Probe::Stranger if is_new => tracing::error!(
                pinned = self.pin.uid(),
                "another host cluster answers: the uid of its namespace kube-system is not the pinned one. If it is the new host cluster, set host.acceptNewIdentity to its uid"
            ),
            _ => {}
        }
    }

    async fn probe(&self) -> Result<Probe, Probe> {
        // A host that was cut off stays cut off until its identity is known.
        let is_due = |at: Option<Instant>| at.is_none_or(|at| at.elapsed() >= IDENTITY_INTERVAL);
        if !self.health.state().believes_reviews() || is_due(self.memory().identified) {
            if !self.pin.admits(&self.identity().await?) {
                return Err(Probe::Stranger);
            }
            self.memory().identified = Some(Instant::now());
        }
        let request = http::Request::get("/readyz").body(Vec::new()).map_err(|_| Probe::Silent)?;
        in_time(self.client.request_text(request)).await?;
        let listed = if self.health.wants_list() { Some(self.list().await?) } else { None };
        Ok(Probe::Ready(listed))
    }

    async fn identity(&self) -> Result<String, Probe> {
        let api: Api<Namespace> = Api::all(self.client.clone());
        let found = in_time(api.get_metadata(IDENTITY)).await?;
        found.metadata.uid.ok_or(Probe::Unready)
    }

    async fn list(&self) -> Result<Listed, Probe> {
        let api: Api<Namespace> = Api::all(self.client.clone());
        let all = in_time(api.list_metadata(&ListParams::default())).await?;
        Ok(self.namespaces.compare(all.items.iter().filter_map(|found| found.metadata.name.as_deref())))
    }

    fn memory(&self) -> std::sync::MutexGuard<'_, Memory> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Waits for the answer of one request.
async fn in_time<T>(answer: impl Future<Output = Result<T, kube::Error>>) -> Result<T, Probe> {
    match tokio::time::timeout(PATIENCE, answer).await {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(kube::Error::Api(status))) if matches!(status.code, 401 | 403) => Err(Probe::Refused),
        Ok(Err(kube::Error::Api(_))) => Err(Probe::Unready),
        Ok(Err(_)) | Err(_) => Err(Probe::Silent),
    }
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "a test awaits its tasks, or ends with them")]
mod tests {
    use apiserver_machinery::store::NamespaceSource;
    use serde_json::{Value, json};

    use super::*;
    use crate::fake::{Fake, status};
    use crate::health::HostState;

    /// Answers as a host with this uid and these namespaces.
    fn host(fake: &Fake, uid: &'static str, names: &'static [&'static str]) {
        fake.responds(move |line, _| {
            let meta = |name: &str| {
                json!({"kind": "Namespace", "apiVersion": "v1", "metadata": {"name": name, "uid": uid}})
            };
            if line.starts_with("WATCH") {
                return None;
            }
            let items: Vec<Value> = names.iter().map(|name| meta(name)).collect();
            Some(match line {
                "GET /readyz" => (200, json!("ok")),
                "GET /api/v1/namespaces/kube-system" => (200, meta("kube-system")),
                "GET /api/v1/namespaces" => (200, json!({"kind": "NamespaceList", "apiVersion": "v1", "metadata": {"resourceVersion": "1"}, "items": items})),
                _ => status(404),
            })
        });
    }

    fn world(accepted: Option<&str>) -> (Fake, Prober) {
        let fake = Fake::new(status(503));
        let health = HostHealth::new(crate::HostMetrics::default());
        let namespaces = HostNamespaces::new(fake.client()).with_health(health.clone());
        let pin = HostPin::new(accepted.map(str::to_owned));
        let prober = Prober::with(fake.client(), health, namespaces, pin);
        (fake, prober)
    }

    #[tokio::test(start_paused = true)]
    async fn a_ready_host_is_up_after_the_first_probe_and_one_that_starts_is_not() {
        let (fake, prober) = world(None);
        prober.pass().await;
        assert_eq!(prober.health.state(), HostState::Probation);
        host(&fake, "u1", &["a"]);
        prober.pass().await;
        assert_eq!((prober.health.state(), prober.pin.uid().as_deref()), (HostState::Up, Some("u1")));
    }

    #[tokio::test(start_paused = true)]
    async fn another_cluster_at_the_address_is_not_used_unless_the_operator_accepts_it() {
        let (fake, prober) = world(None);
        prober.pin.restore("u1".to_owned());
        host(&fake, "u2", &["a"]);
        prober.pass().await;
        assert_eq!(prober.health.state(), HostState::Other);
        host(&fake, "u1", &["a"]);
        prober.pass().await;
        assert_eq!(prober.health.state(), HostState::Probation, "the known one is back");
        let (fake, prober) = world(Some("u2"));
        prober.pin.restore("u1".to_owned());
        host(&fake, "u2", &["a"]);
        prober.pass().await;
        assert_eq!(prober.health.state(), HostState::Up);
        assert!(prober.pin.replaces("u1") && !prober.pin.replaces("u2"));
    }

    #[tokio::test(start_paused = true)]
    async fn a_host_restored_without_its_namespaces_is_not_believed() {
        let (fake, prober) = world(None);
        let known = (0..20).map(|number| format!("n{number}"));
        prober.namespaces.restore(known.map(|name| (name, json!({}))).collect());
        host(&fake, "u1", &["n0"]);
        tokio::spawn(prober.namespaces.clone().follow(fake.client()));
        for _ in 0..60 {
            prober.pass().await;
            tokio::time::sleep(SHORT_INTERVAL).await;
        }
        assert_eq!(prober.health.state(), HostState::Probation);
        assert_eq!(prober.namespaces.namespace("n7").await.unwrap_err().code, 503, "it may exist");
        tokio::time::sleep(Duration::from_secs(3600)).await;
        prober.pass().await;
        assert_eq!(prober.health.state(), HostState::Up);
        assert_eq!(prober.namespaces.namespace("n7").await, Ok(None));
    }

    #[tokio::test(start_paused = true)]
    async fn a_host_that_refuses_our_credential_is_not_believed() {
        let (fake, prober) = world(None);
        host(&fake, "u1", &["a"]);
        prober.pass().await;
        fake.answer(status(401));
        for _ in 0..3 {
            prober.pass().await;
        }
        assert_eq!(prober.health.state(), HostState::Probation);
    }
}
