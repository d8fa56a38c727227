//! Metric labels of a request.

use apiserver_machinery::reviews;
use apiserver_machinery::store::ObjectStore;
use http::{HeaderMap, Method};
use prometheus_client::encoding::EncodeLabelSet;

use crate::request::query::Query;
use crate::request::request_info::{RequestInfo, ResourcePath};
use crate::request::routes;
use crate::response::negotiation::{self, Aggregation, Discovery};

/// Component in upstream's words.
pub(super) const COMPONENT: &str = "apiserver";

/// Content type of server-side apply, to the letter: with parameters it is counted as a patch.
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

/// Key of a request's series: its labels, and the rules of what is measured.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(crate) struct SeriesKey {
    pub(crate) labels: RequestLabels,
    /// Verb by method and parameters. As in upstream, metrics before the response use it: a watch by its path alone is
    /// a `LIST` or `GET` until it has ended.
    pub(super) initial_verb: &'static str,
    manner: Manner,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
enum Manner {
    /// Request for an object or a document.
    Read,
    Watch,
    /// Request for a change.
    #[default]
    Write,
}

impl SeriesKey {
    pub(crate) fn new(
        objects: &ObjectStore,
        (method, headers): (&Method, &HeaderMap),
        info: &RequestInfo,
        query: &Query,
    ) -> Self {
        let content_type = headers.get(http::header::CONTENT_TYPE);
        let applies = content_type.is_some_and(|value| value.as_bytes() == APPLY.as_bytes());
        // A list of one name is a request for that object.
        let is_collection = info.resource().is_some_and(|path| path.name.is_empty());
        let initial_verb = verb(method, is_collection, query.flag("watch"), applies);
        let verb = if info.verb == "watch" { "WATCH" } else { initial_verb };
        let labels = RequestLabels { verb, dry_run: dry_run(query), ..RequestLabels::default() };
        let Some(path) = info.resource() else {
            let subresource = known_path(headers, query, &info.path).to_owned();
            // In upstream, only the handler of these two sets the component.
            let component = if AGGREGATED.contains(&subresource.as_str()) { COMPONENT } else { "" };
            let labels = RequestLabels { subresource, component, ..labels };
            return Self { labels, initial_verb, manner: Manner::Read };
        };
        let manner = match info.verb {
            "watch" => Manner::Watch,
            "get" | "list" => Manner::Read,
            _ => Manner::Write,
        };
        if !is_served(objects, info.verb, path) {
            return Self { labels, initial_verb, manner };
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
        Self { labels, initial_verb, manner }
    }

    pub(crate) fn is_watch(&self) -> bool {
        self.manner == Manner::Watch
    }

    /// Returns true if the response is the requested object or document.
    pub(super) fn is_read(&self) -> bool {
        self.manner == Manner::Read
    }

    /// Returns true if the duration counts for service levels. A dry run does not, in upstream.
    pub(super) fn is_for_service_level(&self) -> bool {
        self.manner != Manner::Watch && self.labels.dry_run.is_empty()
    }

    /// Returns true for a request that upstream counts: one for something that exists, except for most paths without a
    /// resource.
    pub(crate) fn is_counted(&self) -> bool {
        !self.labels.component.is_empty() || COUNTED_PATHS.contains(&self.labels.subresource.as_str())
    }
}

/// Returns true if such a resource or subresource exists, with such a verb.
fn is_served(objects: &ObjectStore, verb: &str, path: &ResourcePath) -> bool {
    if let Some(review) = reviews::find(&path.group, &path.version, &path.resource) {
        return verb == "create" && path.name.is_empty() && review.namespaced != path.namespace.is_empty();
    }
    let kind = objects.kind(&path.group, &path.version, &path.resource);
    kind.is_some_and(|kind| routes::is_served(kind, path, verb))
}

/// Labels of aggregated discovery.
const AGGREGATED: [&str; 2] = ["api", "apis"];

/// Other paths whose requests upstream counts, as it names them.
const COUNTED_PATHS: [&str; 5] = ["/healthz", "/livez", "/readyz", "openapi/v3", "openapi/v3/"];

/// Returns the label of a path.
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

/// Returns the verb: that of the method, with a few exceptions.
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
