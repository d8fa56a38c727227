//! Core Kubernetes kinds that the direct endpoint serves: Namespace, Secret, ConfigMap, Event,
//! ServiceAccount, ResourceQuota and Lease.

use k8s_openapi::api::coordination::v1::LeaseSpec;
use serde_json::{Value, json};

use crate::descriptor::{AGE, Described, Descriptor, column};
use crate::scalar::Quantity;
use crate::schema::{object, structural};

/// Defines a kind whose objects the server handles as JSON only, so that it has a descriptor and a schema but no
/// Rust fields.
macro_rules! core_kind {
    ($(#[$doc:meta])* $name:ident, $schema:path, $descriptor:expr) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum $name {}

        impl Described for $name {
            const DESCRIPTOR: Descriptor = $descriptor;

            fn schema() -> Value {
                $schema()
            }
        }
    };
}

pub(crate) use core_kind;

core_kind! {
    /// Namespace of `core/v1`.
    Namespace, namespace, Descriptor {
        group: "", version: "v1", kind: "Namespace", plural: "namespaces", singular: "namespace",
        short_names: &["ns"], categories: &[], namespaced: false, status_subresource: true, scale: None,
        deprecation: None, columns: &[column("Status", "string", ".status.phase", "Active, or Terminating while its objects are being deleted."), AGE],
    }
}

core_kind! {
    /// Secret of `core/v1`.
    Secret, secret, Descriptor {
        group: "", version: "v1", kind: "Secret", plural: "secrets", singular: "secret", short_names: &[],
        categories: &[], namespaced: true, status_subresource: false, scale: None, deprecation: None, columns: &[],
    }
}

core_kind! {
    /// ConfigMap of `core/v1`.
    ConfigMap, config_map, Descriptor {
        group: "", version: "v1", kind: "ConfigMap", plural: "configmaps", singular: "configmap", short_names: &["cm"],
        categories: &[], namespaced: true, status_subresource: false, scale: None, deprecation: None, columns: &[],
    }
}

core_kind! {
    /// Event of `core/v1`.
    Event, event, Descriptor {
        group: "", version: "v1", kind: "Event", plural: "events", singular: "event", short_names: &["ev"],
        categories: &[], namespaced: true, status_subresource: false, scale: None, deprecation: None, columns: &[],
    }
}

core_kind! {
    /// ServiceAccount of `core/v1`.
    ServiceAccount, service_account, Descriptor {
        group: "", version: "v1", kind: "ServiceAccount", plural: "serviceaccounts", singular: "serviceaccount",
        short_names: &["sa"], categories: &[], namespaced: true, status_subresource: false, scale: None,
        deprecation: None, columns: &[],
    }
}

core_kind! {
    /// ResourceQuota of `core/v1`.
    ResourceQuota, resource_quota, Descriptor {
        group: "", version: "v1", kind: "ResourceQuota", plural: "resourcequotas", singular: "resourcequota",
        short_names: &["quota"], categories: &[], namespaced: true, status_subresource: true, scale: None,
        deprecation: None, columns: &[],
    }
}

core_kind! {
    /// Lease of `coordination.k8s.io/v1`.
    Lease, lease, Descriptor {
        group: "coordination.k8s.io", version: "v1", kind: "Lease", plural: "leases", singular: "lease",
        short_names: &[], categories: &[], namespaced: true, status_subresource: false, scale: None,
        deprecation: None, columns: &[column("Holder", "string", ".spec.holderIdentity", "Identity that holds the lease."), AGE],
    }
}

fn namespace() -> Value {
    let spec = json!({"type": "object", "properties": {"finalizers": {"type": "array", "items": {"type": "string"}}}});
    let text = json!({"type": "string"});
    let time = json!({"type": "string", "format": "date-time"});
    let condition = json!({"type": "object", "required": ["type", "status"], "properties": {"type": text,
        "status": text, "lastTransitionTime": time, "reason": text, "message": text}});
    let conditions = json!({"type": "array", "items": condition, "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["type"]});
    let status = json!({"type": "object", "properties": {"phase": text, "conditions": conditions}});
    object("Namespace: scope of names, permissions and deletion.", Some(spec), Some(status), false)
}

/// Returns the schema of a map of texts, in which a null stands for an empty text.
fn texts() -> Value {
    json!({"type": "object", "additionalProperties": {"type": "string", "default": ""}})
}

fn secret() -> Value {
    let mut schema = object("Secret data. It is encrypted at rest.", None, None, false);
    schema["properties"]["data"] = json!({"type": "object", "additionalProperties": {"type": "string"}});
    schema["properties"]["stringData"] = texts();
    schema["properties"]["type"] = json!({"type": "string"});
    schema["properties"]["immutable"] = json!({"type": "boolean"});
    schema
}

fn config_map() -> Value {
    let mut schema = object("Configuration data that is not confidential.", None, None, false);
    schema["properties"]["data"] = texts();
    schema["properties"]["binaryData"] =
        json!({"type": "object", "additionalProperties": {"type": "string"}});
    schema["properties"]["immutable"] = json!({"type": "boolean"});
    schema
}

fn event() -> Value {
    let mut schema =
        object("Report about an object, such as a change of its state or an error.", None, None, false);
    let text = json!({"type": "string"});
    let reference = json!({"type": "object", "properties": {"apiVersion": text, "kind": text, "namespace": text,
        "name": text, "uid": text, "resourceVersion": text, "fieldPath": text}});
    let time = json!({"type": "string", "format": "date-time", "nullable": true});
    let fields = [
        ("involvedObject", reference.clone()),
        ("related", reference),
        ("reason", text.clone()),
        ("message", text.clone()),
        ("type", text.clone()),
        ("action", text.clone()),
        ("reportingComponent", text.clone()),
        ("reportingInstance", text.clone()),
        ("count", json!({"type": "integer", "format": "int32"})),
        ("firstTimestamp", time.clone()),
        ("lastTimestamp", time.clone()),
        ("eventTime", time.clone()),
        ("source", json!({"type": "object", "properties": {"component": text, "host": text}})),
        (
            "series",
            json!({"type": "object", "properties": {
            "count": {"type": "integer", "format": "int32"}, "lastObservedTime": time}}),
        ),
    ];
    for (name, field) in fields {
        schema["properties"][name] = field;
    }
    schema
}

fn service_account() -> Value {
    let mut schema =
        object("Identity of a program, which logs in with tokens of this account.", None, None, false);
    let text = json!({"type": "string"});
    let reference = json!({"type": "object", "x-kubernetes-map-type": "atomic", "properties": {"apiVersion": text,
        "kind": text, "namespace": text, "name": text, "uid": text, "resourceVersion": text, "fieldPath": text}});
    let local = json!({"type": "object", "x-kubernetes-map-type": "atomic", "properties": {"name": text}});
    schema["properties"]["secrets"] = json!({"type": "array", "items": reference,
        "description": "Secrets that programs with this account may use. Capstan does not read the list.",
        "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]});
    schema["properties"]["imagePullSecrets"] = json!({"type": "array", "items": local,
        "description": "Secrets with credentials of image registries. Capstan does not read the list.",
        "x-kubernetes-list-type": "atomic"});
    schema["properties"]["automountServiceAccountToken"] = json!({"type": "boolean",
        "description": "If false, Pods get no token of the account. Capstan runs no Pods, and does not read it."});
    schema
}

fn resource_quota() -> Value {
    let text = json!({"type": "string"});
    let texts = |rule: &str| json!({"type": "array", "items": text, "x-kubernetes-list-type": rule});
    let amounts = |description: &str| {
        let mut quantity = structural::<Quantity>();
        quantity["description"] = json!("Whole number, e.g. 5 or 1k.");
        json!({"type": "object", "description": description, "additionalProperties": quantity})
    };
    let expression = json!({"type": "object", "required": ["scopeName", "operator"], "properties": {
        "scopeName": text, "operator": text, "values": texts("atomic")}});
    let selector = json!({"type": "object", "x-kubernetes-map-type": "atomic", "description":
        "Selection of Pods. A quota with a selection limits nothing in Capstan.", "properties": {
        "matchExpressions": {"type": "array", "items": expression, "x-kubernetes-list-type": "atomic"}}});
    let mut scopes = texts("atomic");
    scopes["description"] = json!("Selection of Pods. A quota with scopes limits nothing in Capstan.");
    let hard = "Largest amounts by name, e.g. count/machines.cluster.x-k8s.io or capstan.dev/machines.";
    let spec = json!({"type": "object",
        "properties": {"hard": amounts(hard), "scopes": scopes, "scopeSelector": selector}});
    let status = json!({"type": "object", "properties": {"hard": amounts("Amounts that the server enforces."),
        "used": amounts("Amounts in use, at most some seconds old.")}});
    object("Limits on the number of objects and machines in a namespace.", Some(spec), Some(status), false)
}

fn lease() -> Value {
    object(
        "Lease: holder of an election, and the time until which it leads.",
        Some(structural::<LeaseSpec>()),
        None,
        false,
    )
}
