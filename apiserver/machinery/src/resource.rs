//! Resource: names, schema, strategy and actions of one kind in one version.

use std::cmp::Reverse;
use std::sync::Arc;

use crate::action::ActionHandler;
use crate::conversion::Conversion;
use crate::preview::Preview;
use crate::status::ResourceNames;
use crate::strategy::Strategy;
use apiserver_schema::KindSchema;

/// One column of `kubectl get`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    /// Heading.
    pub name: String,
    /// `string`, `integer`, `number`, `boolean` or `date`.
    pub kind: String,
    /// Path of the cell's value, e.g. `.status.phase`.
    pub json_path: String,
    /// 0 is always shown; a larger one only with `-o wide`.
    pub priority: i32,
    /// For `kubectl explain`-like tools.
    pub description: String,
}

/// Paths of the numbers of `autoscaling/v1` Scale in a kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scale {
    /// Path of the desired number, e.g. `.spec.replicas`.
    pub spec_replicas: String,
    /// Path of the observed number, e.g. `.status.replicas`.
    pub status_replicas: String,
    /// Path of the selector in its text form, if the kind has one.
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
    /// True if its objects are in namespaces.
    pub namespaced: bool,
    /// True if `status` is a subresource.
    pub status_subresource: bool,
    /// Its subresource `scale`, if it has one.
    pub scale: Option<Scale>,
    /// Warning for clients of a deprecated version.
    pub deprecation: Option<String>,
    /// Conversion between the stored version and this one; `None` for the stored version.
    pub conversion: Option<Arc<dyn Conversion>>,
    /// True if `metadata.generation` counts changes of the other fields.
    pub generation: bool,
    /// True if a host cluster serves it through Capstan. The host cluster has its own core kinds.
    pub hosted: bool,
    /// Columns after the name.
    pub columns: Vec<Column>,
    /// Field selectors, in addition to `metadata.name` and `metadata.namespace`, as dotted paths.
    pub selectable: Vec<&'static str>,
    /// The schema.
    pub schema: KindSchema,
    /// Behaviour that is specific to the kind.
    pub strategy: Arc<dyn Strategy>,
    /// Actions of the kind.
    pub verbs: Vec<Arc<dyn ActionHandler>>,
    /// Preview of changes, for the clients of dry runs; `None` if changes have no effects to warn of.
    pub preview: Option<Arc<dyn Preview>>,
}

impl Resource {
    /// Returns `plural.group`, or the plural name alone in core.
    pub fn qualified_plural(&self) -> String {
        ResourceNames::qualified_plural(self)
    }

    /// Returns `Kind.group`, or the kind alone in core.
    pub fn qualified_kind(&self) -> String {
        ResourceNames::qualified_kind(self)
    }

    /// Returns `group/version`, or the version alone in core.
    pub fn api_version(&self) -> String {
        if self.group.is_empty() { self.version.clone() } else { [&self.group, "/", &self.version].concat() }
    }

    /// Returns the kind of its lists.
    pub fn list_kind(&self) -> String {
        format!("{}List", self.kind)
    }

    /// Returns the prefix of its objects in the store. It ends with a slash.
    pub fn prefix(&self) -> String {
        [ROOT, self.group_in_keys(), "/", &self.plural, "/"].concat()
    }

    /// Returns the key of one of its objects in the store. The namespace counts only if the kind is namespaced.
    pub fn key(&self, namespace: &str, name: &str) -> String {
        let (namespace, slash) = if self.namespaced { (namespace, "/") } else { ("", "") };
        [ROOT, self.group_in_keys(), "/", &self.plural, "/", namespace, slash, name].concat()
    }

    fn group_in_keys(&self) -> &str {
        if self.group.is_empty() { "core" } else { &self.group }
    }

    /// Returns the action with this name.
    pub fn verb(&self, name: &str) -> Option<&Arc<dyn ActionHandler>> {
        self.verbs.iter().find(|verb| verb.name() == name)
    }
}

impl ResourceNames for Resource {
    fn group(&self) -> &str {
        &self.group
    }

    fn kind(&self) -> &str {
        &self.kind
    }

    fn plural(&self) -> &str {
        &self.plural
    }
}

/// Prefix of all keys of Capstan.
pub const ROOT: &str = "/capstan/";

/// Registry of every served kind in every version, in the order of discovery.
#[derive(Debug, Clone, Default)]
pub struct Registry {
    resources: Vec<Arc<Resource>>,
    /// The stored version of each kind.
    stored: Vec<Arc<Resource>>,
}

