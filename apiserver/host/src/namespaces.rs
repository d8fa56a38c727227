//! The host's namespaces: an object that comes through the host lives in one of those.

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

/// How long an object's namespace may be behind the object: who makes both, one after the other, is
/// faster than the news of the first. Upstream's number.
const BEHIND: Duration = Duration::from_millis(50);

/// Knows the host's namespaces from a watch, and asks for those that it does not know.
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
    /// Asks through this client. It knows none before [`HostNamespaces::follow`] runs.
    pub fn new(client: Client) -> Self {
        Self { client, known: Arc::default() }
    }

    /// Keeps up with the host's namespaces. While the host is silent what was known stays.
    pub async fn follow(self, watching: Client) {
        let events = watcher(Api::<Namespace>::all(watching), watcher::Config::default()).default_backoff();
        let mut events = std::pin::pin!(events);
        let mut fresh = HashMap::new();
        while let Some(event) = events.next().await {
            match event {
                Ok(event) => self.take(&mut fresh, event),
                Err(error) => tracing::warn!(%error, "the host's namespaces cannot be watched; trying again"),
            }
        }
    }

    /// `fresh` gathers a list until it is whole.
    fn take(&self, fresh: &mut HashMap<String, Value>, event: Event<Namespace>) {
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        match event {
            Event::Init => fresh.clear(),
            Event::InitApply(namespace) => {
                fresh.insert(namespace.name_any(), essence(&namespace));
            }
            Event::InitDone => *known = std::mem::take(fresh),
            Event::Apply(namespace) => {
                known.insert(namespace.name_any(), essence(&namespace));
            }
            Event::Delete(namespace) => {
                known.remove(&namespace.name_any());
            }
        }
    }
}

/// What creations depend on.
fn essence(namespace: &Namespace) -> Value {
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
        tokio::time::sleep(BEHIND).await;
        if let Some(known) = self.known(name) {
            return Ok(Some(known));
        }
        let api: Api<Namespace> = Api::all(self.client.clone());
        match api.get_opt(name).await {
            Ok(found) => Ok(found.as_ref().map(essence)),
            Err(error) => {
                tracing::warn!(%error, namespace = name, "the host did not answer for a namespace");
                Err(ApiError::unavailable(format!(
                    "namespace {name:?} is not known here and the host cluster cannot be asked for it"
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
    async fn what_is_known_is_not_asked_for_and_the_rest_is() {
        let host = Fake::new(status(404));
        let namespaces = HostNamespaces::new(host.client());
        let mut fresh = HashMap::new();
        for event in [Event::Init, Event::InitApply(namespace("team", "Active")), Event::InitDone] {
            namespaces.take(&mut fresh, event);
        }
        assert_eq!(phase(&namespaces.namespace("team").await.unwrap().unwrap()), "Active");
        namespaces.take(&mut fresh, Event::Apply(namespace("team", "Terminating")));
        assert_eq!(phase(&namespaces.namespace("team").await.unwrap().unwrap()), "Terminating");
        assert!(host.asked().is_empty(), "{:?}", host.asked());
        // Made this moment: the watch tells of it before the host would have to be asked.
        let asking = tokio::spawn({
            let namespaces = namespaces.clone();
            async move { namespaces.namespace("new").await }
        });
        tokio::time::sleep(BEHIND / 2).await;
        namespaces.take(&mut fresh, Event::Apply(namespace("new", "Active")));
        assert!(asking.await.unwrap().unwrap().is_some());
        assert!(host.asked().is_empty(), "{:?}", host.asked());
        assert_eq!(namespaces.namespace("none").await, Ok(None));
        assert_eq!(host.asked(), ["GET /api/v1/namespaces/none"]);
        namespaces.take(&mut fresh, Event::Delete(namespace("team", "Terminating")));
        assert_eq!(namespaces.namespace("team").await, Ok(None));
    }

    #[tokio::test(start_paused = true)]
    async fn while_the_host_is_silent_what_is_known_holds_and_the_rest_is_put_off() {
        let host = Fake::new(status(503));
        let namespaces = HostNamespaces::new(host.client());
        namespaces.take(&mut HashMap::new(), Event::Apply(namespace("team", "Active")));
        assert!(namespaces.namespace("team").await.unwrap().is_some());
        assert_eq!(namespaces.namespace("other").await.unwrap_err().code, 503);
    }
}
