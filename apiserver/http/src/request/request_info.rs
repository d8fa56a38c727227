//! Request info: the target of a request, resolved from its method and path before any filter.

use http::Method;

use crate::request::query::percent_decode;

/// Target of a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Subject {
    /// A kind's collection, object or subresource.
    Resource(ResourcePath),
    /// Anything else: discovery, health, documents.
    Path,
}

/// The parts of a resource path.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ResourcePath {
    /// Empty for core.
    pub group: String,
    /// Version.
    pub version: String,
    /// Empty for all namespaces and for cluster-scoped kinds.
    pub namespace: String,
    /// Plural.
    pub resource: String,
    /// Empty for a collection.
    pub name: String,
    /// Empty for the object itself.
    pub subresource: String,
}

impl ResourcePath {
    /// Returns the namespace for authorization. A namespace is in the one of its own name, so that a Role there can
    /// allow to read it.
    pub fn namespace_of_permission(&self) -> &str {
        if self.resource == "namespaces" && self.namespace.is_empty() { &self.name } else { &self.namespace }
    }

    /// Returns the path of a request for it. `special` is a verb in the path; empty for none.
    pub(crate) fn to_path(&self, special: &str) -> String {
        let Self { group, version, namespace, resource, name, subresource } = self;
        let root = if group.is_empty() { "api" } else { "apis" };
        let namespaces = if namespace.is_empty() { "" } else { "namespaces" };
        let parts: [&str; 9] =
            [root, group, version, special, namespaces, namespace, resource, name, subresource];
        parts.into_iter().filter(|part| !part.is_empty()).fold(String::new(), |path, part| path + "/" + part)
    }
}

/// Resolved request: authorization, metrics and routing use it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestInfo {
    /// `get`, `list`, `watch`, `create`, `update`, `patch`, `delete`, `deletecollection`; for
    /// other paths the method in lower case.
    pub verb: &'static str,
    /// Method of the request.
    pub method: Method,
    /// The path, decoded.
    pub path: String,
    /// Target of the path.
    pub subject: Subject,
}

impl RequestInfo {
    /// Resolves a request. `watch` is set if the query requests a watch. `named` is the one name of a field selector.
    /// It becomes the name of a list or watch, but not of a deletion: a user who may delete an object may not
    /// therefore delete a collection. As in upstream, it is also ignored for a watch by its path, which has a path for
    /// one object.
    pub fn resolve(method: &Method, path: &str, watch: bool, named: Option<&str>) -> Self {
        let path = percent_decode(path);
        let (verb, subject) = match resource_path(&path) {
            Some((mut resource, special)) => {
                let verb = special.unwrap_or_else(|| verb(method, &resource, watch));
                if resource.name.is_empty() && special.is_none() && matches!(verb, "list" | "watch") {
                    named.unwrap_or_default().clone_into(&mut resource.name);
                }
                (verb, Subject::Resource(resource))
            }
            None => (method_verb(method), Subject::Path),
        };
        Self { verb, method: method.clone(), path, subject }
    }

    /// Returns true if the path ends in `watch` or `proxy`, words for verbs in old paths, and names no resource.
    pub(crate) fn is_unclear(&self) -> bool {
        let path = self.path.trim_matches('/');
        let Some((rest, "watch" | "proxy")) = path.rsplit_once('/') else { return false };
        let parts: Vec<&str> = rest.split('/').collect();
        matches!(parts.as_slice(), ["api", _] | ["apis", _, _])
    }

    /// Returns the resource path, if the target is a resource.
    pub fn resource(&self) -> Option<&ResourcePath> {
        match &self.subject {
            Subject::Resource(path) => Some(path),
            Subject::Path => None,
        }
    }

    /// Returns the name of the one object that a watch by its path is for.
    pub fn watched_name(&self) -> Option<String> {
        let (resource, special) = resource_path(&self.path)?;
        (special == Some("watch") && !resource.name.is_empty()).then_some(resource.name)
    }

    /// Returns true for a watch by its path: the old form.
    pub(crate) fn is_watched_by_path(&self) -> bool {
        resource_path(&self.path).is_some_and(|(_, special)| special == Some("watch"))
    }

