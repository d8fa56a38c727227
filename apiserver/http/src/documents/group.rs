//! API groups: their paths, and whether they are Kubernetes' own.

use apiserver_machinery::resource::Registry;

/// Returns true if a group is one of Kubernetes' own. Upstream serves those by other means than the rest.
pub(crate) fn is_built_in(registry: &Registry, group: &str) -> bool {
    group.is_empty()
        || !registry.resources().iter().any(|resource| resource.group == group && resource.hosted)
}

/// Returns the path of a version of a group.
pub(super) fn root(group: &str, version: &str) -> String {
    if group.is_empty() { format!("/api/{version}") } else { format!("/apis/{group}/{version}") }
}
