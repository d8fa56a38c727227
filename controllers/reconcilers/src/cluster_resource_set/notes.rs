//! Notes in the annotations of a binding: a condition per set, and the objects that a set has applied. Pure.

use std::collections::{BTreeMap, BTreeSet};

use apiserver_types::{ClusterResourceSetBinding, Time};
use kube::ResourceExt;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// Annotation with the state of each set on the Cluster, by the name of the set.
const STATES: &str = "capstan.dev/resource-set-states";

/// Annotation with the objects that each set with `capstan.dev/prune` has applied, by the name of the set.
const INVENTORY: &str = "capstan.dev/resource-set-inventory";

/// Largest inventory of all sets, in bytes: all annotations of an object have at most 256 KiB.
const LARGEST: usize = 192 * 1024;

/// Longest text of a state, in characters.
const LONGEST: usize = 1024;

/// Namespace of objects that name none, as kubectl has it.
const DEFAULT_NAMESPACE: &str = "default";

/// State of a set on one Cluster, as a condition.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct State {
    status: String,
    reason: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    message: String,
    last_transition_time: Time,
}

/// Object that a set has applied.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct AppliedObject {
    pub api_version: String,
    pub kind: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    pub name: String,
}

impl AppliedObject {
    /// Returns the namespace that the object gets if its kind is one in namespaces.
    pub(super) fn effective_namespace(&self) -> &str {
        if self.namespace.is_empty() { DEFAULT_NAMESPACE } else { &self.namespace }
    }

    /// Returns true if both name the same object of a cluster. All versions of a group show the same objects.
    /// `namespaced` is true if their kind is one in namespaces.
    pub(super) fn is_same(&self, other: &Self, namespaced: bool) -> bool {
        let is_in_place = !namespaced || self.effective_namespace() == other.effective_namespace();
        is_in_place && (self.group(), &self.kind, &self.name) == (other.group(), &other.kind, &other.name)
    }

    fn group(&self) -> &str {
        self.api_version.split_once('/').map_or("", |(group, _)| group)
    }
}

/// Sets the state of a set. Nothing changes if it has the same words.
pub(super) fn set_state(
    binding: &mut ClusterResourceSetBinding,
    set: &str,
    applied: bool,
    reason: &str,
    message: &str,
    now: &Time,
) {
    let mut states: BTreeMap<String, State> = read(binding, STATES);
    let status = if applied { "True" } else { "False" };
    let before = states.get(set).filter(|known| known.status == status);
    let since = before.map_or_else(|| now.clone(), |known| known.last_transition_time.clone());
    let new = State {
        status: status.to_owned(),
        reason: reason.to_owned(),
        message: message.chars().take(LONGEST).collect(),
        last_transition_time: since,
    };
    states.insert(set.to_owned(), new);
    write(binding, STATES, &states);
}

/// Returns the objects that a set has applied.
pub(super) fn inventory(binding: &ClusterResourceSetBinding, set: &str) -> BTreeSet<AppliedObject> {
    let mut all: BTreeMap<String, BTreeSet<AppliedObject>> = read(binding, INVENTORY);
    all.remove(set).unwrap_or_default()
}

/// Returns the objects that the other sets with `capstan.dev/prune` have applied.
pub(super) fn inventory_of_others(binding: &ClusterResourceSetBinding, set: &str) -> BTreeSet<AppliedObject> {
    let mut all: BTreeMap<String, BTreeSet<AppliedObject>> = read(binding, INVENTORY);
    all.remove(set);
    all.into_values().flatten().collect()
}

/// Replaces the objects that a set has applied.
///
/// # Errors
/// There are too many for an annotation. For people.
pub(super) fn set_inventory(
    binding: &mut ClusterResourceSetBinding,
    set: &str,
    objects: BTreeSet<AppliedObject>,
) -> Result<(), String> {
    let mut all: BTreeMap<String, BTreeSet<AppliedObject>> = read(binding, INVENTORY);
    match objects.is_empty() {
        true => all.remove(set),
        false => all.insert(set.to_owned(), objects),
    };
    if serde_json::to_string(&all).map_or(0, |text| text.len()) > LARGEST {
        let name = binding.name_any();
        return Err(format!(
            "the list of applied objects in ClusterResourceSetBinding {name} would be too large. Split the set, or \
             remove its annotation capstan.dev/prune"
        ));
    }
    write(binding, INVENTORY, &all);
    Ok(())
}