    /// Returns the path by the meaning of its segments. It has no segments without a meaning, and no empty ones. The path of
    /// anything but a resource is as it was sent, decoded.
    pub(crate) fn canonical_path(&self) -> String {
        let Some((path, special)) = resource_path(&self.path) else { return self.path.clone() };
        path.to_path(special.unwrap_or_default())
    }

    /// Returns true for a long-running request: a watch.
    pub fn is_long_running(&self) -> bool {
        self.verb == "watch"
    }

    /// Returns true if the request changes nothing.
    pub fn is_read_only(&self) -> bool {
        matches!(self.verb, "get" | "list" | "watch" | "head")
    }
}

fn verb(method: &Method, path: &ResourcePath, watch: bool) -> &'static str {
    let collection = path.name.is_empty();
    match *method {
        Method::GET | Method::HEAD if collection && watch => "watch",
        Method::GET | Method::HEAD if collection => "list",
        Method::DELETE if collection => "deletecollection",
        Method::GET | Method::HEAD => "get",
        Method::POST => "create",
        Method::PUT => "update",
        Method::PATCH => "patch",
        Method::DELETE => "delete",
        _ => "",
    }
}

/// Verb of an uncommon method on a path without a resource.
pub(crate) const UNKNOWN: &str = "unknown";

fn method_verb(method: &Method) -> &'static str {
    match *method {
        Method::GET | Method::HEAD => "get",
        Method::POST => "post",
        Method::PUT => "put",
        Method::PATCH => "patch",
        Method::DELETE => "delete",
        _ => UNKNOWN,
    }
}

