//! Prober of the host cluster: finds out that the host is back, ready, and still the same.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::api::ListParams;
use kube::{Api, Client};
use tokio::time::Instant;

use crate::connection::HostConnection;
use crate::front_proxy;
use crate::health::{HostHealth, Listed, Probe};
use crate::namespaces::HostNamespaces;
use crate::pin::{HostPin, HostVersion};

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
        self.health.probe(probe);
        if self.health.state().believes_absence() {
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
            Probe::Older(version) if is_new => tracing::error!(
                pinned = self.pin.uid(),
                version,
                "the host cluster was restored from an older backup: its ConfigMap kube-system/extension-apiserver-authentication is older than the known one. If this is wanted, set host.acceptNewIdentity to the pinned uid, @ and this version"
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
            if let Some(version) = self.version().await?
                && !self.pin.admits_version(&version)
            {
                return Err(Probe::Older(version.version));
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

    /// Returns the version of the front proxy's ConfigMap; `None` if the host does not show it. Requests through the host
    /// need the permission, and say so.
    async fn version(&self) -> Result<Option<HostVersion>, Probe> {
        let api: Api<ConfigMap> = Api::namespaced(self.client.clone(), front_proxy::NAMESPACE);
        match tokio::time::timeout(PATIENCE, api.get(front_proxy::NAME)).await {
            Ok(Ok(found)) => Ok(HostVersion::of(&found)),
            Ok(Err(kube::Error::Api(_) | kube::Error::SerdeError(_))) => Ok(None),
            Ok(Err(_)) | Err(_) => Err(Probe::Silent),
        }
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

    /// Answers as a host with this uid and these namespaces. `proxy` is the version and the data of its front proxy.
    fn host(
        fake: &Fake,
        uid: &'static str,
        names: &'static [&'static str],
        proxy: Option<(&'static str, &'static str)>,
    ) {
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
                "GET /api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication" => {
                    let Some((version, data)) = proxy else { return Some(status(403)) };
                    let metadata = json!({"name": front_proxy::NAME, "resourceVersion": version});
                    (200, json!({"kind": "ConfigMap", "apiVersion": "v1", "metadata": metadata, "data": {"a": data}}))
                }
                _ => status(404),
            })
        });
    }

    fn world(accepted: Option<&str>) -> (Fake, Prober) {
        let fake = Fake::new(status(503));
        let health = HostHealth::new(crate::HostMetrics::default());
        let namespaces = HostNamespaces::new(fake.client()).with_health(health.clone());
        let pin = HostPin::new(accepted);
        let prober = Prober::with(fake.client(), health, namespaces, pin);
        (fake, prober)
    }

    #[tokio::test(start_paused = true)]
    async fn a_ready_host_is_up_after_the_first_probe_and_one_that_starts_is_not() {
        let (fake, prober) = world(None);
        prober.pass().await;
        assert_eq!(prober.health.state(), HostState::Probation);
        host(&fake, "u1", &["a"], None);
        prober.pass().await;
        assert_eq!((prober.health.state(), prober.pin.uid().as_deref()), (HostState::Up, Some("u1")));
    }

    #[tokio::test(start_paused = true)]
    async fn another_cluster_at_the_address_is_not_used_unless_the_operator_accepts_it() {
        let (fake, prober) = world(None);
        prober.pin.restore("u1".to_owned());
        host(&fake, "u2", &["a"], None);
        prober.pass().await;
        assert_eq!(prober.health.state(), HostState::Other);
        host(&fake, "u1", &["a"], None);
        prober.pass().await;
        assert_eq!(prober.health.state(), HostState::Probation, "the known one is back");
        let (fake, prober) = world(Some("u2"));
        prober.pin.restore("u1".to_owned());
        host(&fake, "u2", &["a"], None);
        prober.pass().await;
        assert_eq!(prober.health.state(), HostState::Up);
        assert!(prober.pin.replaces("u1") && !prober.pin.replaces("u2"));
    }

    #[tokio::test(start_paused = true)]
    async fn a_host_restored_without_its_namespaces_is_not_believed() {
        let (fake, prober) = world(None);
        let known = (0..20).map(|number| format!("n{number}"));
        prober.namespaces.restore(known.map(|name| (name, json!({}))).collect());
        host(&fake, "u1", &["n0"], None);
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
        assert_eq!(
            prober.namespaces.namespace("n7").await.unwrap_err().code,
            503,
            "an hour after the return"
        );
        tokio::time::sleep(Duration::from_secs(3600)).await;
        prober.pass().await;
        assert_eq!(prober.namespaces.namespace("n7").await, Ok(None));
    }

    #[tokio::test(start_paused = true)]
    async fn ho_03_a_host_restored_from_an_older_backup_is_not_used() {
        let (fake, prober) = world(None);
        let answer = |version: &'static str, data: &'static str| {
            host(&fake, "u1", &["a"], Some((version, data)));
        };
        answer("900", "new");
        prober.pass().await;
        assert_eq!(prober.health.state(), HostState::Up);
        answer("100", "old");
        prober.pass().await;
        assert_eq!(prober.health.state(), HostState::Up, "its identity is read again after a while");
        tokio::time::sleep(IDENTITY_INTERVAL).await;
        prober.pass().await;
        assert_eq!(prober.health.state(), HostState::Other);
        assert_eq!(prober.memory().last, Some(Probe::Older(100)));
        answer("900", "new");
        prober.pass().await;
        assert_eq!(prober.health.state(), HostState::Probation);
    }

    #[tokio::test(start_paused = true)]
    async fn a_host_that_refuses_our_credential_is_not_believed() {
        let (fake, prober) = world(None);
        host(&fake, "u1", &["a"], None);
        prober.pass().await;
        fake.answer(status(401));
        for _ in 0..3 {
            prober.pass().await;
        }
        assert_eq!(prober.health.state(), HostState::Probation);
    }
}
