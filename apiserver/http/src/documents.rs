//! Discovery, OpenAPI and version: computed once, served from memory, so that a host's
//! availability checks never wait for storage.

use std::collections::BTreeMap;

use apiserver_machinery::resource::{Registry, Resource};
use apiserver_machinery::status::ApiResult;
use apiserver_machinery::{discovery, open_api};
use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, ETAG, IF_NONE_MATCH, LOCATION, VARY};
use http::{HeaderMap, HeaderValue};
use serde_json::{Value, json};

use crate::negotiation;
use crate::query::Query;
use crate::request::Call;
use crate::response::{self, Answer};
use crate::server::Identity;

/// A document with its hash.
#[derive(Debug, Clone)]
struct Document {
    body: Bytes,
    hash: String,
}

impl Document {
    fn new(value: &Value) -> Self {
        let body = Bytes::from(serde_json::to_vec(value).unwrap_or_default());
        let hash = apiserver_machinery::digest::sha512_hex(&body);
        Self { body, hash }
    }

    fn serve(&self, headers: &HeaderMap, content_type: &'static str) -> Answer {
        let tag = format!("\"{}\"", self.hash);
        let known = headers.get(IF_NONE_MATCH).and_then(|value| value.to_str().ok());
        let mut answer = if known.is_some_and(|known| known.split(',').any(|one| one.trim() == tag)) {
            response::bytes(304, content_type, Bytes::new())
        } else {
            response::bytes(200, content_type, self.body.clone())
        };
        if let Ok(tag) = HeaderValue::from_str(&tag) {
            answer.headers_mut().insert(ETAG, tag);
        }
        answer.headers_mut().insert(VARY, HeaderValue::from_static("Accept"));
        answer
    }
}

/// What one face shows.
#[derive(Debug)]
struct Face {
    legacy: BTreeMap<String, Document>,
    aggregated: Document,
    aggregated_core: Option<Document>,
    v2: Document,
    v3_index: Document,
    v3: BTreeMap<String, Document>,
}

/// The documents of both faces: a host has its own core kinds and must not be offered ours.
#[derive(Debug)]
pub(crate) struct Documents {
    direct: Face,
    hosted: Face,
    version: Document,
}

impl Documents {
    pub(crate) fn new(registry: &Registry, identity: &Identity) -> Self {
        let hosted = registry.resources().iter().filter(|resource| resource.hosted);
        let hosted = Registry::new(hosted.map(|resource| Resource::clone(resource)).collect());
        let (major, minor) = version_numbers(&identity.git_version);
        let version = json!({"major": major, "minor": minor, "gitVersion": identity.git_version,
            "gitCommit": "", "gitTreeState": "clean", "buildDate": "1970-01-01T00:00:00Z",
            "goVersion": "none", "compiler": "rustc", "platform": format!("{}/{}", std::env::consts::OS, architecture())});
        Self {
            direct: Face::new(registry, &identity.address),
            hosted: Face::new(&hosted, &identity.address),
            version: Document::new(&version),
        }
    }

    /// Answers a document's path; `None` when it is none.
    pub(crate) fn serve(&self, call: &Call) -> ApiResult<Option<Answer>> {
        let face = if call.proxied { &self.hosted } else { &self.direct };
        let path = call.info.path.trim_end_matches('/');
        let headers = &call.headers;
        match path {
            "/version" => return Ok(Some(self.version.serve(headers, "application/json"))),
            "/openapi/v2" => return face.serve_v2(headers).map(Some),
            "/openapi/v3" => return Ok(Some(face.v3_index.serve(headers, "application/json"))),
            "/apis" | "/api"
                if negotiation::discovery(headers, &call.query)? == negotiation::Discovery::Aggregated =>
            {
                let document =
                    if path == "/apis" { Some(&face.aggregated) } else { face.aggregated_core.as_ref() };
                let form = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
                return Ok(document.map(|document| {
                    let mut answer = document.serve(headers, form);
                    answer.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("public"));
                    answer
                }));
            }
            _ => {}
        }
        if let Some(name) = path.strip_prefix("/openapi/v3/") {
            return Ok(Some(face.serve_v3(name, headers, &call.query)));
        }
        Ok(face.legacy.get(path).map(|document| document.serve(headers, "application/json")))
    }
}

impl Face {
    fn new(registry: &Registry, address: &str) -> Self {
        let mut legacy =
            BTreeMap::from([("/apis".to_owned(), Document::new(&discovery::group_list(registry)))]);
        let mut v3 = BTreeMap::new();
        if let Some(core) = discovery::core_versions(registry, address) {
            legacy.insert("/api".to_owned(), Document::new(&core));
        }
        for (group, versions) in registry.groups() {
            if let Some(document) = discovery::group(registry, &group) {
                legacy.insert(format!("/apis/{group}"), Document::new(&document));
            }
            for version in versions {
                let name = if group.is_empty() {
                    format!("api/{version}")
                } else {
                    format!("apis/{group}/{version}")
                };
                if let Some(list) = discovery::resource_list(registry, &group, &version) {
                    legacy.insert(format!("/{name}"), Document::new(&list));
                }
                v3.insert(name, Document::new(&open_api::v3(registry, &group, &version)));
            }
        }
        let paths: serde_json::Map<String, Value> = v3
            .iter()
            .map(|(name, document)| {
                let url = format!("/openapi/v3/{name}?hash={}", document.hash);
                (name.clone(), json!({"serverRelativeURL": url}))
            })
            .collect();
        let core = legacy.contains_key("/api").then(|| Document::new(&discovery::aggregated(registry, true)));
        Self {
            legacy,
            aggregated: Document::new(&discovery::aggregated(registry, false)),
            aggregated_core: core,
            v2: Document::new(&open_api::v2(registry, |_| true)),
            v3_index: Document::new(&json!({"paths": paths})),
            v3,
        }
    }

    /// Only the JSON form is had; a client that takes nothing else falls back by itself.
    fn serve_v2(&self, headers: &HeaderMap) -> ApiResult<Answer> {
        negotiation::form(headers, &Query::default(), false)?;
        Ok(self.v2.serve(headers, "application/json"))
    }

    fn serve_v3(&self, name: &str, headers: &HeaderMap, query: &Query) -> Answer {
        let Some(document) = self.v3.get(name) else {
            return response::bytes(404, "application/json", Bytes::new());
        };
        let hash = query.text("hash");
        if !hash.is_empty() && hash != document.hash {
            let mut answer = response::bytes(301, "text/plain", Bytes::new());
            answer.headers_mut().remove(CONTENT_TYPE);
            if let Ok(location) = HeaderValue::from_str(&format!("/openapi/v3/{name}?hash={}", document.hash))
            {
                answer.headers_mut().insert(LOCATION, location);
            }
            return answer;
        }
        let mut answer = document.serve(headers, "application/json");
        if !hash.is_empty() {
            answer.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("public, immutable"));
        }
        answer
    }
}

/// `v1.36.0+x` as `("1", "36")`.
fn version_numbers(git_version: &str) -> (String, String) {
    let mut parts = git_version.trim_start_matches('v').split('.');
    let mut next = || parts.next().unwrap_or_default().to_owned();
    (next(), next())
}

/// As Go names it, which is what clients compare with.
fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}
