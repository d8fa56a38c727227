//! Revocations of client certificates, as their objects in the store say.

mod stored;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use apiserver_access::{Revocation, Revocations, User};
use apiserver_http::{ApiServer, Check, InProcess, ReloadableTls};
use apiserver_machinery::store::ObjectStore;
use apiserver_types::{CertificateRevocation, Described};
use controllers_runtime::PolicyRule;
use futures::StreamExt;
use futures::stream::BoxStream;
use kube::api::{ApiResource, DynamicObject, GroupVersionKind};
use kube::runtime::WatchStreamExt;
use kube::runtime::reflector::Store;
use kube::runtime::reflector::store::Writer;
use kube::runtime::utils::Backoff;
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, Client};
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use storage_contract::Outage;
use tokio_util::sync::CancellationToken;

use self::stored::StoredRevocation;

/// Identity that reads the revocations.
pub(crate) const IDENTITY: &str = "certificate-revocations";

/// Permissions of that identity.
pub(crate) const RULES: &[PolicyRule] = &[PolicyRule {
    groups: &["capstan.dev"],
    resources: &["certificaterevocations"],
    verbs: PolicyRule::READ,
}];

/// Pause after a request that failed. A revocation must count within a second, also right after an outage of the store.
const PAUSE: Duration = Duration::from_millis(250);

/// Time after the start in which a failure is no reason for a warning: the server loads its objects.
const EARLY: Duration = Duration::from_secs(5);

/// Time limit of a read of the store after a failure. With [`PAUSE`], it is less than a second.
const LIMIT: Duration = Duration::from_millis(500);

/// Backoff of which each pause is [`PAUSE`]: the requests stay in the process.
#[derive(Debug)]
struct ConstantBackoff;

impl Iterator for ConstantBackoff {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        Some(PAUSE)
    }
}

impl Backoff for ConstantBackoff {
    fn reset(&mut self) {}
}

/// Returns the readiness check `certificate-revocations`. It fails until the revocations have been read: requests with
/// client certificates get 503 before.
pub(crate) fn check(tls: Arc<ReloadableTls>) -> Check {
    Check { name: "certificate-revocations", is_well: Arc::new(move || tls.has_revocations()) }
}

/// Metrics of the revocations. Clones share them.
#[derive(Debug, Clone, Default)]
pub(crate) struct RevocationMetrics {
    unreadable: Gauge,
}

impl RevocationMetrics {
    /// Registers the metrics.
    pub(crate) fn register(&self, registry: &mut Registry) {
        registry.register(
            "capstan_certificate_revocations_unreadable",
            "CertificateRevocations of which a part cannot be read",
            self.unreadable.clone(),
        );
    }
}

/// Revocations in force, and the errors of those that cannot be read.
struct InForce {
    tls: Arc<ReloadableTls>,
    metrics: RevocationMetrics,
    last: Option<Vec<Revocation>>,
    errors: BTreeSet<String>,
}

impl InForce {
    fn new(tls: Arc<ReloadableTls>, metrics: RevocationMetrics) -> Self {
        Self { tls, metrics, last: None, errors: BTreeSet::new() }
    }

    /// Applies all revocations. Each error is logged once.
    fn replace(&mut self, all: impl IntoIterator<Item = StoredRevocation>) {
        let (mut selections, mut errors) = (Vec::new(), BTreeSet::new());
        for StoredRevocation { selection, error } in all {
            selections.extend(selection);
            errors.extend(error);
        }
        for error in errors.difference(&self.errors) {
            tracing::error!(error = error.as_str(), "a certificate revocation cannot be read");
        }
        self.metrics.unreadable.set(i64::try_from(errors.len()).unwrap_or(i64::MAX));
        self.errors = errors;
        // Each connection verifies its certificate again after a change.
        if self.last.as_ref() != Some(&selections) {
            self.tls.revoke(selections.iter().cloned().collect());
            self.last = Some(selections);
        }
    }

