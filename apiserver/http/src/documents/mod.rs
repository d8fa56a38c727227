//! Documents: discovery, OpenAPI and version, computed once and served from memory, so that a host's availability
//! checks never wait for storage.

mod document;
mod group;
mod issuer;
mod on_demand;
mod open_api;

use std::collections::BTreeMap;

use apiserver_machinery::discovery::Served;
use apiserver_machinery::resource::Registry;
use apiserver_machinery::reviews::{self, Review};
use apiserver_machinery::status::{ApiError, ApiResult};
use http::header::{CACHE_CONTROL, VARY};
use http::{HeaderMap, HeaderValue, Method};
use serde_json::{Value, json};

use self::document::Document;
pub(crate) use self::group::is_built_in;
use self::group::root;
pub use self::issuer::IssuerDocuments;
use self::on_demand::OnDemand;
use crate::request::Call;
use crate::response::encoding::Encoding;
use crate::response::negotiation::{self, Aggregation, Discovery};
use crate::response::{self, HttpResponse};

/// Identity of the server, as documents publish it.
#[derive(Debug, Clone)]
pub struct Identity {
    /// Kubernetes version whose API behaviour the server implements, e.g. `v1.36.0+capstan-0.1.0`; shown at `/version`.
    pub git_version: String,
    /// `host:port` at which clients reach the direct endpoint.
    pub address: String,
}

/// Paths besides those of the API.
const OTHER_PATHS: [&str; 8] =
    ["/healthz", "/healthz/etcd", "/livez", "/metrics", "/openapi/v2", "/openapi/v3", "/readyz", "/version"];

/// Discovery document of one path.
#[derive(Debug)]
struct Legacy {
    document: Value,
    is_built_in: bool,
    /// Set if the path has no other method than GET.
    is_routed: bool,
}

/// Documents of one endpoint.
#[derive(Debug)]
struct EndpointDocuments {
    legacy: BTreeMap<String, Legacy>,
    aggregated: Aggregated,
    aggregated_core: Option<Aggregated>,
    paths: Value,
    open_api: OnDemand,
}

/// Documents of both endpoints: a host has its own core kinds and must not be offered ours.
#[derive(Debug)]
pub(crate) struct Documents {
    direct: EndpointDocuments,
    hosted: EndpointDocuments,
    version: Value,
}

impl Documents {
    pub(crate) fn new(registry: &Registry, identity: &Identity) -> Self {
        let address = &identity.address;
        Self {
            direct: EndpointDocuments::new(registry.clone(), &reviews::ALL, address),
            hosted: EndpointDocuments::new(registry.hosted(), &[], address),
            version: version(&identity.git_version),
        }
    }

    /// Serves the path of a document; `None` for any other path.
    ///
    /// # Errors
    /// 405 for a method that the document does not have; 406 if the client accepts none of its forms.
    pub(crate) async fn serve(&self, call: &Call) -> ApiResult<Option<HttpResponse>> {
        let endpoint = if call.proxied { &self.hosted } else { &self.direct };
        let path = call.info.path.trim_end_matches('/');
        match path {
            // For people, whatever they accept.
            "" | "/index.html" => {
                return response::value(200, &endpoint.paths, Encoding::PrettyJson).map(Some);
            }
            "/version" => {
                negotiation::check_offered(&call.headers, &["application/json"])?;
                return response::value(200, &self.version, Encoding::PrettyJson).map(Some);
            }
            // This path alone is routed by its prefix.
            _ if path.starts_with("/version/") => return Err(ApiError::no_such_resource()),
            _ => {}
        }
        // A trailing slash makes these another path.
        if let Some(rest) = call.info.path.strip_prefix("/openapi") {
            return Ok(endpoint.open_api.get().await?.serve(rest, &call.headers, &call.query));
        }
        let Some(legacy) = endpoint.legacy.get(path) else { return Ok(None) };
        if legacy.is_routed && call.info.method != Method::GET {
            return Err(ApiError::method_not_allowed_here());
        }
        if legacy.is_built_in {
            negotiation::check_offered(&call.headers, &negotiation::MEDIA_TYPES)?;
        }
        let aggregated = match path {
            // With a trailing slash it is the list alone.
            "/apis" if call.info.path == path => Some(&endpoint.aggregated),
            "/api" => endpoint.aggregated_core.as_ref(),
            _ => None,
        };
        let aggregation = if aggregated.is_some() { Aggregation::Offered } else { Aggregation::None };
        match (negotiation::discovery(&call.headers, &call.query, aggregation)?, aggregated) {
            (Discovery::Aggregated(encoding), Some(document)) => {
                document.serve(&call.headers, encoding).map(Some)
            }
            (Discovery::Aggregated(encoding) | Discovery::Legacy(encoding), _) => {
                response::value(200, &legacy.document, encoding).map(Some)
            }
        }
    }
}