/// Parses `/apis/<g>/<v>/…` and `/api/<v>/…`, if they name a resource. Returns the verb too, if it is in the path:
/// `…/<v>/watch/…`, the form from before the parameter existed, and `…/<v>/proxy/…`, which no kind has any more, but
/// which is a permission of its own.
fn resource_path(path: &str) -> Option<(ResourcePath, Option<&'static str>)> {
    let parts: Vec<&str> = path.trim_matches('/').split('/').collect();
    let (group, version, rest) = match parts.as_slice() {
        ["api", version, rest @ ..] => ("", *version, rest),
        ["apis", group, version, rest @ ..] => (*group, *version, rest),
        _ => return None,
    };
    let (special, rest) = match rest {
        ["watch", rest @ ..] if !rest.is_empty() => (Some("watch"), rest),
        ["proxy", rest @ ..] if !rest.is_empty() => (Some("proxy"), rest),
        rest => (None, rest),
    };
    let (namespace, rest) = match rest {
        // A Namespace and its subresources are not in that namespace.
        ["namespaces", _] | ["namespaces", _, "status" | "finalize"] | ["namespaces"] => ("", rest),
        ["namespaces", namespace, rest @ ..] => (*namespace, rest),
        other => ("", other),
    };
    let (resource, name, subresource) = match rest {
        [resource] => (*resource, "", String::new()),
        [resource, name] => (*resource, *name, String::new()),
        [resource, name, ..] if special == Some("proxy") => (*resource, *name, String::new()),
        // Segments after a subresource have no meaning.
        [resource, name, subresource, ..] => (*resource, *name, (*subresource).to_owned()),
        [] => return None,
    };
    if resource.is_empty() {
        return None;
    }
    let path = ResourcePath {
        group: group.to_owned(),
        version: version.to_owned(),
        namespace: namespace.to_owned(),
        resource: resource.to_owned(),
        name: name.to_owned(),
        subresource,
    };
    Some((path, special))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn show(method: &Method, path: &str, watch: bool) -> String {
        let info = RequestInfo::resolve(method, path, watch, None);
        match info.subject {
            Subject::Path => format!("{} path", info.verb),
            Subject::Resource(r) => {
                format!(
                    "{} {}|{}|{}|{}|{}|{}",
                    info.verb, r.group, r.version, r.namespace, r.resource, r.name, r.subresource
                )
            }
        }
    }

    #[test]
    fn paths_resolve_to_verb_and_resource() {
        let table = [
            (Method::GET, "/apis/g/v1/watch/machines", false, "watch g|v1||machines||"),
            (Method::GET, "/apis/g/v1/watch/namespaces/ns/machines/m", false, "watch g|v1|ns|machines|m|"),
            (Method::GET, "/api/v1/watch/namespaces/ns", false, "watch |v1||namespaces|ns|"),
            (Method::GET, "/apis/g/v1/proxy/namespaces/ns/machines/m/x", false, "proxy g|v1|ns|machines|m|"),
            (Method::GET, "/apis/g/v1/watch", false, "list g|v1||watch||"),
            (Method::GET, "/apis/g/v1/machines", false, "list g|v1||machines||"),
            (Method::GET, "/apis/g/v1/machines", true, "watch g|v1||machines||"),
            (Method::GET, "/apis/g/v1/namespaces/ns/machines", false, "list g|v1|ns|machines||"),
            (Method::GET, "/apis/g/v1/namespaces/ns/machines/m", true, "get g|v1|ns|machines|m|"),
            (
                Method::POST,
                "/apis/g/v1/namespaces/ns/machines/m/reboot",
                false,
                "create g|v1|ns|machines|m|reboot",
            ),
            (
                Method::PATCH,
                "/apis/g/v1/namespaces/ns/machines/m/status",
                false,
                "patch g|v1|ns|machines|m|status",
            ),
            (
                Method::DELETE,
                "/apis/g/v1/namespaces/ns/machines",
                false,
                "deletecollection g|v1|ns|machines||",
            ),
            (Method::GET, "/api/v1/namespaces", false, "list |v1||namespaces||"),
            (Method::DELETE, "/api/v1/namespaces/ns", false, "delete |v1||namespaces|ns|"),
            (Method::GET, "/api/v1/namespaces/ns/secrets/s", false, "get |v1|ns|secrets|s|"),
            (Method::GET, "/apis/g/v1", false, "get path"),
            (Method::GET, "/api", false, "get path"),
            (Method::POST, "/", false, "post path"),
        ];
        for (method, path, watch, expected) in table {
            assert_eq!(show(&method, path, watch), expected, "{method} {path}");
        }
    }

    #[test]
    fn a_watch_or_proxy_path_without_a_resource_is_unclear() {
        let unclear = |path: &str| RequestInfo::resolve(&Method::GET, path, false, None).is_unclear();
        assert!(unclear("/apis/g/v1/watch"));
        assert!(unclear("/apis/g/v1/proxy/"));
        assert!(unclear("/api/v1/watch"));
        assert!(!unclear("/apis/g/v1/watch/machines"));
        assert!(!unclear("/apis/g/v1/namespaces/watch"));
        assert!(!unclear("/apis/g/watch"));
    }

    #[test]
    fn the_canonical_path_has_the_segments_with_a_meaning() {
        for (path, expected) in [
            ("/apis/g/v1/namespaces/ns/machines/m/reboot", None),
            ("/apis/g/v1/namespaces/ns/machines", None),
            ("/apis/g/v1/watch/namespaces/ns/machines/m", None),
            ("/api/v1/namespaces/ns", None),
            ("/api/v1/namespaces/ns/status", None),
            ("/api/v1/namespaces/ns/secrets/s", None),
            ("/apis/g/v1", None),
            ("/livez/", None),
            ("/apis/g/v1/machines/", Some("/apis/g/v1/machines")),
            ("//apis/g/v1/machines", Some("/apis/g/v1/machines")),
            ("/apis/g/v1/namespaces/ns/gadgets/m/go/x/y", Some("/apis/g/v1/namespaces/ns/gadgets/m/go")),
            ("/apis//v1/namespaces/ns/secrets/s", Some("/api/v1/namespaces/ns/secrets/s")),
            ("/api/v1/namespaces/ns%2Fsecrets%2Fs", Some("/api/v1/namespaces/ns/secrets/s")),
        ] {
            let info = RequestInfo::resolve(&Method::GET, path, false, Some("named"));
            assert_eq!(info.canonical_path(), expected.unwrap_or(path), "{path}");
        }
    }

    #[test]
    fn the_name_in_a_field_selector_counts_only_without_the_watch_prefix() {
        let name = |path: &str, watch: bool| {
            let info = RequestInfo::resolve(&Method::GET, path, watch, Some("m"));
            info.resource().unwrap().name.clone()
        };
        assert_eq!(name("/apis/g/v1/namespaces/ns/machines", false), "m");
        assert_eq!(name("/apis/g/v1/namespaces/ns/machines", true), "m");
        assert_eq!(name("/apis/g/v1/watch/namespaces/ns/machines", true), "");
        assert_eq!(name("/apis/g/v1/watch/namespaces/ns/machines/a", false), "a");
    }
}
