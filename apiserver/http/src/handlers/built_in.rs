//! Path and method check for Kubernetes' own kinds. Upstream serves them by a table of paths and methods, and refuses
//! other requests before it reads them. Kinds that were added to a cluster have no such table.

use apiserver_machinery::resource::{Registry, Resource};
use apiserver_machinery::reviews;
use apiserver_machinery::status::{ApiError, ApiResult};
use http::Method;

use crate::documents::is_built_in;
use crate::request::request_info::{RequestInfo, ResourcePath};

/// Returns true if a path is below one of Kubernetes' own groups.
pub(super) fn has_path(registry: &Registry, path: &str) -> bool {
    if path.starts_with("/api/") {
        return true;
    }
    let group = path.strip_prefix("/apis/").and_then(|rest| rest.split('/').next()).unwrap_or_default();
    let is_known = || {
        registry.resources().iter().any(|resource| resource.group == group)
            || reviews::ALL.iter().any(|review| review.group == group)
    };
    !group.is_empty() && is_built_in(registry, group) && is_known()
}

/// Refuses a request that is not in the table.
///
/// # Errors
/// 404 if no kind has such a path; 405 if it has, but not with this method.
pub(super) fn check(registry: &Registry, info: &RequestInfo, path: &ResourcePath) -> ApiResult<()> {
    let methods = methods(registry, info, path).ok_or_else(ApiError::no_such_resource)?;
    if methods.contains(&info.method) { Ok(()) } else { Err(ApiError::method_not_allowed_here()) }
}

fn methods(registry: &Registry, info: &RequestInfo, path: &ResourcePath) -> Option<Vec<Method>> {
    if info.verb == "proxy" {
        return None;
    }
    // A read may name its object by a selector.
    let is_collection = path.name.is_empty() || matches!(info.verb, "list" | "watch");
    if let Some(review) = reviews::find(&path.group, &path.version, &path.resource) {
        // Authorization was for the verb of the path, but a review cannot be watched.
        let is_asked_here = !info.is_watched_by_path() && review.namespaced != path.namespace.is_empty();
        return (is_asked_here && is_collection).then(|| vec![Method::POST]);
    }
    let resource = registry.find(&path.group, &path.version, &path.resource)?;
    if !resource.namespaced && !path.namespace.is_empty() {
        return None;
    }
    let is_everywhere = resource.namespaced && path.namespace.is_empty();
    if !path.subresource.is_empty() {
        let is_there = !is_everywhere && info.verb != "watch";
        return if is_there { of_part(resource, &path.subresource) } else { None };
    }
    if is_everywhere && info.watched_name().is_some() {
        return None;
    }
    Some(match (is_collection, is_everywhere) {
        (true, true) => vec![Method::GET],
        (true, false) if info.verb == "watch" => vec![Method::GET],
        (true, false) if resource.strategy.deletes_collections() => {
            vec![Method::GET, Method::POST, Method::DELETE]
        }
        (true, false) => vec![Method::GET, Method::POST],
        (false, true) => return None,
        (false, false) => vec![Method::GET, Method::PUT, Method::PATCH, Method::DELETE],
    })
}

fn of_part(resource: &Resource, name: &str) -> Option<Vec<Method>> {
    match name {
        "status" if resource.status_subresource => Some(vec![Method::GET, Method::PUT, Method::PATCH]),
        "approval" if resource.strategy.has_approval() => Some(vec![Method::GET, Method::PUT, Method::PATCH]),
        "scale" if resource.scale.is_some() => Some(vec![Method::GET, Method::PUT, Method::PATCH]),
        "finalize" if resource.strategy.has_spec_finalizers() => Some(vec![Method::PUT]),
        name => resource.verb(name).map(|_| vec![Method::POST]),
    }
}
