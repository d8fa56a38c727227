//! What the server knows of one kind: its names, its schema, its strategy, its verbs.

use std::sync::Arc;

use serde_json::Value;

use crate::conversion::Conversion;
use crate::schema::Schema;
use crate::strategy::Strategy;
use crate::verb::Verb;

/// One column of `kubectl get`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    /// Heading.
    pub name: String,
    /// `string`, `integer`, `number`, `boolean` or `date`.
    pub kind: String,
    /// Where the cell comes from, e.g. `.status.phase`.
    pub json_path: String,
    /// 0 is always shown; larger only with `-o wide`.
    pub priority: i32,
    /// For `kubectl explain`-like tools.
    pub description: String,
}

/// Where `autoscaling/v1` Scale finds its numbers in a kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scale {
    /// Path of the wanted number, e.g. `.spec.replicas`.
    pub spec_replicas: String,
    /// Path of the observed number, e.g. `.status.replicas`.
    pub status_replicas: String,
    /// Path of the selector in its text form, when the kind has one.
    pub selector: Option<String>,
}

/// One served kind in one version.
#[derive(Debug, Clone)]
pub struct Resource {
    /// API group; empty for core.
    pub group: String,
    /// Version.
    pub version: String,
    /// Kind, e.g. `Machine`.
    pub kind: String,
    /// Plural name in paths, e.g. `machines`.
    pub plural: String,
    /// Singular name.
    pub singular: String,
    /// Short names.
    pub short_names: Vec<String>,
    /// Categories, e.g. `cluster-api`.
    pub categories: Vec<String>,
    /// Whether its objects live in namespaces.
    pub namespaced: bool,
    /// Whether `status` is a subresource of its own.
    pub status_subresource: bool,
    /// Its subresource `scale`, when it has one.
    pub scale: Option<Scale>,
    /// What a client of this version is warned of, when it should move on.
    pub deprecation: Option<String>,
    /// How objects get from the stored version to this one and back; `None` for the stored one.
    pub conversion: Option<Arc<dyn Conversion>>,
    /// Whether `metadata.generation` counts changes of the rest.
    pub generation: bool,
    /// Whether a host serves it through us; core kinds are the host's own there.
    pub hosted: bool,
    /// Columns after the name.
    pub columns: Vec<Column>,
    /// Field selectors beside `metadata.name` and `metadata.namespace`, as dotted paths.
    pub selectable: Vec<&'static str>,
    /// The schema, compiled.
    pub schema: Schema,
    /// The schema as published.
    pub open_api: Value,
    /// What is special about the kind.
    pub strategy: Arc<dyn Strategy>,
    /// Its imperative subresources.
    pub verbs: Vec<Arc<dyn Verb>>,
}

impl Resource {
    /// `plural.group`, or the plural alone in core.
    pub fn qualified_plural(&self) -> String {
        if self.group.is_empty() { self.plural.clone() } else { format!("{}.{}", self.plural, self.group) }
    }

    /// `Kind.group`, or the kind alone in core.
    pub fn qualified_kind(&self) -> String {
        if self.group.is_empty() { self.kind.clone() } else { format!("{}.{}", self.kind, self.group) }
    }

    /// `group/version`, or the version alone in core.
    pub fn api_version(&self) -> String {
        if self.group.is_empty() { self.version.clone() } else { format!("{}/{}", self.group, self.version) }
    }

    /// The list's kind.
    pub fn list_kind(&self) -> String {
        format!("{}List", self.kind)
    }

    /// Where its objects lie in the store. Ends with a slash.
    pub fn prefix(&self) -> String {
        let group = if self.group.is_empty() { "core" } else { &self.group };
        format!("{ROOT}{group}/{}/", self.plural)
    }

    /// The verb with this name.
    pub fn verb(&self, name: &str) -> Option<&Arc<dyn Verb>> {
        self.verbs.iter().find(|verb| verb.name() == name)
    }
}

/// Prefix of all our keys.
pub const ROOT: &str = "/capstan/";

/// Every kind served, in the order of discovery.
#[derive(Debug, Clone, Default)]
pub struct Registry {
    resources: Vec<Arc<Resource>>,
}

impl Registry {
    /// A registry of these.
    pub fn new(resources: Vec<Resource>) -> Self {
        Self { resources: resources.into_iter().map(Arc::new).collect() }
    }

    /// All of them.
    pub fn resources(&self) -> &[Arc<Resource>] {
        &self.resources
    }

    /// The one with this group, version and plural, with its index.
    pub fn find(&self, group: &str, version: &str, plural: &str) -> Option<(usize, &Arc<Resource>)> {
        self.resources
            .iter()
            .enumerate()
            .find(|(_, r)| r.group == group && r.version == version && r.plural == plural)
    }

    /// Groups with their versions, each once, in order.
    pub fn groups(&self) -> Vec<(String, Vec<String>)> {
        let mut groups: Vec<(String, Vec<String>)> = Vec::new();
        for resource in &self.resources {
            match groups.iter_mut().find(|(group, _)| *group == resource.group) {
                Some((_, versions)) if versions.contains(&resource.version) => {}
                Some((_, versions)) => versions.push(resource.version.clone()),
                None => groups.push((resource.group.clone(), vec![resource.version.clone()])),
            }
        }
        groups
    }

    /// The resources of one group and version.
    pub fn of_version<'a>(
        &'a self,
        group: &'a str,
        version: &'a str,
    ) -> impl Iterator<Item = &'a Arc<Resource>> {
        self.resources.iter().filter(move |r| r.group == group && r.version == version)
    }
}
