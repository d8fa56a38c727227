//! What the server is told of a kind.

use serde_json::Value;

/// One column of `kubectl get` after the name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Column {
    /// Heading.
    pub name: &'static str,
    /// `string`, `integer`, `boolean` or `date`.
    pub kind: &'static str,
    /// Where the cell comes from.
    pub json_path: &'static str,
    /// 0 is always shown; larger only with `-o wide`.
    pub priority: i32,
}

/// Where `autoscaling/v1` Scale finds its numbers in a kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Scale {
    /// Path of the wanted number, e.g. `.spec.replicas`.
    pub spec_replicas: &'static str,
    /// Path of the observed number, e.g. `.status.replicas`.
    pub status_replicas: &'static str,
    /// Path of the selector in its text form, when the kind has one.
    pub selector: Option<&'static str>,
}

/// Names and columns of a kind in one version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Descriptor {
    /// API group; empty for core.
    pub group: &'static str,
    /// Version.
    pub version: &'static str,
    /// Kind.
    pub kind: &'static str,
    /// Plural.
    pub plural: &'static str,
    /// Singular.
    pub singular: &'static str,
    /// Short names.
    pub short_names: &'static [&'static str],
    /// Categories.
    pub categories: &'static [&'static str],
    /// Whether its objects live in namespaces.
    pub namespaced: bool,
    /// Whether `status` is a subresource.
    pub status_subresource: bool,
    /// Where the subresource `scale` finds its numbers, when there is one.
    pub scale: Option<Scale>,
    /// What a client of this version is warned of, when it should move on.
    pub deprecation: Option<&'static str>,
    /// Columns after the name.
    pub columns: &'static [Column],
}

/// A kind that describes itself.
pub trait Described {
    /// The description.
    const DESCRIPTOR: Descriptor;

    /// The structural OpenAPI v3 schema of the whole object. Programs that only serve the kind have it from
    /// when they were built: no description leads here.
    fn schema() -> Value;
}

/// A column that is always shown.
pub(crate) const fn column(name: &'static str, kind: &'static str, json_path: &'static str) -> Column {
    Column { name, kind, json_path, priority: 0 }
}

/// A column that is shown with `-o wide`.
pub(crate) const fn wide(name: &'static str, kind: &'static str, json_path: &'static str) -> Column {
    Column { name, kind, json_path, priority: 10 }
}

/// The column every kind ends with.
pub(crate) const AGE: Column = column("Age", "date", ".metadata.creationTimestamp");
