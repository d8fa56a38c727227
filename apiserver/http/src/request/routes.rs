//! Routes: the paths and verbs that a kind has, and the paths of health.

use apiserver_machinery::status::{ApiError, ApiResult};
use apiserver_machinery::store::Kind;
use apiserver_schema::go_text::quoted;

use crate::request::request_info::ResourcePath;

/// Health paths, without their slash.
pub(crate) const HEALTH: [&str; 3] = ["healthz", "livez", "readyz"];

/// Returns the kind of a health path and the check that it names, if any.
pub(crate) fn health(path: &str) -> Option<(&'static str, Option<&str>)> {
    let path = path.strip_prefix('/')?;
    let (first, check) = path.split_once('/').map_or((path, None), |(first, check)| (first, Some(check)));
    HEALTH.into_iter().find(|kind| *kind == first).map(|kind| (kind, check))
}

/// Checks the segments that become part of a key: the namespace, and the name of an object that is read or written.
/// They must not lead out of it. A name in a selector is only compared.
pub(crate) fn check_segments(path: &ResourcePath, verb: &str) -> ApiResult<()> {
    let is_of_one = !matches!(verb, "list" | "watch" | "deletecollection");
    let name = if is_of_one { path.name.as_str() } else { "" };
    for (part, segment) in [("Namespace", path.namespace.as_str()), ("Name", name)] {
        let error = match segment {
            ".." => "may not be '..'",
            "." => "may not be '.'",
            _ if segment.contains('/') => "may not contain '/'",
            _ if segment.contains('%') && part == "Name" => "may not contain '%'",
            _ => continue,
        };
        return Err(ApiError::bad_request(format!("{part} parameter invalid: {}: {error}", quoted(segment))));
    }
    Ok(())
}

/// Returns true if a kind has such a resource or subresource, with such a verb.
pub(crate) fn is_served(kind: Kind<'_>, path: &ResourcePath, verb: &str) -> bool {
    let resource = kind.resource;
    let is_part = || matches!(verb, "get" | "update" | "patch");
    is_addressed_rightly(kind, path, verb)
        && match path.subresource.as_str() {
            "" if verb == "deletecollection" => resource.strategy.deletes_collections(),
            "" => matches!(verb, "get" | "list" | "watch" | "create" | "update" | "patch" | "delete"),
            "status" if resource.status_subresource => is_part(),
            "approval" if resource.strategy.has_approval() => is_part(),
            "scale" if resource.scale.is_some() => is_part(),
            "finalize" if resource.strategy.has_spec_finalizers() => verb == "update",
            name => resource.verb(name).is_some_and(|action| action.method().verb() == verb),
        }
}

/// Returns true if the path has a namespace where the kind needs one: only lists and watches span all namespaces.
pub(crate) fn is_addressed_rightly(kind: Kind<'_>, path: &ResourcePath, verb: &str) -> bool {
    match (kind.resource.namespaced, path.namespace.is_empty()) {
        (true, true) => matches!(verb, "list" | "watch"),
        (false, false) => false,
        _ => true,
    }
}
