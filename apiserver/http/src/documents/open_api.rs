//! OpenAPI documents at `/openapi/v2` and `/openapi/v3`.

use std::collections::BTreeMap;

use apiserver_machinery::discovery::Served;
use apiserver_machinery::{open_api, reviews};
use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, ETAG, EXPIRES, LAST_MODIFIED, LOCATION, VARY};
use http::{HeaderMap, HeaderValue};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Map, Value, json};

use super::document::Document;
use super::group::{is_built_in, root};
use crate::request::query::Query;
use crate::response::negotiation;
use crate::response::{self, HttpResponse};

const JSON: &str = "application/json";

/// Media type of the v2 document in protobuf. Requests write it with an `@`; a response cannot.
const V2_PROTOBUF: &str = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";

/// Media type of the v3 documents in protobuf.
const V3_PROTOBUF: &str = "application/com.github.proto-openapi.spec.v3.v1.0+protobuf";

/// Lifetime of a document that is requested by its hash, and so never changes.
const A_YEAR: SignedDuration = SignedDuration::from_hours(365 * 24);

/// Documents of one endpoint.
#[derive(Debug)]
pub(super) struct OpenApi {
    v2: Document,
    v2_protobuf: Document,
    index: Document,
    v3: BTreeMap<String, Forms>,
    made: Timestamp,
}

/// Document in both of its encodings.
#[derive(Debug)]
struct Forms {
    json: Document,
    protobuf: Document,
}

impl Forms {
    fn new(document: &Value) -> Self {
        let json = Document::new(document);
        let protobuf = json.encoded(open_api::v3_protobuf(document));
        Self { json, protobuf }
    }
}

impl OpenApi {
    pub(super) fn new(served: &Served<'_>) -> Self {
        let registry = served.registry;
        let v2 = open_api::v2(registry);
        let document = Document::new(&v2);
        let v3 = v3(served);
        let urls: Map<String, Value> = v3
            .iter()
            .map(|(name, document)| {
                let url = format!("/openapi/v3/{name}?hash={}", document.json.hash());
                (name.clone(), json!({"serverRelativeURL": url}))
            })
            .collect();
        Self {
            v2_protobuf: document.encoded(open_api::v2_protobuf(&v2)),
            v2: document,
            index: Document::new(&json!({"paths": urls})),
            v3,
            made: Timestamp::now(),
        }
    }

    /// Serves a path below `/openapi`; `None` for a path without a document.
    pub(super) fn serve(&self, path: &str, headers: &HeaderMap, query: &Query) -> Option<HttpResponse> {
        match path {
            "/v2" => Some(self.serve_v2(headers)),
            "/v3" => Some(self.serve_index(headers)),
            _ => path.strip_prefix("/v3/").map(|name| self.serve_v3(name, headers, query)),
        }
    }

    /// Serves the index. Upstream writes it without a content type, so that it becomes text, and without a tag.
    fn serve_index(&self, headers: &HeaderMap) -> HttpResponse {
        let mut answer = self.file(&self.index, headers, "text/plain; charset=utf-8", None);
        answer.headers_mut().remove(ETAG);
        set_date(&mut answer, LAST_MODIFIED, self.made);
        answer
    }

    fn serve_v2(&self, headers: &HeaderMap) -> HttpResponse {
        let requested = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf";
        let (document, media) = match negotiation::first(headers, &[JSON, V2_PROTOBUF, requested]) {
            Some(JSON) => (&self.v2, JSON),
            Some(_) => (&self.v2_protobuf, V2_PROTOBUF),
            None => return not_acceptable(),
        };
        self.file(document, headers, media, Some("Accept-Encoding"))
    }

    fn serve_v3(&self, name: &str, headers: &HeaderMap, query: &Query) -> HttpResponse {
        let Some(forms) = self.v3.get(name) else {
            return without_type(404);
        };
        let requested = "application/com.github.proto-openapi.spec.v3@v1.0+protobuf";
        let (document, media) = match negotiation::first(headers, &[JSON, V3_PROTOBUF, requested]) {
            Some(JSON) => (&forms.json, JSON),
            Some(_) => (&forms.protobuf, V3_PROTOBUF),
            None => return not_acceptable(),
        };
        let hash = query.text("hash");
        if !hash.is_empty() && hash != document.hash() {
            let mut answer = response::bytes(301, media, Bytes::new());
            document.tag(&mut answer);
            answer.headers_mut().insert(VARY, HeaderValue::from_static("Accept"));
            let url = format!("/openapi/v3/{name}?hash={}", document.hash());
            if let Ok(location) = HeaderValue::from_str(&url) {
                answer.headers_mut().insert(LOCATION, location);
            }
            return answer;
        }
        let mut answer = self.file(document, headers, media, Some("Accept"));
        if !hash.is_empty() {
            answer.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("public, immutable"));
            if let Ok(end) = Timestamp::now().checked_add(A_YEAR) {
                set_date(&mut answer, EXPIRES, end);
            }
        }
        answer
    }

    /// Serves a document with its date and its `Vary`.
    fn file(
        &self,
        document: &Document,
        headers: &HeaderMap,
        media: &'static str,
        vary: Option<&'static str>,
    ) -> HttpResponse {
        let mut answer = document.serve_file(headers, media, self.made);
        if answer.status() == http::StatusCode::OK {
            set_date(&mut answer, LAST_MODIFIED, self.made);
        }
        if let Some(vary) = vary {
            answer.headers_mut().insert(VARY, HeaderValue::from_static(vary));
        }
        answer
    }
}

fn v3(served: &Served<'_>) -> BTreeMap<String, Forms> {
    let mut documents = BTreeMap::new();
    let mut paths = vec!["apis".to_owned(), "version".to_owned()];
    for (group, versions) in served.registry.groups() {
        // Upstream has none for the groups of custom resources.
        if is_built_in(served.registry, &group) {
            paths.push(if group.is_empty() { "api".to_owned() } else { format!("apis/{group}") });
        }
        for version in versions {
            let name = root(&group, &version).trim_start_matches('/').to_owned();
            documents.insert(name, Forms::new(&open_api::v3(served.registry, &group, &version)));
        }
    }
    for group in served.reviews.iter().map(|review| review.group) {
        let path = format!("apis/{group}");
        if !paths.contains(&path) {
            documents
                .insert(format!("{path}/{}", reviews::VERSION), Forms::new(&open_api::v3_of_reviews(group)));
            paths.push(path);
        }
    }
    documents.extend(paths.into_iter().map(|path| {
        let document = Forms::new(&open_api::v3_of_path(&path));
        (path, document)
    }));
    documents
}

fn set_date(answer: &mut HttpResponse, header: http::HeaderName, moment: Timestamp) {
    let text = moment.strftime("%a, %d %b %Y %H:%M:%S GMT").to_string();
    if let Ok(value) = HeaderValue::from_str(&text) {
        answer.headers_mut().insert(header, value);
    }
}

fn without_type(code: u16) -> HttpResponse {
    let mut answer = response::bytes(code, JSON, Bytes::new());
    answer.headers_mut().remove(CONTENT_TYPE);
    answer
}

fn not_acceptable() -> HttpResponse {
    let mut answer = without_type(406);
    answer.headers_mut().insert(VARY, HeaderValue::from_static("Accept"));
    answer
}
