//! Namespaces of the host cluster, which contain the objects that come through the host.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::Duration;

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

/// Longest delay of a Namespace's change event: a client that creates a Namespace and then an object in it is faster
/// than the watch. Upstream's number.
const WATCH_DELAY: Duration = Duration::from_millis(50);

/// Longest wait for the host's answer about a namespace: a request is waiting.
const PATIENCE: Duration = Duration::from_secs(2);

/// Longest time since the host was up in which a create in a known namespace is accepted.
const BOUND: Duration = Duration::from_secs(7 * 86_400);

/// Namespaces from a watch, with a get for those that the watch has not reported.
///
/// *While the host is not up*, the known ones stay. One that a list lacks may have been lost in a restore: it is not
/// served any more, and a create in it gets 503 until the host is up and says that it does not exist.
#[derive(Clone)]
pub struct HostNamespaces {
    client: Client,
    health: HostHealth,
    known: Arc<RwLock<HashMap<String, Known>>>,
    changes: watch::Sender<u64>,
}

/// A namespace of the host.
#[derive(Debug, Clone)]
struct Known {
    object: Value,
    /// True if the host does not report it, and is not believed yet.
    is_missing: bool,
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
        let mut fresh = HashMap::new();
        while let Some(event) = events.next().await {
            match event {
                Ok(event) => self.take(&mut fresh, event),
                Err(error) => tracing::warn!(%error, "cannot watch the namespaces of the host; retrying"),
            }
        }
    }

    /// Applies a change event. `fresh` collects a list until it is complete.
    fn take(&self, fresh: &mut HashMap<String, Known>, event: Event<Namespace>) {
        let is_believed = self.health.state().believes_absence();
        let mut known = self.write();
        match event {
            Event::Init => return fresh.clear(),
            Event::InitApply(namespace) => {
                fresh.insert(namespace.name_any(), Known::of(&namespace));
                return;
            }
            Event::InitDone => {
                let before = std::mem::replace(&mut *known, std::mem::take(fresh));
                for (name, lost) in before.into_iter().filter(|_| !is_believed) {
                    known.entry(name).or_insert(Known { is_missing: true, ..lost });
                }
            }
            Event::Apply(namespace) => {
                known.insert(namespace.name_any(), Known::of(&namespace));
            }
            Event::Delete(namespace) if is_believed => {
                known.remove(&namespace.name_any());
            }
            Event::Delete(namespace) => {
                if let Some(lost) = known.get_mut(&namespace.name_any()) {
                    lost.is_missing = true;
                }
            }
        }
        drop(known);
        self.changed();
    }

    /// Forgets the namespaces that the host did not report: it is up, so they do not exist.
    pub(crate) fn believe_absence(&self) {
        self.write().retain(|_, known| !known.is_missing);
        self.changed();
    }

    /// Compares a list of names with the known namespaces.
    pub(crate) fn compare<'a>(&self, names: impl Iterator<Item = &'a str>) -> Listed {
        let found: HashSet<&str> = names.collect();
        let known = self.read();
        let missing = known.keys().filter(|name| !found.contains(name.as_str())).count();
        Listed { known: known.len(), missing }
    }

    /// Adds namespaces from an earlier process. Those that the host has reported to this one stay.
    pub fn restore(&self, namespaces: HashMap<String, Value>) {
        let mut known = self.write();
        for (name, object) in namespaces {
            known.entry(name).or_insert(Known { object, is_missing: false });
        }
    }

    /// Returns all namespaces, with those that a host that is not believed has lost.
    pub fn snapshot(&self) -> HashMap<String, Value> {
        self.read().iter().map(|(name, known)| (name.clone(), known.object.clone())).collect()
    }

    /// Returns the number and the age of the copies.
    pub fn copies(&self) -> MirrorFacts {
        MirrorFacts::new("namespaces", self.read().len(), self.health.age(), Some(BOUND))
    }

    /// Returns a receiver that is notified after each change.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    fn changed(&self) {
        self.changes.send_modify(|count| *count += 1);
    }

    fn read(&self) -> RwLockReadGuard<'_, HashMap<String, Known>> {
        self.known.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, HashMap<String, Known>> {
        self.known.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the error of a namespace of which it is not known whether it exists.
    fn unknown(&self, name: &str) -> ApiError {
        let why = match self.health.state() {
            HostState::Other => "another host cluster answers",
            HostState::Probation => "the host cluster has just returned",
            _ => "the host cluster does not answer",
        };
        ApiError::unavailable(format!("namespace {name:?} is unknown, and {why}"))
    }
}

impl Known {
    fn of(namespace: &Namespace) -> Self {
        Self { object: relevant_fields(namespace), is_missing: false }
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
        self.read().get(name).filter(|known| !known.is_missing).map(|known| known.object.clone())
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
        let Ok(found) = tokio::time::timeout(PATIENCE, api.get_opt(name)).await else {
            tracing::warn!(namespace = name, "the host does not answer in time about a namespace");
            return Err(self.unknown(name));
        };
        match found {
            Ok(None) if !self.health.state().believes_absence() => Err(self.unknown(name)),
            Ok(found) => Ok(found.as_ref().map(relevant_fields)),
            Err(error) => {
                tracing::warn!(%error, namespace = name, "cannot get a namespace of the host");
                Err(self.unknown(name))
            }
        }
    }
}

#[cfg(test)]
mod tests;
