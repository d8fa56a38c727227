//! HostStatus: what this replica knows about the host cluster. No object is stored: each read shows the present state.

use std::fmt::Debug;
use std::sync::Arc;

use apiserver_machinery::resource::{Column, Registry, Resource};
use apiserver_machinery::strategy::Strategy;
use serde_json::{Value, json};

use crate::read_only::bare;

const GROUP: &str = "capstan.dev";

const PLURAL: &str = "hoststatuses";

/// Source of the object.
pub trait HostStatusSource: Debug + Send + Sync + 'static {
    /// Returns the object as it is now.
    fn object(&self) -> Value;
}

/// Returns the registry with this source of HostStatus. Without a source there is no object: no host is configured.
#[must_use]
pub fn with_host_status(registry: &Registry, source: &Arc<dyn HostStatusSource>) -> Registry {
    let with_source = |resource: &Arc<Resource>| {
        let mut resource = Resource::clone(resource);
        if resource.group == GROUP && resource.plural == PLURAL {
            resource.strategy = Arc::new(HostStatusStrategy(Some(Arc::clone(source))));
        }
        resource
    };
    Registry::new(registry.resources().iter().map(with_source).collect())
}

/// Strategy of HostStatus.
#[derive(Debug, Clone)]
struct HostStatusStrategy(Option<Arc<dyn HostStatusSource>>);

impl Strategy for HostStatusStrategy {
    fn is_read_only(&self) -> bool {
        true
    }

    fn fixed_objects(&self, _registry: &Registry) -> Vec<Value> {
        self.0.iter().map(|source| source.object()).collect()
    }
}

/// Returns the resource, without an object.
pub(crate) fn resource() -> Resource {
    Resource {
        group: GROUP.to_owned(),
        version: "v1alpha1".to_owned(),
        kind: "HostStatus".to_owned(),
        plural: PLURAL.to_owned(),
        singular: "hoststatus".to_owned(),
        hosted: true,
        columns: columns(),
        ..bare(schema(), HostStatusStrategy(None))
    }
}

fn columns() -> Vec<Column> {
    let status = |kind: &str| format!(".status.conditions[?(@.type==\"{kind}\")].status");
    let all = [
        ("State", "string", ".status.state".to_owned(), 0, "State of the host cluster."),
        ("Since", "date", ".status.since".to_owned(), 0, "Age of the state."),
        ("Reachable", "string", status("Reachable"), 0, "True if the host cluster answers."),
        ("Mirror-Fresh", "string", status("MirrorFresh"), 0, "True if all copies of its data can be used."),
        ("Caught-Up", "string", status("WriteBackCaughtUp"), 0, "True if it has all Events and Secrets."),
        (
            "Last-Contact",
            "date",
            ".status.lastContactTime".to_owned(),
            0,
            "Time since its last answer that counted.",
        ),
        ("Refused", "string", status("CredentialRefused"), 1, "True if it refuses Capstan's own user."),
        (
            "Credential-End",
            "string",
            ".status.credentialEndTime".to_owned(),
            1,
            "End of Capstan's client certificate in it.",
        ),
        ("UID", "string", ".status.pinnedUID".to_owned(), 1, "Uid of its namespace kube-system."),
        ("Replica", "string", ".status.replica".to_owned(), 1, "Replica of Capstan that has observed this."),
    ];
    let column = |(name, kind, json_path, priority, description): (&str, &str, String, i32, &str)| Column {
        name: name.to_owned(),
        kind: kind.to_owned(),
        json_path,
        priority,
        description: description.to_owned(),
    };
    all.map(column).into()
}

fn text(description: &str) -> Value {
    json!({"type": "string", "description": description})
}

fn time(description: &str) -> Value {
    json!({"type": "string", "format": "date-time", "description": description})
}

fn count(description: &str) -> Value {
    json!({"type": "integer", "format": "int64", "minimum": 0, "description": description})
}

fn object(description: &str, required: &[&str], properties: &Value) -> Value {
    json!({"type": "object", "description": description, "required": required, "properties": properties})
}

fn list(description: &str, key: &str, items: &Value) -> Value {
    json!({"type": "array", "description": description, "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": [key], "items": items})
}

fn schema() -> Value {
    json!({"type": "object",
    "description": "State of the host cluster, as the replica that answers observes it. The object is read-only and has the name host.",
    "properties": {
        "apiVersion": text("Group and version of this representation."),
        "kind": text("Kind of this object."),
        "metadata": {"type": "object"},
        "status": object("Observations of the replica.", &["since", "state"], &json!({
            "state": {"type": "string", "enum": ["Up", "Slow", "Down", "Probation", "Other"],
                "description": "State of the host cluster."},
            "since": time("Time at which the replica has noticed the state; at first the start of the replica."),
            "replica": text("Name of the replica."),
            "lastContactTime": time("Last answer of the host cluster that counted. Absent if there was none, also in earlier processes."),
            "pinnedUID": text("Uid of the namespace kube-system of the known host cluster."),
            "credentialEndTime": time("End of Capstan's client certificate in the host cluster. Absent without one."),
            "namespacesGone": {"type": "array", "x-kubernetes-list-type": "set", "items": text("Name of the namespace."),
                "description": "Namespaces with objects of Capstan that the host cluster does not have. Absent if it has all of them."},
            "mirrors": list("Copies of the host cluster's data.", "name", &mirror()),
            "outbox": list("Objects that wait to be written to the host cluster. Empty except on the leader.", "kind", &outbox()),
            "conditions": list("Conditions Reachable, CredentialRefused, MirrorFresh, WriteBackCaughtUp and NamespacesGone.", "type", &condition()),
        })),
    }})
}

fn mirror() -> Value {
    object(
        "Copy of one kind of data.",
        &["name", "objects", "usable"],
        &json!({
            "name": text("Name of the kind of data."),
            "objects": count("Number of objects in the copy."),
            "usable": {"type": "boolean", "description": "False if the copy was never read, is older than its bound, or is switched off."},
            "ageSeconds": count("Time since the copy had all changes, in seconds. Absent if it never had."),
            "boundSeconds": count("Longest age at which the copy is used, in seconds. Absent if it is used at any age."),
            "lastSyncTime": time("Last time at which the copy had all changes."),
            "leftOut": {"type": "array", "x-kubernetes-list-type": "set", "items": text("Kind and name, as Kind/name."),
                "description": "Objects that are copied and have no effect: webhooks of providers that Capstan replaces."},
            "unread": {"type": "array", "x-kubernetes-list-type": "set", "items": text("Reference, and the reason."),
                "description": "Parameters of policies that should be copied and cannot be read."},
        }),
    )
}

fn outbox() -> Value {
    object(
        "Objects of one kind.",
        &["kind", "objects", "refused"],
        &json!({
            "kind": text("Kind of the objects: events, secrets or namespaces."),
            "objects": count("Number of objects that wait."),
            "oldestTime": time("Time since which the oldest object waits."),
            "refused": count("Number of Secrets that the host cluster refuses, or of Events that it has refused since the start of the replica."),
        }),
    )
}

fn condition() -> Value {
    object(
        "Condition of the host cluster.",
        &["lastTransitionTime", "message", "reason", "status", "type"],
        &json!({
            "type": text("Type of the condition."),
            "status": {"type": "string", "enum": ["True", "False", "Unknown"], "description": "Status of the condition."},
            "reason": text("Reason of the status, as one word."),
            "message": text("Reason of the status, for people."),
            "lastTransitionTime": time("Time at which the replica has noticed the status."),
        }),
    )
}
