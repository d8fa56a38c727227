//! Resource names in errors: group, kind and plural.

use std::sync::Arc;

/// Group, kind and plural name of a resource. Errors need no more of it.
pub trait ResourceNames: Send + Sync {
    /// Returns the API group; empty for core.
    fn group(&self) -> &str;

    /// Returns the kind, e.g. `Machine`.
    fn kind(&self) -> &str;

    /// Returns the plural name, e.g. `machines`.
    fn plural(&self) -> &str;

    /// Returns `plural.group`, or the plural name alone in core.
    fn qualified_plural(&self) -> String {
        qualified(self.plural(), self.group())
    }

    /// Returns `Kind.group`, or the kind alone in core.
    fn qualified_kind(&self) -> String {
        qualified(self.kind(), self.group())
    }
}

fn qualified(name: &str, group: &str) -> String {
    if group.is_empty() { name.to_owned() } else { [name, ".", group].concat() }
}

impl<T: ResourceNames + ?Sized> ResourceNames for Arc<T> {
    fn group(&self) -> &str {
        (**self).group()
    }

    fn kind(&self) -> &str {
        (**self).kind()
    }

    fn plural(&self) -> &str {
        (**self).plural()
    }
}
