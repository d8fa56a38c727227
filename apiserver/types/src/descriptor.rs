//! Descriptor of a kind: names, scope, subresources and printer columns.

use serde_json::Value;

/// One column of `kubectl get`, after the name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Column {
    /// Heading of the column.
    pub name: &'static str,
    /// Type of the cells: `string`, `integer`, `boolean` or `date`.
    pub kind: &'static str,
    /// JSON path of the cell's value in the object.
    pub json_path: &'static str,
    /// Priority of the column. 0 means always visible. Greater values are visible only with `-o wide`.
    pub priority: i32,
    /// Meaning of the cells, as a sentence.
    pub description: &'static str,
}

/// JSON paths of the values that `autoscaling/v1` Scale reads and writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Scale {
    /// JSON path of the desired number, e.g. `.spec.replicas`.
    pub spec_replicas: &'static str,
    /// JSON path of the observed number, e.g. `.status.replicas`.
    pub status_replicas: &'static str,
    /// JSON path of the label selector in its text form, if the kind has one.
    pub selector: Option<&'static str>,
}

/// Names, scope, subresources and columns of a kind in one version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Descriptor {
    /// API group. Empty for the core group.
    pub group: &'static str,
    /// API version, e.g. `v1beta2`.
    pub version: &'static str,
    /// Kind, in CamelCase.
    pub kind: &'static str,
    /// Plural name, which is the path segment of the resource.
    pub plural: &'static str,
    /// Singular name.
    pub singular: &'static str,
    /// Short names for `kubectl`.
    pub short_names: &'static [&'static str],
    /// Categories for `kubectl`, e.g. `cluster-api`.
    pub categories: &'static [&'static str],
    /// Scope of the kind. True if its objects are in namespaces.
    pub namespaced: bool,
    /// Presence of the `status` subresource.
    pub status_subresource: bool,
    /// JSON paths for the `scale` subresource, if the kind has one.
    pub scale: Option<Scale>,
    /// Warning for clients of a deprecated version, or `None`.
    pub deprecation: Option<&'static str>,
    /// Columns of `kubectl get`, after the name.
    pub columns: &'static [Column],
}

/// Kind with a descriptor and a schema.
pub trait Described {
    /// Descriptor of the kind.
    const DESCRIPTOR: Descriptor;

    /// Returns the structural OpenAPI v3 schema of the whole object. Programs that only serve the kind use
    /// the schema that was packed at build time, so no descriptor refers to this function.
    fn schema() -> Value;
}

/// Creates a column that is always visible.
pub(crate) const fn column(
    name: &'static str,
    kind: &'static str,
    json_path: &'static str,
    description: &'static str,
) -> Column {
    Column { name, kind, json_path, priority: 0, description }
}

/// Creates a column that is visible only with `-o wide`.
pub(crate) const fn wide(
    name: &'static str,
    kind: &'static str,
    json_path: &'static str,
    description: &'static str,
) -> Column {
    Column { name, kind, json_path, priority: 10, description }
}

/// Age column, the last column of most kinds.
pub(crate) const AGE: Column =
    column("Age", "date", ".metadata.creationTimestamp", "Time since the object was created.");

#[cfg(test)]
mod tests {
    #[test]
    fn every_column_is_described_by_a_sentence() {
        for descriptor in crate::DESCRIPTORS {
            for column in descriptor.columns {
                let text = column.description;
                let is_sentence = text.starts_with(|first: char| first.is_uppercase()) && text.ends_with('.');
                assert!(is_sentence, "{} {}: {text:?}", descriptor.kind, column.name);
                assert!(!text.contains(column.json_path), "{} {}: {text:?}", descriptor.kind, column.name);
            }
        }
    }
}
