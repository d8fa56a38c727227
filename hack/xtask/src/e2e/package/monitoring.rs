//! Kinds of the Prometheus Operator for the lab: the fields that our manifests use, with the types of the Operator's API.

use serde_json::{Value, json};

use crate::e2e::lab::Lab;

/// Group of the kinds.
const GROUP: &str = "monitoring.coreos.com";

/// CustomResourceDefinitions in the lab.
pub(super) struct Kinds {
    file: String,
}

impl Kinds {
    /// Creates the kinds, and waits until they are served.
    pub(super) fn create(lab: &Lab) -> anyhow::Result<Self> {
        let items = [
            definition("PodMonitor", "podmonitors", &monitor("podMetricsEndpoints")),
            definition("ServiceMonitor", "servicemonitors", &monitor("endpoints")),
            definition("PrometheusRule", "prometheusrules", &rules()),
        ];
        let list = json!({"apiVersion": "v1", "kind": "List", "items": items});
        let file = lab.file("monitoring-kinds.json", &list.to_string())?;
        lab.kubectl("admin", &["create", "-f", &file])?;
        lab.kubectl("admin", &["wait", "--for=condition=Established", "--timeout=60s", "-f", &file])?;
        Ok(Self { file })
    }

    /// Deletes the kinds: the scenarios after this one have a host cluster without the Operator.
    pub(super) fn delete(self, lab: &Lab) -> anyhow::Result<()> {
        lab.kubectl("admin", &["delete", "-f", &self.file]).map(drop)
    }
}

/// Returns a monitor with an error in the name of a field.
pub(super) fn with_unknown_field() -> Value {
    json!({
        "apiVersion": format!("{GROUP}/v1"), "kind": "PodMonitor",
        "metadata": {"name": "wrong", "namespace": "default"},
        "spec": {"selector": {}, "podMetricEndpoints": [{"port": "metrics"}]},
    })
}

fn definition(kind: &str, plural: &str, spec: &Value) -> Value {
    let names = json!({"kind": kind, "listKind": format!("{kind}List"), "plural": plural,
        "singular": kind.to_lowercase()});
    let schema = json!({"openAPIV3Schema": object(&json!({"spec": spec}), &["spec"])});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.{GROUP}")},
        "spec": {"group": GROUP, "scope": "Namespaced", "names": names,
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": schema}]},
    })
}

fn object(properties: &Value, required: &[&str]) -> Value {
    json!({"type": "object", "properties": properties, "required": required})
}

fn list(items: &Value) -> Value {
    json!({"type": "array", "items": items})
}

fn text() -> Value {
    json!({"type": "string"})
}

fn texts() -> Value {
    json!({"type": "object", "additionalProperties": text()})
}

fn duration() -> Value {
    json!({"type": "string", "pattern": "^[0-9]+(ms|s|m|h|d)$"})
}

/// Returns the spec of a monitor whose endpoints are in this field.
fn monitor(endpoints: &str) -> Value {
    let key = object(&json!({"name": text(), "key": text()}), &["key"]);
    let source = object(&json!({"secret": key, "configMap": key}), &[]);
    let tls = json!({"ca": source, "cert": source, "keySecret": key, "serverName": text(),
        "insecureSkipVerify": {"type": "boolean"}});
    let mut endpoint = json!({"port": text(), "path": text(), "interval": duration(), "tlsConfig": object(&tls, &[]),
        "scheme": {"type": "string", "enum": ["http", "https"]}});
    if endpoints == "endpoints" {
        endpoint["bearerTokenFile"] = text();
    }
    let namespaces = json!({"any": {"type": "boolean"}, "matchNames": list(&text())});
    let spec = json!({
        "selector": object(&json!({"matchLabels": texts()}), &[]),
        "namespaceSelector": object(&namespaces, &[]),
        endpoints: list(&object(&endpoint, &[])),
    });
    object(&spec, &["selector"])
}

/// Returns the spec of a PrometheusRule.
fn rules() -> Value {
    let rule = json!({"alert": text(), "record": text(), "expr": {"x-kubernetes-int-or-string": true},
        "for": duration(), "labels": texts(), "annotations": texts()});
    let group = json!({"name": text(), "interval": duration(), "rules": list(&object(&rule, &["expr"]))});
    object(&json!({"groups": list(&object(&group, &["name"]))}), &[])
}