    /// Applies more revocations beside those in force, of which none ends. Before the first complete read, it does nothing:
    /// others may be missing.
    fn extend(&mut self, more: impl IntoIterator<Item = StoredRevocation>) {
        let Some(last) = &self.last else { return };
        let known = last.iter().cloned().map(|it| StoredRevocation { selection: Some(it), error: None });
        let errors = self.errors.iter().cloned();
        let errors = errors.map(|error| StoredRevocation { selection: None, error: Some(error) });
        let is_new = |it: &StoredRevocation| it.selection.as_ref().is_none_or(|it| !last.contains(it));
        let all: Vec<_> = known.chain(errors).chain(more.into_iter().filter(is_new)).collect();
        self.replace(all);
    }
}

/// Applies the revocations and each change of them, until `shutdown`. While they cannot be read, the last ones apply. One
/// that cannot be decoded makes the list or the watch fail. Then the server reads all of them from the store.
pub(crate) async fn follow(
    server: Arc<ApiServer>,
    tls: Arc<ReloadableTls>,
    metrics: RevocationMetrics,
    shutdown: CancellationToken,
) {
    let kind = CertificateRevocation::DESCRIPTOR;
    let is_served =
        server.registry().stored().iter().any(|it| it.group == kind.group && it.kind == kind.kind);
    if !is_served {
        tls.revoke(Revocations::default());
        return shutdown.cancelled().await;
    }
    let objects = Arc::clone(server.objects());
    let (store, mut changes) = watch(server);
    let mut in_force = InForce::new(Arc::clone(&tls), metrics);
    let (started, mut outage) = (Instant::now(), Outage::default());
    // Set after a failure: the watch may be behind what was read from the store, or lack an object.
    let mut is_partial = false;
    while let Some(Some(change)) = shutdown.run_until_cancelled(changes.next()).await {
        let error = match change {
            Ok(Event::Init | Event::InitApply(_)) => continue,
            Ok(Event::InitDone) => {
                is_partial = false;
                None
            }
            Ok(Event::Apply(_) | Event::Delete(_)) => None,
            Err(error) => {
                is_partial = true;
                Some(error)
            }
        };
        let stored = if is_partial { read_store(&objects, &shutdown).await } else { None };
        match (stored, error) {
            (Some(all), _) => in_force.replace(all),
            // The watch may lack a revocation that was read from the store.
            (None, None) if is_partial => in_force.extend(store.state().iter().map(|object| read(object))),
            (None, None) => in_force.replace(store.state().iter().map(|object| read(object))),
            (None, Some(error))
                if !tls.has_revocations() && started.elapsed() >= EARLY && outage.should_log() =>
            {
                tracing::warn!(%error, "certificate revocations cannot be read; client certificates get 503 until then");
            }
            (None, Some(error)) => {
                tracing::debug!(%error, "certificate revocations cannot be read; retrying");
            }
        }
    }
}

/// Watches the objects. They are not typed: one with a wrong field would make the list of all fail.
fn watch(
    server: Arc<ApiServer>,
) -> (Store<DynamicObject>, BoxStream<'static, watcher::Result<Event<DynamicObject>>>) {
    let kind = CertificateRevocation::DESCRIPTOR;
    let client = Client::new(InProcess::new(server, User::controller(IDENTITY)), "default");
    let of_kind = GroupVersionKind::gvk(kind.group, kind.version, kind.kind);
    let resource = ApiResource::from_gvk_with_plural(&of_kind, kind.plural);
    let api: Api<DynamicObject> = Api::all_with(client, &resource);
    let writer = Writer::<DynamicObject>::new(resource);
    let store = writer.as_reader();
    let changes = watcher(api, watcher::Config::default()).backoff(ConstantBackoff).reflect(writer);
    (store, changes.boxed())
}

/// Reads all revocations from the store; `None` if it does not answer in time.
async fn read_store(objects: &ObjectStore, shutdown: &CancellationToken) -> Option<Vec<StoredRevocation>> {
    let reading = tokio::time::timeout(LIMIT, stored::all(objects));
    shutdown.run_until_cancelled(reading).await?.ok()?
}

fn read(object: &DynamicObject) -> StoredRevocation {
    match serde_json::to_value(object) {
        Ok(object) => StoredRevocation::read(&object),
        Err(error) => StoredRevocation::undecodable(&error.to_string()),
    }
}
