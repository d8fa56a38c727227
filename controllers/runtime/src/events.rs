//! Recorder of Events.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Event, EventSource, ObjectReference};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta, Time};
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Client, Resource, ResourceExt};
use serde_json::json;

/// Longest message of an Event, by the API's validation. Unit: bytes.
const MESSAGE_LIMIT: usize = 1024;

/// Recent Events that are remembered, so that a repetition is counted instead of added.
const REMEMBERED: usize = 4096;

/// Type of an Event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Severity {
    /// For information.
    Normal,
    /// An operator may have to act.
    Warning,
}

/// Recorder of the Events of one controller.
#[derive(Clone)]
pub struct Recorder {
    client: Client,
    component: &'static str,
    recent: Arc<Mutex<HashMap<Occurrence, Written>>>,
}

/// Key by which two Events are the same: the object's uid, the reason, and the message.
type Occurrence = (String, String, String);

/// Name and count of a recorded Event.
type Written = (String, i32);

impl std::fmt::Debug for Recorder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Recorder").field("component", &self.component).finish_non_exhaustive()
    }
}

/// Cuts a message to the limit of an Event.
fn short(message: &str) -> String {
    let mut message = message.to_owned();
    while message.len() > MESSAGE_LIMIT {
        message.pop();
    }
    message
}

impl Recorder {
    /// Creates a recorder for `component`, e.g. `openstackmachine-controller`.
    pub fn new(client: Client, component: &'static str) -> Self {
        Self { client, component, recent: Arc::default() }
    }

    /// Records an Event of an object. Best effort: if it cannot be written, that is logged, because
    /// conditions report the same.
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

    /// Records an Event of an object whose type is not known here. The Event of an object without a
    /// namespace is in `default`, where upstream's tools look for it.
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
        // The request id differs each time; the occurrence is the same.
        let gist = message.split(" (request ").next().unwrap_or(message);
        let key = (object.uid.clone().unwrap_or_default(), reason.to_owned(), gist.to_owned());
        let known = self.recent.lock().unwrap_or_else(PoisonError::into_inner).get(&key).cloned();
        let written = match known {
            Some((name, count)) => {
                let count = count.saturating_add(1);
                let latest = short(message);
                let change =
                    json!({"count": count, "lastTimestamp": Time(Timestamp::now()), "message": latest});
                let params = PatchParams::default();
                match api.patch(&name, &params, &Patch::Merge(&change)).await {
                    // It has expired since.
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
            // A namespace that is being deleted accepts no new objects.
            Err(kube::Error::Api(status)) if status.code == 403 => {
                tracing::debug!(%status, reason, "event not recorded");
            }
            Err(error) => {
                tracing::warn!(%error, reason, object = name, "event not recorded")
            }
        }
    }

    fn remember(&self, key: Occurrence, written: Written) {
        let mut recent = self.recent.lock().unwrap_or_else(PoisonError::into_inner);
        if recent.len() >= REMEMBERED {
            recent.clear();
        }
        recent.insert(key, written);
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