impl Registry {
    /// Creates a registry. Every converted version needs the stored version of its kind in the registry.
    pub fn new(resources: Vec<Resource>) -> Self {
        let resources: Vec<Arc<Resource>> = resources.into_iter().map(Arc::new).collect();
        let stored = resources.iter().filter(|resource| resource.conversion.is_none()).cloned().collect();
        Self { resources, stored }
    }

    /// Returns the resources that a host cluster serves through Capstan.
    pub fn hosted(&self) -> Self {
        let of = |all: &[Arc<Resource>]| all.iter().filter(|resource| resource.hosted).cloned().collect();
        Self { resources: of(&self.resources), stored: of(&self.stored) }
    }

    /// Returns the stored version of each kind, which the store keeps.
    pub fn stored(&self) -> &[Arc<Resource>] {
        &self.stored
    }

    /// Returns the stored version of a kind, and its index in [`Registry::stored`].
    pub fn stored_of(&self, resource: &Resource) -> Option<(usize, &Arc<Resource>)> {
        let same = |other: &Resource| other.group == resource.group && other.plural == resource.plural;
        self.stored.iter().enumerate().find(|(_, other)| same(other))
    }

    /// Returns all resources.
    pub fn resources(&self) -> &[Arc<Resource>] {
        &self.resources
    }

    /// Returns the resource with this group, version and plural.
    pub fn find(&self, group: &str, version: &str, plural: &str) -> Option<&Arc<Resource>> {
        self.resources.iter().find(|r| r.group == group && r.version == version && r.plural == plural)
    }

    /// Returns the groups in order, each with its versions, the preferred version first.
    pub fn groups(&self) -> Vec<(String, Vec<String>)> {
        let mut groups: Vec<(String, Vec<String>)> = Vec::new();
        for resource in &self.resources {
            match groups.iter_mut().find(|(group, _)| *group == resource.group) {
                Some((_, versions)) if versions.contains(&resource.version) => {}
                Some((_, versions)) => versions.push(resource.version.clone()),
                None => groups.push((resource.group.clone(), vec![resource.version.clone()])),
            }
        }
        for (_, versions) in &mut groups {
            versions.sort_by_key(|version| Reverse(priority(version)));
        }
        groups
    }

    /// Returns the resources of one group and version.
    pub fn of_version<'a>(
        &'a self,
        group: &'a str,
        version: &'a str,
    ) -> impl Iterator<Item = &'a Arc<Resource>> {
        self.resources.iter().filter(move |r| r.group == group && r.version == version)
    }
}

/// Priority of a version, like Kubernetes: stable before beta before alpha, and newer before older. A name of another
/// form comes last.
fn priority(version: &str) -> (u8, u32, u32) {
    let read = |text: &str| text.parse::<u32>().ok();
    let Some(rest) = version.strip_prefix('v') else { return (0, 0, 0) };
    for (stage, word) in [(2, "beta"), (1, "alpha")] {
        if let Some((major, minor)) = rest.split_once(word) {
            return match (read(major), read(minor)) {
                (Some(major), Some(minor)) => (stage, major, minor),
                _ => (0, 0, 0),
            };
        }
    }
    read(rest).map_or((0, 0, 0), |major| (3, major, 0))
}

#[cfg(test)]
pub(crate) mod tests {
    use serde_json::json;

    use super::*;
    use crate::strategy::Plain;

    /// Returns a kind for tests.
    pub(crate) fn gadget() -> Resource {
        let schema = json!({"type": "object", "properties": {
            "apiVersion": {"type": "string"}, "kind": {"type": "string"}, "metadata": {"type": "object"},
            "spec": {"type": "object", "properties": {
                "colour": {"type": "string", "default": "red"},
                "any": {"x-kubernetes-preserve-unknown-fields": true}}}}});
        Resource {
            group: "toys.example.com".to_owned(),
            version: "v1".to_owned(),
            kind: "Gadget".to_owned(),
            plural: "gadgets".to_owned(),
            singular: "gadget".to_owned(),
            short_names: Vec::new(),
            categories: Vec::new(),
            namespaced: true,
            status_subresource: false,
            scale: None,
            deprecation: None,
            conversion: None,
            generation: true,
            hosted: true,
            columns: Vec::new(),
            selectable: Vec::new(),
            schema: KindSchema::new(crate::metadata::RULES, move || schema.clone()),
            strategy: Arc::new(Plain),
            verbs: Vec::new(),
            preview: None,
        }
    }

    #[test]
    fn versions_are_ordered_like_in_kubernetes() {
        let mut versions = ["v1alpha1", "v1beta1", "other", "v2", "v1beta2", "v1", "v10", "v1alpha2"];
        versions.sort_by_key(|version| Reverse(priority(version)));
        assert_eq!(versions, ["v10", "v2", "v1", "v1beta2", "v1beta1", "v1alpha2", "v1alpha1", "other"]);
    }
}
