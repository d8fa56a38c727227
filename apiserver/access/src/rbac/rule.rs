//! Decision of one rule about one request.

use crate::authorizer::{Attributes, Rule};

/// Entry of a rule that stands for every value.
pub(super) const ALL: &str = "*";

impl Rule {
    /// Returns true if the rule allows the request.
    pub(super) fn allows(&self, attributes: &Attributes) -> bool {
        if !has(&self.verbs, &attributes.verb) {
            return false;
        }
        if !attributes.is_resource() {
            return self.paths.iter().any(|path| path_covers(path, &attributes.path));
        }
        has(&self.groups, &attributes.group)
            && self
                .resources
                .iter()
                .any(|entry| resource_matches(entry, &attributes.resource, &attributes.subresource))
            && (self.names.is_empty() || self.names.contains(&attributes.name))
    }
}

/// Returns true if a list has the value, or stands for all values.
pub(super) fn has(list: &[String], value: &str) -> bool {
    list.iter().any(|entry| entry == ALL || entry == value)
}

/// Matches `pods`, `pods/log`, `*/log` and `*`. Other stars stand for themselves.
fn resource_matches(entry: &str, resource: &str, subresource: &str) -> bool {
    if entry == ALL {
        return true;
    }
    if subresource.is_empty() {
        return entry == resource;
    }
    let below = |parent: &str| entry.strip_prefix(parent).and_then(|rest| rest.strip_prefix('/'));
    below(resource) == Some(subresource) || below(ALL) == Some(subresource)
}

/// Returns true if a path of a rule is this path, or a prefix of it before trailing stars.
pub(super) fn path_covers(entry: &str, path: &str) -> bool {
    entry == path || (entry.ends_with('*') && path.starts_with(entry.trim_end_matches('*')))
}
