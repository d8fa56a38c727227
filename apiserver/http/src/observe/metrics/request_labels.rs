//! What a request asks for, as far as requests are told apart.

use apiserver_machinery::reviews;
use apiserver_machinery::store::ObjectStore;
use http::{HeaderMap, Method};
use prometheus_client::encoding::EncodeLabelSet;

use crate::request::query::Query;
use crate::request::request_info::{RequestInfo, ResourcePath};
use crate::request::routes;
use crate::response::negotiation::{self, Aggregation, Discovery};

/// Who answers, in upstream's words.
pub(super) const COMPONENT: &str = "apiserver";

/// The content type of server-side apply, to the letter: whoever adds parameters is counted as a patch.
const APPLY: &str = "application/apply-patch+yaml";

#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct RequestLabels {
    pub(crate) verb: &'static str,
    pub(crate) dry_run: &'static str,
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) resource: String,
    pub(crate) subresource: String,
    pub(crate) scope: &'static str,
    pub(crate) component: &'static str,
}

/// The labels of a request, and what is measured of it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(crate) struct Asked {
    pub(crate) labels: RequestLabels,
    /// The verb that method and parameters say. What is told of a request before it was answered goes by
    /// this one, as upstream: a watch in the old form, by its path alone, is a `LIST` or `GET` until it
    /// has ended.
    pub(super) at_first: &'static str,
    manner: Manner,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
enum Manner {
    /// The answer is what was asked for.
    Read,
    Watch,
    /// The answer is what became of it.
    #[default]
    Write,
}

impl Asked {
    pub(crate) fn new(
        objects: &ObjectStore,
        (method, headers): (&Method, &HeaderMap),
        info: &RequestInfo,
        query: &Query,
    ) -> Self {
        let content_type = headers.get(http::header::CONTENT_TYPE);
        let applies = content_type.is_some_and(|value| value.as_bytes() == APPLY.as_bytes());
        // A list of the one object of a name is a question for that object.
        let is_collection = info.resource().is_some_and(|path| path.name.is_empty());
        let at_first = verb(method, is_collection, query.flag("watch"), applies);
        let verb = if info.verb == "watch" { "WATCH" } else { at_first };
        let labels = RequestLabels { verb, dry_run: dry_run(query), ..RequestLabels::default() };
        let Some(path) = info.resource() else {
            let subresource = known_path(headers, query, &info.path).to_owned();
            // Upstream's handler of these two alone says which component it is of.
            let component = if AGGREGATED.contains(&subresource.as_str()) { COMPONENT } else { "" };
            let labels = RequestLabels { subresource, component, ..labels };
            return Self { labels, at_first, manner: Manner::Read };
        };
        let manner = match info.verb {
            "watch" => Manner::Watch,
            "get" | "list" => Manner::Read,
            _ => Manner::Write,
        };
        if !is_served(objects, info.verb, path) {
            return Self { labels, at_first, manner };
        }
        let ResourcePath { group, version, resource, subresource, .. } = path;
        let labels = RequestLabels {
            group: group.clone(),
            version: version.clone(),
            resource: resource.clone(),
            subresource: subresource.clone(),
            scope: scope(info.verb, path),
            component: COMPONENT,
            ..labels
        };
        Self { labels, at_first, manner }
    }

    pub(crate) fn is_watch(&self) -> bool {
        self.manner == Manner::Watch
    }

    /// Whether the answer is what was asked for, and not what became of it.
    pub(super) fn is_read(&self) -> bool {
        self.manner == Manner::Read
    }

    /// Whether how long it takes says how well the server does. A dry run is no such thing to upstream.
    pub(super) fn is_for_service_level(&self) -> bool {
        self.manner != Manner::Watch && self.labels.dry_run.is_empty()
    }

    /// Whether it is a request that upstream counts: one for something that there is, except for most
    /// paths that are no resources.
    pub(crate) fn is_counted(&self) -> bool {
        !self.labels.component.is_empty() || COUNTED_PATHS.contains(&self.labels.subresource.as_str())
    }
}

/// Whether there is such a resource or subresource, with such a verb.
fn is_served(objects: &ObjectStore, verb: &str, path: &ResourcePath) -> bool {
    if let Some(review) = reviews::find(&path.group, &path.version, &path.resource) {
        return verb == "create" && path.name.is_empty() && review.namespaced != path.namespace.is_empty();
    }
    let kind = objects.kind(&path.group, &path.version, &path.resource);
    kind.is_some_and(|kind| routes::is_served(kind, path, verb))
}

/// Everything that there is in one document.
const AGGREGATED: [&str; 2] = ["api", "apis"];

/// Other paths that upstream counts requests for, as it names them.
const COUNTED_PATHS: [&str; 5] = ["/healthz", "/livez", "/readyz", "openapi/v3", "openapi/v3/"];

/// A path as a label.
fn known_path(headers: &HeaderMap, query: &Query, path: &str) -> &'static str {
    const PATHS: [&str; 9] =
        ["/", "/healthz", "/livez", "/readyz", "/metrics", "/version", "/api", "/apis", "/openapi/v2"];
    let is_aggregated = || {
        let form = negotiation::discovery(headers, query, Aggregation::Offered);
        matches!(form, Ok(Discovery::Aggregated(_)))
    };
    match path.strip_prefix("/openapi/v3") {
        Some("") => return "openapi/v3",
        Some(rest) if rest.starts_with('/') => return "openapi/v3/",
        _ => {}
    }
    match path {
        "/api" if is_aggregated() => "api",
        "/apis" if is_aggregated() => "apis",
        _ => PATHS.into_iter().find(|known| *known == path).unwrap_or_default(),
    }
}

/// The method, except where it does not tell.
fn verb(method: &Method, is_collection: bool, watch: bool, applies: bool) -> &'static str {
    match *method {
        Method::GET | Method::HEAD if watch => "WATCH",
        Method::GET | Method::HEAD if is_collection => "LIST",
        Method::GET | Method::HEAD => "GET",
        Method::POST => "POST",
        Method::PUT => "PUT",
        Method::PATCH if applies => "APPLY",
        Method::PATCH => "PATCH",
        Method::DELETE => "DELETE",
        _ => "other",
    }
}

fn dry_run(query: &Query) -> &'static str {
    match query.has("dryRun") {
        false => "",
        true if query.all("dryRun").all(|value| value == "All") => "All",
        true => "invalid",
    }
}

fn scope(verb: &str, path: &ResourcePath) -> &'static str {
    if !path.name.is_empty() || verb == "create" {
        "resource"
    } else if !path.namespace.is_empty() {
        "namespace"
    } else {
        "cluster"
    }
}
