//! Tells people what happened, in Events.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Event, EventSource, ObjectReference};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta, Time};
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Client, Resource, ResourceExt};
use serde_json::json;

/// What an Event's message may hold, in bytes, by the rules of the API.
const MESSAGE_LIMIT: usize = 1024;

/// How many recent Events are remembered, so that a repetition counts instead of adding another.
const REMEMBERED: usize = 4096;

/// Whether an Event is good to know or needs somebody.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Severity {
    /// Good to know.
    Normal,
    /// Needs somebody.
    Warning,
}

/// Records Events for one controller.
#[derive(Clone)]
pub struct Recorder {
    client: Client,
    component: &'static str,
    seen: Arc<Mutex<HashMap<Occurrence, Written>>>,
}

/// What makes two Events the same: the object's uid, the reason, and the message.
type Occurrence = (String, String, String);

/// An Event's name, and how often it was told.
type Written = (String, i32);

impl std::fmt::Debug for Recorder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Recorder").field("component", &self.component).finish_non_exhaustive()
    }
}

/// A message no longer than an Event may hold.
fn short(message: &str) -> String {
    let mut message = message.to_owned();
    while message.len() > MESSAGE_LIMIT {
        message.pop();
    }
    message
}

impl Recorder {
    /// A recorder that speaks as `component`, e.g. `openstackmachine-controller`.
    pub fn new(client: Client, component: &'static str) -> Self {
        Self { client, component, seen: Arc::default() }
    }

    /// Records that something happened to an object. Best effort: an Event that cannot be written
    /// is logged, since conditions say the same.
    pub async fn record<K>(&self, object: &K, severity: Severity, reason: &str, message: &str)
    where
        K: Resource<DynamicType = ()>,
    {
        let about = ObjectReference {
            api_version: Some(K::api_version(&()).into_owned()),
            kind: Some(K::kind(&()).into_owned()),
            name: object.meta().name.clone(),
            namespace: object.namespace(),
            uid: object.uid(),
            ..ObjectReference::default()
        };
        self.record_about(&about, severity, reason, message).await;
    }

    /// Likewise, of an object whose type is not known here. What has no namespace is told of in
    /// `default`, where upstream's tools look for it.
    pub async fn record_about(
        &self,
        object: &ObjectReference,
        severity: Severity,
        reason: &str,
        message: &str,
    ) {
        let namespace = object.namespace.as_deref().unwrap_or("default");
        let kind = object.kind.as_deref().unwrap_or_default();
        let name = object.name.as_deref().unwrap_or_default();
        match severity {
            Severity::Normal => tracing::info!(%kind, namespace, name, reason, "{message}"),
            Severity::Warning => tracing::warn!(%kind, namespace, name, reason, "{message}"),
        }
        let api: Api<Event> = Api::namespaced(self.client.clone(), namespace);
        // A request id is another each time; what happened is the same.
        let gist = message.split(" (request ").next().unwrap_or(message);
        let key = (object.uid.clone().unwrap_or_default(), reason.to_owned(), gist.to_owned());
        let known = self.seen.lock().unwrap_or_else(PoisonError::into_inner).get(&key).cloned();
        let written = match known {
            Some((name, count)) => {
                let count = count.saturating_add(1);
                let latest = short(message);
                let change =
                    json!({"count": count, "lastTimestamp": Time(Timestamp::now()), "message": latest});
                let params = PatchParams::default();
                match api.patch(&name, &params, &Patch::Merge(&change)).await {
                    // It was forgotten meanwhile.
                    Err(kube::Error::Api(status)) if status.code == 404 => {
                        self.create(&api, object, severity, reason, message).await.map(|name| (name, 1))
                    }
                    result => result.map(|_| (name, count)),
                }
            }
            None => self.create(&api, object, severity, reason, message).await.map(|name| (name, 1)),
        };
        match written {
            Ok(written) => self.remember(key, written),
            // A namespace that is being deleted takes no more.
            Err(kube::Error::Api(status)) if status.code == 403 => {
                tracing::debug!(%status, reason, "an event was not recorded");
            }
            Err(error) => {
                tracing::warn!(%error, reason, object = name, "an event was not recorded")
            }
        }
    }

    fn remember(&self, key: Occurrence, written: Written) {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if seen.len() >= REMEMBERED {
            seen.clear();
        }
        seen.insert(key, written);
    }

    async fn create(
        &self,
        api: &Api<Event>,
        object: &ObjectReference,
        severity: Severity,
        reason: &str,
        message: &str,
    ) -> Result<String, kube::Error> {
        let now = Timestamp::now();
        let message = short(message);
        let name = format!("{}.{:x}", object.name.as_deref().unwrap_or_default(), now.as_nanosecond());
        let event = Event {
            metadata: ObjectMeta {
                name: Some(name.clone()),
                namespace: Some(object.namespace.clone().unwrap_or_else(|| "default".to_owned())),
                ..ObjectMeta::default()
            },
            involved_object: object.clone(),
            reason: Some(reason.to_owned()),
            message: Some(message),
            type_: Some(format!("{severity:?}")),
            count: Some(1),
            event_time: None::<MicroTime>,
            first_timestamp: Some(Time(now)),
            last_timestamp: Some(Time(now)),
            source: Some(EventSource { component: Some(self.component.to_owned()), host: None }),
            reporting_component: Some(self.component.to_owned()),
            ..Event::default()
        };
        api.create(&PostParams::default(), &event).await?;
        Ok(name)
    }
}
