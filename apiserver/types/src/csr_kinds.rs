//! CertificateSigningRequest of `certificates.k8s.io/v1`, which the direct endpoint serves.

use serde_json::{Value, json};

use crate::core_kinds::core_kind;
use crate::descriptor::{Described, Descriptor};
use crate::schema::object;

/// API group of certificate signing requests and of the permissions on signers.
pub const GROUP: &str = "certificates.k8s.io";

core_kind! {
    /// CertificateSigningRequest of `certificates.k8s.io/v1`.
    CertificateSigningRequest, request, Descriptor {
        group: GROUP, version: "v1", kind: "CertificateSigningRequest", plural: "certificatesigningrequests",
        singular: "certificatesigningrequest", short_names: &["csr"], categories: &[], namespaced: false,
        status_subresource: true, scale: None, deprecation: None, columns: &[],
    }
}

fn request() -> Value {
    let text = |description: &str| json!({"type": "string", "description": description});
    let texts = |description: &str| {
        json!({"type": "array", "description": description, "items": {"type": "string"},
        "x-kubernetes-list-type": "atomic"})
    };
    let time = |description: &str| json!({"type": "string", "format": "date-time", "nullable": true, "description": description});
    let bytes = |description: &str| json!({"type": "string", "format": "byte", "description": description});
    let spec = json!({"type": "object", "description": "The request. It cannot be changed.",
    "required": ["request", "signerName"], "properties": {
        "request": bytes("PKCS #10 request in PEM."),
        "signerName": text("Signer that issues the certificate, such as kubernetes.io/kube-apiserver-client."),
        "expirationSeconds": {"type": "integer", "format": "int32", "nullable": true,
            "description": "Requested lifetime of the certificate, at least 600. The signer may shorten it."},
        "usages": texts("Key usages of the certificate, such as client auth."),
        "username": text("User who created the request. The server sets it."),
        "uid": text("Uid of that user. The server sets it."),
        "groups": texts("Groups of that user. The server sets them."),
        "extra": {"type": "object", "description": "Extra attributes of that user. The server sets them.",
            "additionalProperties": {"type": "array", "items": {"type": "string"}}},
    }});
    let condition = json!({"type": "object", "description": "Decision about the request.", "required": ["type", "status"],
    "properties": {
        "type": text("Approved, Denied or Failed."),
        "status": text("True."),
        "reason": text("Reason in one word."),
        "message": text("Reason for people."),
        "lastUpdateTime": time("Time of the last change of the condition."),
        "lastTransitionTime": time("Time of the last change of the status."),
    }});
    let status = json!({"type": "object", "description": "Decision, and the certificate.", "properties": {
        "conditions": {"type": "array", "description": "Decisions about the request.", "items": condition,
            "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]},
        "certificate": bytes("Certificate in PEM, once it is issued."),
    }});
    object("Request for a certificate of one of the server's own CAs.", Some(spec), Some(status), true)
}
