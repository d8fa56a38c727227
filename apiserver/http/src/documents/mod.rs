//! Discovery, OpenAPI and version: computed once, served from memory, so that a host's
//! availability checks never wait for storage.

mod document;
mod open_api;

use std::collections::BTreeMap;

use apiserver_machinery::discovery::Served;
use apiserver_machinery::resource::{Registry, Resource};
use apiserver_machinery::reviews;
use apiserver_machinery::status::ApiResult;
use http::HeaderValue;
use http::header::CACHE_CONTROL;
use serde_json::{Value, json};

use self::document::Document;
use self::open_api::OpenApi;
use crate::encoding::Encoding;
use crate::negotiation::{self, Discovery};
use crate::request::Call;
use crate::response::{self, Answer};
use crate::server::Identity;

/// What aggregated discovery says it is.
const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

/// Paths beside those of the API.
const OTHER_PATHS: [&str; 8] =
    ["/healthz", "/healthz/etcd", "/livez", "/metrics", "/openapi/v2", "/openapi/v3", "/readyz", "/version"];

/// What one face shows.
#[derive(Debug)]
struct Face {
    legacy: BTreeMap<String, Value>,
    aggregated: Document,
    aggregated_core: Option<Document>,
    paths: Value,
    open_api: OpenApi,
}

/// The documents of both faces: a host has its own core kinds and must not be offered ours.
#[derive(Debug)]
pub(crate) struct Documents {
    direct: Face,
    hosted: Face,
    version: Value,
}

impl Documents {
    pub(crate) fn new(registry: &Registry, identity: &Identity) -> Self {
        let hosted = registry.resources().iter().filter(|resource| resource.hosted);
        let hosted = Registry::new(hosted.map(|resource| Resource::clone(resource)).collect());
        let address = &identity.address;
        Self {
            direct: Face::new(Served { registry, reviews: &reviews::ALL }, address),
            hosted: Face::new(Served { registry: &hosted, reviews: &[] }, address),
            version: version(&identity.git_version),
        }
    }

    /// Answers a document's path; `None` when it is none.
    ///
    /// # Errors
    /// 406 when there is no form of it that the client takes.
    pub(crate) fn serve(&self, call: &Call) -> ApiResult<Option<Answer>> {
        let face = if call.proxied { &self.hosted } else { &self.direct };
        let path = call.info.path.trim_end_matches('/');
        match path {
            // For people, whatever they accept.
            "" => return response::value(200, &face.paths, Encoding::PrettyJson).map(Some),
            "/version" => return response::value(200, &self.version, Encoding::PrettyJson).map(Some),
            _ => {}
        }
        if let Some(rest) = path.strip_prefix("/openapi") {
            return Ok(face.open_api.serve(rest, &call.headers, &call.query));
        }
        let Some(legacy) = face.legacy.get(path) else { return Ok(None) };
        let aggregated = match path {
            "/apis" => Some(&face.aggregated),
            "/api" => face.aggregated_core.as_ref(),
            _ => None,
        };
        match (negotiation::discovery(&call.headers, &call.query)?, aggregated) {
            (Discovery::Aggregated, Some(document)) => {
                let mut answer = document.serve(&call.headers, AGGREGATED);
                answer.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("public"));
                Ok(Some(answer))
            }
            (Discovery::Aggregated, None) => response::value(200, legacy, Encoding::Json).map(Some),
            (Discovery::Legacy(encoding), _) => response::value(200, legacy, encoding).map(Some),
        }
    }
}

impl Face {
    fn new(served: Served<'_>, address: &str) -> Self {
        let mut legacy = BTreeMap::from([("/apis".to_owned(), served.group_list())]);
        if let Some(core) = served.core_versions(address) {
            legacy.insert("/api".to_owned(), core);
        }
        for (group, versions) in served.groups() {
            if let Some(document) = served.group(&group) {
                legacy.insert(format!("/apis/{group}"), document);
            }
            for version in versions {
                if let Some(list) = served.resource_list(&group, &version) {
                    legacy.insert(root(&group, &version), list);
                }
            }
        }
        let core = legacy.contains_key("/api").then(|| Document::new(&served.aggregated(true)));
        let mut paths: Vec<&str> = legacy.keys().map(String::as_str).chain(OTHER_PATHS).collect();
        paths.sort_unstable();
        Self {
            aggregated: Document::new(&served.aggregated(false)),
            aggregated_core: core,
            paths: json!({"paths": paths}),
            open_api: OpenApi::new(served.registry),
            legacy,
        }
    }
}

/// Where a version of a group is served.
fn root(group: &str, version: &str) -> String {
    if group.is_empty() { format!("/api/{version}") } else { format!("/apis/{group}/{version}") }
}

fn version(git_version: &str) -> Value {
    let mut parts = git_version.trim_start_matches('v').split('.');
    let mut next = || parts.next().unwrap_or_default().to_owned();
    let (major, minor) = (next(), next());
    // Upstream's rule: what a server behaves like is compatible with the release before.
    let before = minor.parse::<u32>().map_or_else(|_| minor.clone(), |n| n.saturating_sub(1).to_string());
    json!({"major": major, "minor": minor, "emulationMajor": major, "emulationMinor": minor,
        "minCompatibilityMajor": major, "minCompatibilityMinor": before, "gitVersion": git_version,
        "gitCommit": "", "gitTreeState": "clean", "buildDate": "1970-01-01T00:00:00Z", "goVersion": "none",
        "compiler": "rustc", "platform": format!("{}/{}", std::env::consts::OS, architecture())})
}

/// As Go names it, which is what clients compare with.
fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}
