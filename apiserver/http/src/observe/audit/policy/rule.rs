//! Rule of an audit policy.

use apiserver_access::User;

use super::{Level, Stages};
use crate::request::request_info::{RequestInfo, ResourcePath, Subject};

/// Value that means every resource or every path.
pub(super) const ALL: &str = "*";

/// Rule. Each list that is not empty restricts the rule.
#[derive(Debug, Clone)]
pub(super) struct Rule {
    pub(super) level: Level,
    pub(super) users: Vec<String>,
    /// Groups of which the user must have one.
    pub(super) groups: Vec<String>,
    pub(super) verbs: Vec<String>,
    pub(super) resources: Vec<GroupResources>,
    /// Namespaces. The empty one stands for objects without a namespace.
    pub(super) namespaces: Vec<String>,
    pub(super) paths: Vec<String>,
    pub(super) omitted: Stages,
    /// The policy's setting, unless the rule has its own.
    pub(super) omits_managed_fields: Option<bool>,
}

impl Rule {
    pub(super) fn matches(&self, info: &RequestInfo, user: Option<&User>) -> bool {
        let has_verb = || self.verbs.is_empty() || self.verbs.iter().any(|verb| verb == info.verb);
        self.has_user(user) && has_verb() && self.has_target(info)
    }

    fn has_user(&self, user: Option<&User>) -> bool {
        let name = user.map(|user| &user.name);
        let groups = user.map(|user| user.groups.as_slice()).unwrap_or_default();
        let is_named = || name.is_some_and(|name| self.users.contains(name));
        let is_member = || groups.iter().any(|group| self.groups.contains(group));
        (self.users.is_empty() || is_named()) && (self.groups.is_empty() || is_member())
    }

    fn has_target(&self, info: &RequestInfo) -> bool {
        let restricts_objects = !self.namespaces.is_empty() || !self.resources.is_empty();
        match &info.subject {
            Subject::Resource(path) if restricts_objects => self.has_object(path),
            Subject::Resource(_) => self.paths.is_empty(),
            Subject::Path if restricts_objects => false,
            Subject::Path => self.paths.is_empty() || self.paths.iter().any(|own| has_path(own, &info.path)),
        }
    }

    fn has_object(&self, path: &ResourcePath) -> bool {
        let namespace = path.namespace_of_permission();
        let has_namespace = self.namespaces.is_empty() || self.namespaces.iter().any(|own| own == namespace);
        let has_resource = || self.resources.is_empty() || self.resources.iter().any(|own| own.contain(path));
        has_namespace && has_resource()
    }
}

fn has_path(pattern: &str, path: &str) -> bool {
    match pattern.strip_suffix(ALL) {
        Some(prefix) => path.starts_with(prefix),
        None => pattern == path,
    }
}

/// Resources of one API group.
#[derive(Debug, Clone)]
pub(super) struct GroupResources {
    pub(super) group: String,
    /// `a`, `a/b`, `a/*`, `*/b` or `*`; empty for all of the group.
    pub(super) resources: Vec<String>,
    /// Names of objects; empty for all.
    pub(super) names: Vec<String>,
}

impl GroupResources {
    fn contain(&self, path: &ResourcePath) -> bool {
        let has_name = || self.names.is_empty() || self.names.contains(&path.name);
        let has_resource = || self.resources.iter().any(|pattern| has_resource(pattern, path));
        self.group == path.group && (self.resources.is_empty() || (has_name() && has_resource()))
    }
}

/// Returns true if a pattern contains a resource or subresource. Unlike in RBAC, `a/*` also contains `a` itself.
pub(super) fn has_resource(pattern: &str, path: &ResourcePath) -> bool {
    let (resource, subresource) = (path.resource.as_str(), path.subresource.as_str());
    match pattern.split_once('/') {
        None if pattern == ALL => true,
        None => subresource.is_empty() && pattern == resource,
        Some((parent, ALL)) if parent == resource => true,
        Some((ALL, child)) if !subresource.is_empty() && child == subresource => true,
        Some((parent, child)) => !subresource.is_empty() && (parent, child) == (resource, subresource),
    }
}
