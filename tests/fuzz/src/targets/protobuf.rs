//! Target for Protobuf: bodies of the kinds that typed clients send in it, options of deletions, and
//! metadata, which Capstan writes, too.

use apiserver_machinery::protobuf::{self, DELETE_OPTIONS, Field, METADATA};
use http::{Method, Request, header};
use serde_json::{Value, json};

use super::requests;
use crate::finding::{Verdict, demand};
use crate::server::FuzzServer;

const MEDIA: &str = "application/vnd.kubernetes.protobuf";

/// Collections, and an object that can be deleted.
const PATHS: [(Method, &str); 7] = [
    (Method::POST, "/api/v1/namespaces?dryRun=All"),
    (Method::POST, "/api/v1/namespaces/default/secrets?dryRun=All&fieldValidation=Strict"),
    (Method::POST, "/api/v1/namespaces/default/events?dryRun=All"),
    (Method::POST, "/apis/coordination.k8s.io/v1/namespaces/default/leases?dryRun=All"),
    (Method::POST, "/apis/rbac.authorization.k8s.io/v1/clusterroles?dryRun=All"),
    (Method::POST, "/apis/rbac.authorization.k8s.io/v1/namespaces/default/rolebindings?dryRun=All"),
    (Method::DELETE, "/apis/lab.example.io/v1/namespaces/default/widgets/w?dryRun=All"),
];

/// Uses the input as a body, with or without the four bytes of prefix, which are not worth guessing.
pub(super) fn check(server: &FuzzServer, input: &[u8]) -> Verdict {
    let body = if input.starts_with(b"k8s\0") { input.to_vec() } else { [b"k8s\0", input].concat() };
    for kind in ["PartialObjectMetadata", "Status", "DeleteOptions"] {
        let fields: &[Field] = if kind == "DeleteOptions" { DELETE_OPTIONS } else { &[METADATA] };
        match protobuf::decode(&body, kind, fields) {
            Ok(value) => again(&value, kind, fields)?,
            Err(refusal) => demand(refusal.to_string().len() > "proto: ".len(), || {
                "refused without a message".to_owned()
            })?,
        }
    }
    for (method, path) in PATHS {
        let request = Request::builder().method(method).uri(path).header(header::CONTENT_TYPE, MEDIA);
        requests::send(server, request, &body)?;
    }
    Ok(())
}

/// Checks that an encoded value decodes to the same value. Absent metadata become empty ones, as for a type
/// that always has metadata.
fn again(value: &Value, kind: &str, fields: &[Field]) -> Verdict {
    let Some(bytes) = protobuf::encode(value) else { return Ok(()) };
    let read = protobuf::decode(&bytes, kind, fields);
    let mut whole = value.clone();
    // For another kind than the requested one, only the kind is decoded.
    if let Some(object) = whole.as_object_mut().filter(|object| object.get("kind") == Some(&json!(kind))) {
        object.entry("metadata").or_insert_with(|| json!({}));
    }
    demand(read.as_ref() == Ok(&whole), || format!("{value} is written, and read as {read:?}"))
}
