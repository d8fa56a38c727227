//! Table of certificate signing requests for `kubectl get`.

use apiserver_machinery::age::{age, human};
use apiserver_machinery::object;
use apiserver_machinery::table::{OwnColumn, OwnTable};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::{conditions, text};

pub(super) const TABLE: OwnTable = OwnTable {
    columns: &[
        OwnColumn { format: "name", ..column("Name", "Name of the request.") },
        column("Age", "Time since its creation."),
        column("SignerName", "Signer that issues the certificate."),
        column("Requestor", "User who created the request."),
        column("RequestedDuration", "Requested lifetime of the certificate."),
        column("Condition", "Decision, and whether the certificate is issued."),
    ],
    cells,
};

const fn column(name: &'static str, description: &'static str) -> OwnColumn {
    OwnColumn { name, format: "", priority: 0, description }
}

fn cells(request: &Value, now: Timestamp) -> Vec<Value> {
    let spec = request.get("spec").unwrap_or(&Value::Null);
    let lifetime = spec.get("expirationSeconds").and_then(Value::as_i64);
    vec![
        json!(object::name(request)),
        json!(age(object::meta(request, "creationTimestamp"), now)),
        json!(text(spec, "signerName")),
        json!(text(spec, "username")),
        json!(lifetime.map_or_else(|| "<none>".to_owned(), human)),
        json!(state(request)),
    ]
}

fn state(request: &Value) -> String {
    let has = |kind: &str| conditions(request).iter().any(|condition| text(condition, "type") == kind);
    let mut parts: Vec<&str> =
        ["Approved", "Denied", "Failed"].into_iter().filter(|kind| has(kind)).collect();
    if parts.is_empty() {
        parts.push("Pending");
    }
    let certificate = request.pointer("/status/certificate").and_then(Value::as_str).unwrap_or_default();
    if !certificate.is_empty() {
        parts.push("Issued");
    }
    parts.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_shows_the_decision_and_the_certificate() {
        let now = "2026-11-21T00:00:00Z".parse().unwrap();
        let mut request = json!({"metadata": {"name": "r", "creationTimestamp": "2026-11-20T23:59:00Z"},
            "spec": {"signerName": "a.b/c", "username": "alice"}});
        assert_eq!(
            Value::Array(cells(&request, now)),
            json!(["r", "60s", "a.b/c", "alice", "<none>", "Pending"])
        );
        request["spec"]["expirationSeconds"] = json!(86_400);
        request["status"] =
            json!({"conditions": [{"type": "Approved", "status": "True"}], "certificate": "AA=="});
        let expected = json!(["r", "60s", "a.b/c", "alice", "24h", "Approved,Issued"]);
        assert_eq!(Value::Array(cells(&request, now)), expected);
    }
}
