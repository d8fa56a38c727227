//! ConfigMaps that one reference selects, as far as they fit.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::ResourceExt;
use kube::runtime::watcher::Event;
use serde_json::Value;

/// Largest ConfigMap, as JSON. One of 1 MiB of data fits, and etcd takes no value of more than 1.5 MiB. Unit: bytes.
const LARGEST: usize = 1_280 * 1024;

/// Largest size of all ConfigMaps of a reference, as JSON. A policy is evaluated for each of them. Unit: bytes.
const MOST: usize = 4 * 1024 * 1024;

/// Largest number of ConfigMaps of a reference.
const MOST_MAPS: usize = 256;

/// Namespace and name.
type Key = (String, String);

/// ConfigMaps with their sizes.
type Maps = BTreeMap<Key, (Arc<Value>, usize)>;

/// ConfigMaps of a watch.
#[derive(Debug, Default)]
pub(super) struct HeldMaps {
    maps: Maps,
    /// Those of a list that is still being read.
    listed: Maps,
    /// Those that did not fit when they were read last. What is held is not complete while there are any.
    unfit: BTreeSet<Key>,
}

impl HeldMaps {
    /// Applies an event of the watch.
    pub(super) fn apply(&mut self, event: &Event<ConfigMap>) {
        match event {
            Event::Init => {
                self.listed.clear();
                self.unfit.clear();
            }
            Event::InitApply(map) => insert(&mut self.listed, &mut self.unfit, map),
            Event::InitDone => self.maps = std::mem::take(&mut self.listed),
            Event::Apply(map) => insert(&mut self.maps, &mut self.unfit, map),
            Event::Delete(map) => {
                self.maps.remove(&key(map));
                self.unfit.remove(&key(map));
            }
        }
    }

    /// Returns all ConfigMaps.
    ///
    /// # Errors
    /// They are too many or too large. The text says so.
    pub(super) fn all(&self) -> Result<impl Iterator<Item = &Arc<Value>>, String> {
        if !self.unfit.is_empty() {
            return Err(format!(
                "at most {MOST_MAPS} ConfigMaps with {} MiB are copied, and each with {} KiB",
                MOST / 1024 / 1024,
                LARGEST / 1024
            ));
        }
        Ok(self.maps.values().map(|(map, _)| map))
    }
}

fn key(map: &ConfigMap) -> Key {
    (map.namespace().unwrap_or_default(), map.name_any())
}

/// Inserts a ConfigMap without its field managers, if it fits.
fn insert(maps: &mut Maps, unfit: &mut BTreeSet<Key>, map: &ConfigMap) {
    let key = key(map);
    maps.remove(&key);
    let mut map = map.clone();
    map.metadata.managed_fields = None;
    let value = serde_json::to_value(map).unwrap_or_default();
    let size = value.to_string().len();
    let others: usize = maps.values().map(|(_, size)| size).sum();
    if size <= LARGEST && others + size <= MOST && maps.len() < MOST_MAPS {
        unfit.remove(&key);
        maps.insert(key, (Arc::new(value), size));
    } else {
        unfit.insert(key);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn map(name: &str, size: usize) -> ConfigMap {
        let object = json!({"metadata": {"name": name, "namespace": "team", "managedFields": [{"manager": "a"}]},
            "data": {"a": "x".repeat(size)}});
        serde_json::from_value(object).unwrap()
    }

    fn names(held: &HeldMaps) -> Option<Vec<String>> {
        let maps = held.all().ok()?;
        Some(maps.map(|map| map["metadata"]["name"].as_str().unwrap().to_owned()).collect())
    }

    #[test]
    fn a_list_replaces_what_was_watched_once_it_is_complete() {
        let mut held = HeldMaps::default();
        for event in [Event::Init, Event::InitApply(map("a", 1)), Event::InitDone, Event::Apply(map("b", 1))]
        {
            held.apply(&event);
        }
        assert_eq!(names(&held).unwrap(), ["a", "b"]);
        held.apply(&Event::Delete(map("a", 1)));
        for event in [Event::Init, Event::InitApply(map("c", 1))] {
            held.apply(&event);
        }
        assert_eq!(names(&held).unwrap(), ["b"]);
        held.apply(&Event::InitDone);
        assert_eq!(names(&held).unwrap(), ["c"]);
        let shown = held.all().unwrap().next().unwrap();
        assert_eq!((&shown["apiVersion"], &shown["kind"]), (&json!("v1"), &json!("ConfigMap")));
        assert_eq!(shown["metadata"].get("managedFields"), None);
    }

    #[test]
    fn config_maps_that_do_not_fit_make_the_reference_unusable() {
        for (number, size) in [(1, LARGEST), (5, 1024 * 1024), (MOST_MAPS + 1, 1)] {
            let mut held = HeldMaps::default();
            held.apply(&Event::Init);
            (0..number).for_each(|index| held.apply(&Event::InitApply(map(&format!("m{index}"), size))));
            held.apply(&Event::InitDone);
            assert!(held.all().err().is_some_and(|why| why.contains("256 ConfigMaps")), "{number} of {size}");
        }
        let mut held = HeldMaps::default();
        (0..5).for_each(|_| held.apply(&Event::Apply(map("same", 1024 * 1024))));
        assert_eq!(names(&held).unwrap(), ["same"], "a new version takes no additional room");
        held.apply(&Event::Apply(map("large", LARGEST)));
        assert!(names(&held).is_none());
        held.apply(&Event::Apply(map("large", 1)));
        assert_eq!(names(&held).unwrap(), ["large", "same"]);
    }
}
