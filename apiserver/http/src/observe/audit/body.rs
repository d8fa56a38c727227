//! Bodies of a request and of its response, as an audit event has them.

use std::sync::Arc;

use apiserver_machinery::object;
use apiserver_machinery::protobuf::{self, Field};
use apiserver_machinery::resource::Resource;
use apiserver_machinery::store::unknown_fields;
use bytes::{Bytes, BytesMut};
use http::header::{CONTENT_ENCODING, CONTENT_TYPE};
use serde_json::{Map, Value, json};

use super::redaction::redact;
use crate::request::request_info::RequestInfo;
use crate::request::yaml;
use crate::response::HttpResponse;
use crate::response::body::ResponseBody;
use crate::response::chunked::Chunked;
use crate::response::streamed::chunk_source::ChunkSource;

/// Largest body that is recorded: an object is rarely as large, and a list of that size says little. Upstream's limit
/// for a whole event, after which it truncates, is the same. Unit: bytes.
const LARGEST: usize = 100 * 1024;

/// Annotation of an event without a body that was too large: upstream's.
const TRUNCATED: &str = "audit.k8s.io/truncated";

/// Annotation of an event without a body in a form that the server does not decode here.
const UNREADABLE: &str = "audit.capstan.dev/unreadable-body";

/// Content type of typed clients.
const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

/// Recorded bodies of one request.
#[derive(Debug, Clone, Default)]
pub(crate) struct Bodies {
    request: Option<Value>,
    response: Option<Value>,
    is_truncated: bool,
    is_unreadable: bool,
    resource: Option<Arc<Resource>>,
    omits_managed_fields: bool,
}

impl Bodies {
    /// Creates a record of the bodies of this kind, if it is known. Field managers may be left out.
    pub(crate) fn new(resource: Option<Arc<Resource>>, omits_managed_fields: bool) -> Self {
        Self { resource, omits_managed_fields, ..Self::default() }
    }

    /// Records the body of a request: of a create or update as the kind's schema completes it, else as it was sent.
    pub(crate) fn set_request(&mut self, info: &RequestInfo, content_type: &str, body: &[u8]) {
        // The bodies of other paths are no objects: a join has a secret, of a name that says nothing here.
        if body.is_empty() || info.resource().is_none() {
            return;
        }
        let resource = self.resource.clone();
        let is_deletion = matches!(info.verb, "delete" | "deletecollection");
        let options = is_deletion.then_some(("DeleteOptions", protobuf::DELETE_OPTIONS));
        let message = options.or_else(|| message_of(resource.as_deref()));
        let Some(mut value) = self.decoded(content_type, body, message) else { return };
        let is_object = matches!(info.verb, "create" | "update");
        if let Some(resource) = resource.filter(|resource| is_object && value["kind"] == *resource.kind) {
            // As upstream, which records the decoded object.
            unknown_fields(&resource, &mut value);
            resource.schema.fill_in(&mut value);
        }
        if is_object && self.omits_managed_fields {
            remove_managed_fields(&mut value);
        }
        redact(&mut value);
        self.request = Some(value);
    }

    /// Records the body of a response, and leaves the response as it is. Watches have no body here.
    pub(crate) fn set_response(&mut self, answer: &mut HttpResponse) {
        let content_type = answer.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
        let content_type = content_type.unwrap_or_default().to_owned();
        let is_document = ["json", "yaml", PROTOBUF].iter().any(|word| content_type.contains(word));
        if !is_document || answer.headers().contains_key(CONTENT_ENCODING) {
            return;
        }
        if answer.body().length().is_some_and(|length| length > LARGEST) {
            self.is_truncated = true;
            return;
        }
        let Some(body) = peek(answer.body_mut()) else {
            self.is_truncated |= matches!(answer.body(), ResponseBody::Chunked(_));
            return;
        };
        let resource = self.resource.clone();
        let Some(mut value) = self.decoded(&content_type, &body, message_of(resource.as_deref())) else {
            return;
        };
        // Other documents, such as the version, are no objects.
        if !value["kind"].is_string() || !value["apiVersion"].is_string() {
            return;
        }
        if self.omits_managed_fields {
            remove_managed_fields(&mut value);
        }
        redact(&mut value);
        self.response = Some(value);
    }

