//! A kind whose objects are collected.

use kube::api::ApiResource;

use super::graph::Owner;

/// A kind, as references to owners may name it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CollectedKind {
    /// How its objects are read and deleted.
    pub resource: ApiResource,
    /// Whether they live in namespaces.
    pub namespaced: bool,
    /// All versions that are served: a reference may name any.
    pub versions: Vec<String>,
}

impl CollectedKind {
    /// Whether a reference means this kind.
    pub(super) fn is_meant_by(&self, owner: &Owner) -> bool {
        let (group, version) = owner.api_version.split_once('/').unwrap_or(("", &owner.api_version));
        self.resource.kind == owner.kind
            && self.resource.group == group
            && self.versions.iter().any(|served| served == version)
    }
}
