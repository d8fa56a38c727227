//! Tests of the bundles in `manifests/addons`: every manifest can be parsed, and every set finds its resources.

use std::collections::BTreeSet;
use std::path::PathBuf;

use apiserver_types::ClusterResourceSet;
use kube::ResourceExt;
use serde_json::Value;

use super::manifests;
use crate::selectors;

/// Bundles, and the number of sets in each: one per minor, or one for all.
const BUNDLES: [(&str, usize); 3] = [("openstack-ccm", 4), ("cinder-csi", 4), ("flannel", 1)];

fn folder(bundle: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../manifests/addons").join(bundle)
}

fn read(bundle: &str, file: &str) -> String {
    std::fs::read_to_string(folder(bundle).join(file)).unwrap()
}

fn texts(value: &Value) -> impl Iterator<Item = &str> {
    value.as_array().into_iter().flatten().filter_map(Value::as_str)
}

/// Returns the ConfigMaps of a bundle with their files, and its sets.
fn bundle(name: &str) -> (Vec<(String, Vec<String>)>, Vec<ClusterResourceSet>) {
    let kustomization: Value = serde_saphyr::from_str(&read(name, "kustomization.yaml")).unwrap();
    let maps = kustomization["configMapGenerator"].as_array().unwrap().iter().map(|map| {
        (map["name"].as_str().unwrap().to_owned(), texts(&map["files"]).map(str::to_owned).collect())
    });
    let sets =
        texts(&kustomization["resources"]).map(|file| serde_saphyr::from_str(&read(name, file)).unwrap());
    (maps.collect(), sets.collect())
}

/// Returns the images in a tree.
fn images(value: &Value, found: &mut BTreeSet<String>) {
    match value {
        Value::Object(fields) => {
            found.extend(fields.get("image").and_then(Value::as_str).map(str::to_owned));
            fields.values().for_each(|value| images(value, found));
        }
        Value::Array(items) => items.iter().for_each(|item| images(item, found)),
        _ => {}
    }
}

#[test]
fn every_manifest_of_a_bundle_can_be_parsed_and_its_images_are_pinned() {
    for (name, _) in BUNDLES {
        for (map, files) in bundle(name).0 {
            for file in files {
                let objects = manifests::parse(&file, &read(name, &file)).unwrap();
                assert!(!objects.is_empty(), "{name}/{file}");
                let mut found = BTreeSet::new();
                objects.iter().for_each(|object| images(&object.data, &mut found));
                for image in &found {
                    let tag = image.rsplit_once(':').map_or("", |(_, tag)| tag);
                    let is_pinned = tag.starts_with('v') && tag.matches('.').count() >= 2;
                    assert!(is_pinned, "{map}: image {image} has no exact version");
                }
                // A file of a minor has the program of that minor.
                if let Some(minor) = file.rsplit_once('-').and_then(|(_, minor)| minor.strip_suffix(".yaml"))
                {
                    let mut own = found.iter().filter(|image| image.contains("/provider-os/"));
                    assert!(own.all(|image| image.contains(&format!(":v{minor}."))), "{file}: {found:?}");
                }
            }
        }
    }
}

#[test]
fn every_set_of_a_bundle_names_its_config_maps_and_selects_by_labels() {
    for (name, count) in BUNDLES {
        let (maps, sets) = bundle(name);
        assert_eq!(sets.len(), count, "{name}");
        let maps: BTreeSet<String> = maps.into_iter().map(|(map, _)| map).collect();
        let named = sets.iter().flat_map(|set| &set.spec.resources).map(|it| it.name.clone()).collect();
        assert_eq!(maps, named, "{name}: each ConfigMap is in a set, and each set has its ConfigMaps");
        for set in sets {
            let labels = set.spec.cluster_selector.match_labels.clone().unwrap_or_default();
            assert!(selectors::selects(&set.spec.cluster_selector, &labels));
            let minor = labels.get("capstan.dev/kubernetes");
            assert!(minor.is_none_or(|minor| set.name_any().ends_with(&format!("-{minor}"))), "{labels:?}");
        }
    }
}