/// Aggregated discovery: all groups in one document.
#[derive(Debug)]
struct Aggregated {
    value: Value,
    /// The same in one line of JSON.
    line: Document,
}

impl Aggregated {
    fn new(value: Value) -> Self {
        let document = Document::new(&value);
        let line =
            Encoding::Json.encode(&value).map_or_else(|_| document.clone(), |line| document.encoded(line));
        Self { value, line }
    }

    fn serve(&self, headers: &HeaderMap, encoding: Encoding) -> ApiResult<HttpResponse> {
        let content_type = match encoding {
            Encoding::Json | Encoding::PrettyJson => {
                "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
            }
            Encoding::Yaml => "application/yaml;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList",
            Encoding::Protobuf => {
                "application/vnd.kubernetes.protobuf;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
            }
        };
        let mut answer = match encoding {
            Encoding::Json => self.line.serve(headers, content_type),
            other => self.line.encoded(other.encode(&self.value)?).serve(headers, content_type),
        };
        answer.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("public"));
        answer.headers_mut().insert(VARY, HeaderValue::from_static("Accept"));
        Ok(answer)
    }
}

impl EndpointDocuments {
    fn new(registry: Registry, reviews: &'static [Review], address: &str) -> Self {
        let served = Served { registry: &registry, reviews };
        let of =
            |is_built_in: bool, is_routed: bool, document: Value| Legacy { document, is_built_in, is_routed };
        let mut legacy = BTreeMap::from([("/apis".to_owned(), of(false, false, served.group_list()))]);
        if let Some(core) = served.core_versions(address) {
            legacy.insert("/api".to_owned(), of(true, true, core));
        }
        for (group, versions) in served.groups() {
            let is_built_in = is_built_in(served.registry, &group);
            if let Some(document) = served.group(&group) {
                legacy.insert(format!("/apis/{group}"), of(is_built_in, false, document));
            }
            for version in versions {
                if let Some(list) = served.resource_list(&group, &version) {
                    legacy.insert(root(&group, &version), of(is_built_in, is_built_in, list));
                }
            }
        }
        let core = legacy.contains_key("/api").then(|| Aggregated::new(served.aggregated(true)));
        let mut paths: Vec<&str> = legacy.keys().map(String::as_str).chain(OTHER_PATHS).collect();
        paths.sort_unstable();
        Self {
            aggregated: Aggregated::new(served.aggregated(false)),
            aggregated_core: core,
            paths: json!({"paths": paths}),
            legacy,
            open_api: OnDemand::new(registry, reviews),
        }
    }
}

fn version(git_version: &str) -> Value {
    let mut parts = git_version.trim_start_matches('v').split('.');
    let mut next = || parts.next().unwrap_or_default().to_owned();
    let (major, minor) = (next(), next());
    // Upstream's rule: a version is compatible with the release before it.
    let before = minor.parse::<u32>().map_or_else(|_| minor.clone(), |n| n.saturating_sub(1).to_string());
    json!({"major": major, "minor": minor, "emulationMajor": major, "emulationMinor": minor,
        "minCompatibilityMajor": major, "minCompatibilityMinor": before, "gitVersion": git_version,
        "gitCommit": "", "gitTreeState": "clean", "buildDate": "1970-01-01T00:00:00Z", "goVersion": "none",
        "compiler": "rustc", "platform": format!("{}/{}", std::env::consts::OS, architecture())})
}

/// Returns the architecture in Go's words, which clients compare.
fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}