/// Removes the notes about a set.
pub(super) fn forget(binding: &mut ClusterResourceSetBinding, set: &str) {
    let mut states: BTreeMap<String, State> = read(binding, STATES);
    states.remove(set);
    write(binding, STATES, &states);
    let mut all: BTreeMap<String, BTreeSet<AppliedObject>> = read(binding, INVENTORY);
    all.remove(set);
    write(binding, INVENTORY, &all);
}

/// Reads an annotation. A value that cannot be parsed counts as empty.
fn read<T: DeserializeOwned>(binding: &ClusterResourceSetBinding, key: &str) -> BTreeMap<String, T> {
    let text = binding.annotations().get(key);
    text.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default()
}

fn write<T: Serialize>(binding: &mut ClusterResourceSetBinding, key: &str, notes: &BTreeMap<String, T>) {
    match serde_json::to_string(notes) {
        Ok(text) if !notes.is_empty() => {
            binding.annotations_mut().insert(key.to_owned(), text);
        }
        _ if binding.metadata.annotations.is_some() => {
            binding.annotations_mut().remove(key);
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::super::binding;
    use super::*;

    #[test]
    fn each_set_has_a_state_whose_time_changes_with_its_status() {
        let mut it = binding::new("n", "blue");
        let at = |minute: u8| Time(format!("2026-11-21T06:{minute:02}:00Z"));
        set_state(&mut it, "cni", false, "NotApplied", "a", &at(1));
        set_state(&mut it, "cni", false, "NotApplied", "b", &at(2));
        set_state(&mut it, "csi", true, "Applied", "", &at(3));
        let text = it.annotations()[STATES].clone();
        assert!(text.contains(r#""message":"b","lastTransitionTime":"2026-11-21T06:01:00Z""#), "{text}");
        assert!(text.contains(r#""csi":{"status":"True","reason":"Applied","lastTransitionTime""#), "{text}");
        forget(&mut it, "cni");
        forget(&mut it, "csi");
        assert!(it.annotations().is_empty());
    }

    #[test]
    fn an_inventory_is_kept_per_set_and_must_fit_into_an_annotation() {
        let object = |name: &str| AppliedObject {
            api_version: "v1".to_owned(),
            kind: "ConfigMap".to_owned(),
            namespace: "n".to_owned(),
            name: name.to_owned(),
        };
        let mut it = binding::new("n", "blue");
        set_inventory(&mut it, "cni", [object("a")].into()).unwrap();
        assert_eq!(inventory(&it, "cni"), [object("a")].into());
        assert_eq!(inventory(&it, "csi"), BTreeSet::new());
        assert_eq!(inventory_of_others(&it, "csi"), [object("a")].into());
        assert_eq!(inventory_of_others(&it, "cni"), BTreeSet::new());
        let many = (0..4000).map(|index| object(&format!("{index:060}"))).collect();
        assert!(set_inventory(&mut it, "csi", many).unwrap_err().contains("Split the set"));
        it.annotations_mut().insert(INVENTORY.to_owned(), "broken".to_owned());
        assert_eq!(inventory(&it, "cni"), BTreeSet::new());
    }

    #[test]
    fn an_object_is_the_same_in_each_version_of_its_group_and_with_its_namespace_left_out() {
        let object = |api_version: &str, namespace: &str| AppliedObject {
            api_version: api_version.to_owned(),
            kind: "Widget".to_owned(),
            namespace: namespace.to_owned(),
            name: "w".to_owned(),
        };
        let it = object("example.com/v1beta1", "");
        for (other, namespaced, expected) in [
            (object("example.com/v1", ""), true, true),
            (object("example.com/v1", "default"), true, true),
            (object("example.com/v1", "n"), true, false),
            (object("example.com/v1", "n"), false, true),
            (object("example.org/v1beta1", ""), true, false),
            (object("v1", ""), false, false),
            (AppliedObject { name: "x".to_owned(), ..it.clone() }, true, false),
            (AppliedObject { kind: "Gadget".to_owned(), ..it.clone() }, true, false),
        ] {
            assert_eq!(it.is_same(&other, namespaced), expected, "{other:?} {namespaced}");
            assert_eq!(other.is_same(&it, namespaced), expected, "{other:?} {namespaced}");
        }
    }
}
