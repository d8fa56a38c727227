//! Namespaces of the host cluster, which contain the objects that come through the host.

mod presence;

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::{Duration, Instant};

use apiserver_machinery::status::{ApiError, ApiResult};
use apiserver_machinery::store::NamespaceSource;
use async_trait::async_trait;
use futures::StreamExt;
use k8s_openapi::api::core::v1::Namespace;
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::health::{HostHealth, HostState, Listed};
use crate::host_status::MirrorFacts;
use presence::{AllKnown, Known, Listing};

/// Longest delay of a Namespace's change event: a client that creates a Namespace and then an object in it is faster
/// than the watch. Upstream's number.
const WATCH_DELAY: Duration = Duration::from_millis(50);

/// Longest wait for the host's answer about a namespace: a request is waiting.
const PATIENCE: Duration = Duration::from_secs(2);

/// Interval at which a failure that lasts is logged.
const LOG_INTERVAL: Duration = Duration::from_secs(60);

/// Longest time since the host was up in which a create in a known namespace is accepted.
const BOUND: Duration = Duration::from_secs(7 * 86_400);

/// Namespaces from a watch, with a get for those that the watch has not reported.
///
/// *While the host is not up*, the known ones stay. One that a list lacks may have been lost in a restore: it is not
/// served any more, and a create in it gets 503. This ends an hour after the host is up, or when the host has it again.
/// If the watch has reported the deletion, it ends as soon as the host is up.
#[derive(Clone)]
pub struct HostNamespaces {
    client: Client,
    health: HostHealth,
    known: Arc<RwLock<AllKnown>>,
    changes: watch::Sender<u64>,
}

impl std::fmt::Debug for HostNamespaces {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HostNamespaces").finish_non_exhaustive()
    }
}

impl HostNamespaces {
    /// Creates an empty set of namespaces. [`HostNamespaces::follow`] fills it.
    pub fn new(client: Client) -> Self {
        let health = HostHealth::default();
        Self { client, health, known: Arc::default(), changes: watch::Sender::new(0) }
    }

    /// Believes the host's answers only as far as its health allows. Without this, all are believed.
    #[must_use]
    pub fn with_health(self, health: HostHealth) -> Self {
        Self { health, ..self }
    }

    pub(crate) fn client(&self) -> Client {
        self.client.clone()
    }

    pub(crate) fn health(&self) -> HostHealth {
        self.health.clone()
    }

    /// Watches the host's namespaces. While the host does not answer, the known ones stay. Never returns.
    pub async fn follow(self, watching: Client) {
        self.health.while_reachable(|| self.follow_once(watching.clone())).await;
    }

    async fn follow_once(&self, watching: Client) {
        let events = watcher(Api::<Namespace>::all(watching), watcher::Config::default()).default_backoff();
        let mut events = std::pin::pin!(events);
        let mut listing = Listing::default();
        // The watch tries again each second. A host that refuses the user would fill the log.
        let mut logged: Option<Instant> = None;
        while let Some(event) = events.next().await {
            match event {
                Ok(event) => {
                    logged = logged.filter(|_| !matches!(event, Event::InitDone));
                    self.take(&mut listing, event);
                }
                Err(error) if logged.is_none_or(|at| at.elapsed() >= LOG_INTERVAL) => {
                    logged = Some(Instant::now());
                    tracing::warn!(%error, "cannot watch the namespaces of the host; retrying");
                }
                Err(_) => {}
            }
        }
    }

    /// Applies a change event. `listing` collects a list until it is complete.
    fn take(&self, listing: &mut Listing, event: Event<Namespace>) {
        let is_believed = self.health.state().believes_absence();
        if self.write().take(listing, event, is_believed) {
            self.changed();
        }
    }

    /// Applies that the host is up. A namespace that it has not reported is kept for an hour, unless its watch has reported
    /// the deletion.
    pub(crate) fn believe_absence(&self) {
        if self.read().has_lost() {
            self.write().believe_absence();
            self.changed();
        }
    }

    /// Returns true if the host has lost a namespace during an outage, and it may come back.
    pub fn is_uncertain(&self, name: &str) -> bool {
        self.read().0.get(name).is_some_and(Known::is_uncertain)
    }

    /// Returns true if the host reports a namespace, or has reported its deletion.
    pub fn is_reported(&self, name: &str) -> bool {
        self.read().0.get(name).is_some_and(|known| !known.is_uncertain())
    }