    /// Adds the bodies to an event, and annotations for those that are missing.
    pub(crate) fn add_to(&self, event: &mut Map<String, Value>, annotations: &mut Map<String, Value>) {
        for (field, body) in [("requestObject", &self.request), ("responseObject", &self.response)] {
            if let Some(body) = body {
                event.insert(field.to_owned(), body.clone());
            }
        }
        for (annotation, is_set) in [(TRUNCATED, self.is_truncated), (UNREADABLE, self.is_unreadable)] {
            if is_set {
                annotations.insert(annotation.to_owned(), json!("true"));
            }
        }
    }

    fn decoded(
        &mut self,
        content_type: &str,
        body: &[u8],
        message: Option<(&str, &[Field])>,
    ) -> Option<Value> {
        if body.len() > LARGEST {
            self.is_truncated = true;
            return None;
        }
        let decoded = decode(content_type, body, message);
        self.is_unreadable |= decoded.is_none();
        decoded
    }
}

/// Returns the form of a kind's objects in protobuf, if it has one.
fn message_of(resource: Option<&Resource>) -> Option<(&str, &'static [Field])> {
    let resource = resource?;
    Some((&resource.kind, resource.strategy.protobuf()?))
}

fn decode(content_type: &str, body: &[u8], message: Option<(&str, &[Field])>) -> Option<Value> {
    let media = content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    if media == PROTOBUF {
        let (kind, fields) = message?;
        let decoded = protobuf::decode(body, kind, fields).ok()?;
        return Some(decoded).filter(|object| object["kind"] == *kind);
    }
    // Most clients send JSON in a configuration, too, and JSON is decoded faster.
    if let Ok(value) = serde_json::from_slice(body) {
        return Some(value);
    }
    let text = std::str::from_utf8(body).ok().filter(|_| media.contains("yaml"))?;
    serde_saphyr::from_str_with_options::<Value>(text, yaml::options()).ok()
}

/// Returns the bytes of a body that is not larger than the limit, and puts them back. Parts of a larger one that had to
/// be encoded to see that are put back, too.
fn peek(body: &mut ResponseBody) -> Option<Bytes> {
    let mut source = match std::mem::replace(body, ResponseBody::full(Bytes::new())).into_chunks() {
        Ok(source) => source,
        Err(stream) => {
            *body = stream;
            return None;
        }
    };
    let mut whole = BytesMut::new();
    while let Some(chunk) = source.next_chunk() {
        whole.extend_from_slice(&chunk);
        if whole.len() > LARGEST {
            *body = ResponseBody::Chunked(Box::new(Chunked::new(Some(whole.freeze()), source)));
            return None;
        }
    }
    let whole = whole.freeze();
    *body = ResponseBody::full(whole.clone());
    Some(whole)
}

