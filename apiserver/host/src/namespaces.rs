//! Namespaces of the host cluster, which contain the objects that come through the host.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};
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

/// Longest delay of a Namespace's change event: a client that creates a Namespace and then an object in it is faster
/// than the watch. Upstream's number.
const WATCH_DELAY: Duration = Duration::from_millis(50);

/// Namespaces from a watch, with a get for those that the watch has not reported.
#[derive(Clone)]
pub struct HostNamespaces {
    client: Client,
    known: Arc<RwLock<HashMap<String, Value>>>,
}

impl std::fmt::Debug for HostNamespaces {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HostNamespaces").finish_non_exhaustive()
    }
}

impl HostNamespaces {
    /// Creates an empty set of namespaces. [`HostNamespaces::follow`] fills it.
    pub fn new(client: Client) -> Self {
        Self { client, known: Arc::default() }
    }

    /// Watches the host's namespaces. While the host does not answer, the known ones stay.
    pub async fn follow(self, watching: Client) {
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
    fn take(&self, fresh: &mut HashMap<String, Value>, event: Event<Namespace>) {
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        match event {
            Event::Init => fresh.clear(),
            Event::InitApply(namespace) => {
                fresh.insert(namespace.name_any(), relevant_fields(&namespace));
            }
            Event::InitDone => *known = std::mem::take(fresh),
            Event::Apply(namespace) => {
                known.insert(namespace.name_any(), relevant_fields(&namespace));
            }
            Event::Delete(namespace) => {
                known.remove(&namespace.name_any());
            }
        }
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
        self.known.read().unwrap_or_else(PoisonError::into_inner).get(name).cloned()
    }

    async fn namespace(&self, name: &str) -> ApiResult<Option<Value>> {
        if let Some(known) = self.known(name) {
            return Ok(Some(known));
        }
        tokio::time::sleep(WATCH_DELAY).await;
        if let Some(known) = self.known(name) {
            return Ok(Some(known));
        }
        let api: Api<Namespace> = Api::all(self.client.clone());
        match api.get_opt(name).await {
            Ok(found) => Ok(found.as_ref().map(relevant_fields)),
            Err(error) => {
                tracing::warn!(%error, namespace = name, "cannot get a namespace of the host");
                Err(ApiError::unavailable(format!(
                    "namespace {name:?} is unknown, and the host cluster does not answer"
                )))
            }
        }
    }
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "a test awaits its tasks, or ends with them")]
mod tests {
    use super::*;
    use crate::fake::{Fake, status};

    fn namespace(name: &str, phase: &str) -> Namespace {
        let value = json!({"metadata": {"name": name}, "status": {"phase": phase}});
        serde_json::from_value(value).unwrap()
    }

    fn phase(found: &Value) -> &str {
        found.pointer("/status/phase").and_then(Value::as_str).unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn watched_namespaces_are_cached_and_others_are_requested() {
        let host = Fake::new(status(404));
        let namespaces = HostNamespaces::new(host.client());
        let mut fresh = HashMap::new();
        for event in [Event::Init, Event::InitApply(namespace("team", "Active")), Event::InitDone] {
            namespaces.take(&mut fresh, event);
        }
        assert_eq!(phase(&namespaces.namespace("team").await.unwrap().unwrap()), "Active");
        namespaces.take(&mut fresh, Event::Apply(namespace("team", "Terminating")));
        assert_eq!(phase(&namespaces.namespace("team").await.unwrap().unwrap()), "Terminating");
        assert!(host.requests().is_empty(), "{:?}", host.requests());
        // Created just now: the watch reports it before the host must be asked.
        let asking = tokio::spawn({
            let namespaces = namespaces.clone();
            async move { namespaces.namespace("new").await }
        });
        tokio::time::sleep(WATCH_DELAY / 2).await;
        namespaces.take(&mut fresh, Event::Apply(namespace("new", "Active")));
        assert!(asking.await.unwrap().unwrap().is_some());
        assert!(host.requests().is_empty(), "{:?}", host.requests());
        assert_eq!(namespaces.namespace("none").await, Ok(None));
        assert_eq!(host.requests(), ["GET /api/v1/namespaces/none"]);
        namespaces.take(&mut fresh, Event::Delete(namespace("team", "Terminating")));
        assert_eq!(namespaces.namespace("team").await, Ok(None));
    }

    #[tokio::test(start_paused = true)]
    async fn while_the_host_is_down_known_namespaces_are_served_and_others_fail() {
        let host = Fake::new(status(503));
        let namespaces = HostNamespaces::new(host.client());
        namespaces.take(&mut HashMap::new(), Event::Apply(namespace("team", "Active")));
        assert!(namespaces.namespace("team").await.unwrap().is_some());
        assert_eq!(namespaces.namespace("other").await.unwrap_err().code, 503);
    }
}
