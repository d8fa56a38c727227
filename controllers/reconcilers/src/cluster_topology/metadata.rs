//! Labels and annotations of the objects of a topology. Pure.

use std::collections::BTreeMap;

use apiserver_types::{TEMPLATE_DIGESTS, TEMPLATE_REVISION, TemplateMeta};
use serde_json::{Map, Value, json};

use super::{DEPLOYMENT, OWNED};
use crate::CLUSTER_NAME_LABEL;
use crate::templates::{CLONED_FROM_GROUP_KIND, CLONED_FROM_NAME};

/// Annotation of a worker group that defers its upgrade.
pub(super) const DEFER: &str = "topology.cluster.x-k8s.io/defer-upgrade";

/// Annotation of a worker group that holds its upgrade and those of the groups after it.
pub(super) const HOLD: &str = "topology.cluster.x-k8s.io/hold-upgrade-sequence";

/// Annotations that are not copied: two are for this controller only, the others describe another object.
const NOT_COPIED: [&str; 5] =
    [DEFER, HOLD, "kubectl.kubernetes.io/last-applied-configuration", TEMPLATE_REVISION, TEMPLATE_DIGESTS];

/// Labels or annotations.
pub(super) type Pairs = BTreeMap<String, String>;

/// Labels and annotations.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Metadata {
    pub labels: Pairs,
    pub annotations: Pairs,
}

impl Metadata {
    /// Returns those of a topology over those of its class, key by key.
    pub(super) fn merged(class: Option<&TemplateMeta>, topology: Option<&TemplateMeta>) -> Self {
        let mut merged = Self::default();
        for part in [class, topology].into_iter().flatten() {
            merged.labels.extend(part.labels.clone().unwrap_or_default());
            merged.annotations.extend(part.annotations.clone().unwrap_or_default());
        }
        merged.annotations.retain(|key, _| !NOT_COPIED.contains(&key.as_str()));
        merged
    }

    /// Returns those in an object, at the path of its metadata.
    pub(super) fn at(object: &Value, pointer: &str) -> Self {
        let metadata = object.pointer(pointer);
        let pairs = |key: &str| {
            let map = metadata.and_then(|it| it.get(key)).and_then(Value::as_object);
            let text = |(key, value): (&String, &Value)| Some((key.clone(), value.as_str()?.to_owned()));
            map.into_iter().flatten().filter_map(text).collect()
        };
        let mut found = Self { labels: pairs("labels"), annotations: pairs("annotations") };
        found.annotations.retain(|key, _| !NOT_COPIED.contains(&key.as_str()));
        found
    }

    /// Returns these with others over them.
    pub(super) fn under(mut self, others: &Self) -> Self {
        self.labels.extend(others.labels.clone());
        self.annotations.extend(others.annotations.clone());
        self
    }

    /// Returns these with the labels of every object of a topology. `group` is the name of a worker group.
    pub(super) fn owned(mut self, cluster: &str, group: Option<&str>) -> Self {
        self.labels.extend(owned_labels(cluster, group));
        self
    }

    /// Returns these with the annotations that name the template of an object.
    pub(super) fn cloned_from(mut self, template: &super::blueprint::Template) -> Self {
        let group_kind = format!("{}.{}", template.resource.kind, template.resource.group);
        self.annotations.insert(CLONED_FROM_NAME.to_owned(), template.name());
        self.annotations.insert(CLONED_FROM_GROUP_KIND.to_owned(), group_kind);
        self
    }

    /// Returns the JSON form, without empty maps.
    pub(super) fn json(&self) -> Map<String, Value> {
        let parts = [("labels", &self.labels), ("annotations", &self.annotations)];
        let filled = parts.into_iter().filter(|(_, pairs)| !pairs.is_empty());
        filled.map(|(key, pairs)| (key.to_owned(), json!(pairs))).collect()
    }
}

/// Returns the labels of every object of a topology.
pub(super) fn owned_labels(cluster: &str, group: Option<&str>) -> Pairs {
    let mut labels = BTreeMap::from([
        (CLUSTER_NAME_LABEL.to_owned(), cluster.to_owned()),
        (OWNED.to_owned(), String::new()),
    ]);
    labels.extend(group.map(|group| (DEPLOYMENT.to_owned(), group.to_owned())));
    labels
}

#[cfg(test)]
mod tests {
    use super::*;

    fn meta(labels: &[(&str, &str)], annotations: &[(&str, &str)]) -> TemplateMeta {
        let pairs = |list: &[(&str, &str)]| {
            Some(list.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect())
        };
        TemplateMeta { labels: pairs(labels), annotations: pairs(annotations) }
    }

    #[test]
    fn the_topology_comes_before_the_class_key_by_key_and_holds_of_upgrades_stay_behind() {
        let class = meta(&[("a", "class"), ("b", "class")], &[("x", "class")]);
        let topology = meta(&[("b", "topology")], &[(DEFER, ""), (HOLD, ""), ("y", "topology")]);
        let merged = Metadata::merged(Some(&class), Some(&topology)).owned("c", Some("md-0"));
        let expected = json!({
            "labels": {"a": "class", "b": "topology", CLUSTER_NAME_LABEL: "c", OWNED: "", DEPLOYMENT: "md-0"},
            "annotations": {"x": "class", "y": "topology"},
        });
        assert_eq!(Value::Object(merged.json()), expected);
        assert_eq!(Value::Object(Metadata::merged(None, None).json()), json!({}));
    }
}