/// Removes the field managers of an object, of the items of a list, and of the rows of a table.
fn remove_managed_fields(value: &mut Value) {
    object::remove_meta(value, "managedFields");
    for (list, nested) in [("items", None), ("rows", Some("object"))] {
        let items = value.get_mut(list).and_then(Value::as_array_mut);
        for item in items.into_iter().flatten() {
            let object = match nested {
                Some(field) => item.get_mut(field),
                None => Some(item),
            };
            if let Some(object) = object {
                object::remove_meta(object, "managedFields");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use http::Method;

    use super::*;
    use crate::response;
    use crate::response::streamed::chunk_source::Chunks;

    fn info(method: &Method) -> RequestInfo {
        RequestInfo::resolve(method, "/apis/g/v1/namespaces/n/machines/m", false, None)
    }

    fn event(bodies: &Bodies) -> (Map<String, Value>, Map<String, Value>) {
        let (mut event, mut annotations) = (Map::new(), Map::new());
        bodies.add_to(&mut event, &mut annotations);
        (event, annotations)
    }

    #[test]
    fn requests_are_recorded_from_json_and_yaml_and_without_secrets() {
        let mut bodies = Bodies::new(None, true);
        let managed = br#"{"kind": "M", "metadata": {"managedFields": []}, "spec": {"token": "hunter2"}}"#;
        bodies.set_request(&info(&Method::PUT), "application/json", managed);
        let expected = json!({"kind": "M", "metadata": {}, "spec": {"token": "REDACTED"}});
        assert_eq!(event(&bodies).0["requestObject"], expected);
        let mut bodies = Bodies::default();
        bodies.set_request(&info(&Method::PATCH), "application/apply-patch+yaml", b"a: [1]");
        assert_eq!(event(&bodies).0["requestObject"], json!({"a": [1]}));
        let mut bodies = Bodies::default();
        bodies.set_request(&info(&Method::PUT), "application/cbor", b"\xa0");
        assert_eq!(event(&bodies).1, *json!({UNREADABLE: "true"}).as_object().unwrap());
    }

    #[test]
    fn a_body_over_100_kib_is_replaced_by_an_annotation() {
        let text = json!({"kind": "M", "apiVersion": "g/v1", "text": "x".repeat(LARGEST)}).to_string();
        let mut bodies = Bodies::default();
        bodies.set_request(&info(&Method::PUT), "", text.as_bytes());
        let (found, annotations) = event(&bodies);
        assert!(found.is_empty() && annotations[TRUNCATED] == "true");
        let mut bodies = Bodies::default();
        let mut answer = response::bytes(200, "application/json", text.clone());
        bodies.set_response(&mut answer);
        assert_eq!(answer.body().length(), Some(text.len()), "it is sent all the same");
        assert!(event(&bodies).1.contains_key(TRUNCATED));
    }

    #[test]
    fn a_response_that_is_encoded_in_chunks_is_recorded_and_sent_whole() {
        let whole = json!({"kind": "L", "apiVersion": "v1",
            "items": [{"metadata": {"name": "a", "managedFields": [1]}}]})
        .to_string();
        let chunked = |text: &str| {
            let chunks: Vec<Bytes> = text.as_bytes().chunks(7).map(Bytes::copy_from_slice).collect();
            let body = ResponseBody::Chunked(Box::new(Chunked::new(None, Chunks(chunks.into_iter()))));
            response::body(200, "application/json", body)
        };
        let sent = |answer: HttpResponse| {
            let Ok(source) = answer.into_body().into_chunks() else { panic!("a stream") };
            String::from_utf8(source.whole()).unwrap()
        };
        let (mut bodies, mut answer) = (Bodies::new(None, true), chunked(&whole));
        bodies.set_response(&mut answer);
        assert_eq!(event(&bodies).0["responseObject"]["items"], json!([{"metadata": {"name": "a"}}]));
        assert_eq!(sent(answer), whole);
        let large = json!({"kind": "L", "apiVersion": "v1", "text": "x".repeat(2 * LARGEST)}).to_string();
        let (mut bodies, mut answer) = (Bodies::new(None, true), chunked(&large));
        bodies.set_response(&mut answer);
        assert!(event(&bodies).1.contains_key(TRUNCATED) && event(&bodies).0.is_empty());
        assert_eq!(sent(answer), large);
    }

    #[test]
    fn documents_that_are_no_objects_are_not_recorded() {
        for (content_type, text) in [("application/json", r#"{"major": "1"}"#), ("text/plain", "ok")] {
            let (mut bodies, mut answer) = (Bodies::default(), response::bytes(200, content_type, text));
            bodies.set_response(&mut answer);
            let (found, annotations) = event(&bodies);
            assert!(found.is_empty() && annotations.is_empty(), "{text}");
        }
    }
}
