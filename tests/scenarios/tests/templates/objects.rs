//! Objects of a namespace as JSON, and waits that last as long as the objects change.

use std::time::{Duration, Instant};

use kube::Client;
use serde_json::Value;

/// Paths of the kinds of a cluster, below the root of their group.
pub(crate) const KINDS: [(&str, &str); 13] = [
    ("cluster.x-k8s.io/v1beta2", "clusters"),
    ("cluster.x-k8s.io/v1beta2", "machinedeployments"),
    ("cluster.x-k8s.io/v1beta2", "machinesets"),
    ("cluster.x-k8s.io/v1beta2", "machines"),
    ("cluster.x-k8s.io/v1beta2", "machinehealthchecks"),
    ("cluster.x-k8s.io/v1beta2", "machinepools"),
    ("controlplane.cluster.x-k8s.io/v1beta2", "kubeadmcontrolplanes"),
    ("bootstrap.cluster.x-k8s.io/v1beta2", "kubeadmconfigs"),
    ("bootstrap.cluster.x-k8s.io/v1beta2", "kubeadmconfigtemplates"),
    ("infrastructure.cluster.x-k8s.io/v1beta2", "openstackclusters"),
    ("infrastructure.cluster.x-k8s.io/v1beta2", "openstackmachines"),
    ("infrastructure.cluster.x-k8s.io/v1beta2", "openstackmachinetemplates"),
    ("infrastructure.cluster.x-k8s.io/v1alpha1", "openstackservers"),
];

/// Interval between two looks.
pub(crate) const INTERVAL: Duration = Duration::from_millis(400);

/// Time without a change after which the objects are at rest. Controllers react to each other in less.
pub(crate) const STILL: Duration = Duration::from_millis(1500);

/// Time without a change after which nothing more is expected. Each wait of a controller is shorter, also on a machine
/// that is busy with other tests.
pub(crate) const PATIENCE: Duration = Duration::from_secs(100);

/// Objects of one namespace.
pub(crate) struct Namespace {
    pub(crate) client: Client,
    pub(crate) name: String,
}

impl Namespace {
    /// Lists a kind. Each object has its kind, which the items of a list lack.
    pub(crate) async fn list(&self, root: &str, plural: &str) -> Vec<Value> {
        let path = format!("{root}/namespaces/{}/{plural}", self.name);
        let request = http::Request::get(path).body(Vec::new()).unwrap();
        let mut list: Value = self.client.request(request).await.unwrap();
        let kind = list["kind"].as_str().unwrap().trim_end_matches("List").to_owned();
        let mut items = list["items"].as_array_mut().map(std::mem::take).unwrap_or_default();
        items.iter_mut().for_each(|item| item["kind"] = kind.clone().into());
        items
    }

    /// Lists the kinds of a cluster.
    pub(crate) async fn objects(&self) -> Vec<Value> {
        let mut objects = Vec::new();
        for (version, plural) in KINDS {
            objects.extend(self.list(&format!("/apis/{version}"), plural).await);
        }
        objects
    }

    /// Lists the Secrets.
    pub(crate) async fn secrets(&self) -> Vec<Value> {
        self.list("/api/v1", "secrets").await
    }
}

/// Longest wait for a state. Objects that change for longer never come to rest.
const LONGEST: Duration = Duration::from_secs(400);

/// Time for which objects have not changed.
pub(crate) struct Stillness {
    revisions: Vec<(Value, Value)>,
    since: Instant,
    begun: Instant,
}

impl Stillness {
    pub(crate) fn new() -> Self {
        Self { revisions: Vec::new(), since: Instant::now(), begun: Instant::now() }
    }

    /// Returns how long the objects have been the same. Returns [`PATIENCE`] if they never come to rest.
    pub(crate) fn of(&mut self, objects: &[Value]) -> Duration {
        let revision = |object: &Value| {
            let meta = &object["metadata"];
            (meta["uid"].clone(), meta["resourceVersion"].clone())
        };
        let now: Vec<_> = objects.iter().map(revision).collect();
        if now != self.revisions {
            (self.revisions, self.since) = (now, Instant::now());
        }
        if self.begun.elapsed() > LONGEST { PATIENCE } else { self.since.elapsed() }
    }
}

/// Returns a text in an object, or an empty one.
pub(crate) fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// Returns the condition of a type.
pub(crate) fn condition<'a>(object: &'a Value, kind: &str) -> Option<&'a Value> {
    conditions(object).find(|it| it["type"] == kind)
}

/// Returns the conditions of an object.
pub(crate) fn conditions(object: &Value) -> impl Iterator<Item = &Value> {
    object.pointer("/status/conditions").and_then(Value::as_array).into_iter().flatten()
}