    /// Compares a list of names with the known namespaces.
    pub(crate) fn compare<'a>(&self, names: impl Iterator<Item = &'a str>) -> Listed {
        let found: HashSet<&str> = names.collect();
        let known = self.read();
        let expected: Vec<&String> =
            known.0.iter().filter(|(_, known)| known.is_expected()).map(|(name, _)| name).collect();
        let missing = expected.iter().filter(|name| !found.contains(name.as_str())).count();
        Listed { known: expected.len(), missing }
    }

    /// Adds namespaces from an earlier process. Those that the host has reported to this one stay.
    pub fn restore(&self, namespaces: HashMap<String, Value>) {
        let mut known = self.write();
        for (name, object) in namespaces {
            known.0.entry(name).or_insert_with(|| Known::reported(object));
        }
    }

    /// Returns all namespaces, with those that a host that is not believed has lost.
    pub fn snapshot(&self) -> HashMap<String, Value> {
        self.read().0.iter().map(|(name, known)| (name.clone(), known.object.clone())).collect()
    }

    /// Returns the number and the age of the copies.
    pub fn copies(&self) -> MirrorFacts {
        MirrorFacts::new("namespaces", self.read().0.len(), self.health.age(), Some(BOUND))
    }

    /// Returns a receiver that is notified after each change.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    fn changed(&self) {
        self.changes.send_modify(|count| *count += 1);
    }

    fn read(&self) -> RwLockReadGuard<'_, AllKnown> {
        self.known.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, AllKnown> {
        self.known.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the error of a namespace of which it is not known whether it exists.
    fn unknown(&self, name: &str) -> ApiError {
        let why = match self.health.state() {
            HostState::Other => "another host cluster answers",
            HostState::Probation => "the host cluster has just returned",
            HostState::Up if self.is_uncertain(name) => {
                "the host cluster has lost it during an outage less than an hour ago"
            }
            _ => "the host cluster does not answer",
        };
        ApiError::unavailable(format!("namespace {name:?} is unknown, and {why}"))
    }
}

/// Returns the fields that a create needs.
fn relevant_fields(namespace: &Namespace) -> Value {
    let phase = namespace.status.as_ref().and_then(|status| status.phase.as_deref());
    json!({"apiVersion": "v1", "kind": "Namespace", "status": {"phase": phase}, "metadata": {
        "name": namespace.name_any(), "uid": namespace.uid(), "labels": namespace.labels(),
        "deletionTimestamp": namespace.metadata.deletion_timestamp}})
}

#[async_trait]
impl NamespaceSource for HostNamespaces {
    fn known(&self, name: &str) -> Option<Value> {
        if self.health.state() == HostState::Other || self.health.age() > BOUND {
            return None;
        }
        self.read().0.get(name).filter(|known| known.is_reported()).map(|known| known.object.clone())
    }

    fn lacks(&self, name: &str) -> bool {
        !self.health.state().believes_reviews() && !self.read().0.contains_key(name)
    }

    async fn namespace(&self, name: &str) -> ApiResult<Option<Value>> {
        if let Some(known) = self.known(name) {
            return Ok(Some(known));
        }
        if self.health.state().is_cut_off() {
            return Err(self.unknown(name));
        }
        tokio::time::sleep(WATCH_DELAY).await;
        if let Some(known) = self.known(name) {
            return Ok(Some(known));
        }
        let api: Api<Namespace> = Api::all(self.client.clone());
        let Ok(found) = tokio::time::timeout(PATIENCE, api.get(name)).await else {
            tracing::warn!(namespace = name, "the host does not answer in time about a namespace");
            return Err(self.unknown(name));
        };
        match found {
            Ok(found) => Ok(Some(relevant_fields(&found))),
            // The page of a proxy with status 404 says nothing about the namespace.
            Err(kube::Error::Api(status)) if status.reason == "NotFound" => {
                let is_absent = self.health.state().believes_absence() && !self.is_uncertain(name);
                if is_absent { Ok(None) } else { Err(self.unknown(name)) }
            }
            Err(error) => {
                tracing::warn!(%error, namespace = name, "cannot get a namespace of the host");
                Err(self.unknown(name))
            }
        }
    }
}

#[cfg(test)]
mod tests;
