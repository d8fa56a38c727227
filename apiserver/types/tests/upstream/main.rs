//! Comparison of every published schema with the CustomResourceDefinitions that upstream publishes.
//!
//! The definitions are not part of this repository. The test reads them from the folder in `CAPSTAN_UPSTREAM`, or
//! from `../shared/upstream` beside the checkout, and is skipped if there is none; in CI (`CI` is set) that is an
//! error. Descriptions differ on purpose: ours are our own.
//!
//! `differences.txt` lists the differences that are meant: `<group>/<version>/<Kind> <path> <keyword> <reason>`. The
//! test fails for a difference without a line and for a line without a difference, so the list only shrinks.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod compare;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use apiserver_types::{DESCRIPTORS, Descriptor};
use serde_json::Value;

/// The folder of the CRDs, if there is one.
fn folder() -> Option<PathBuf> {
    // Read when the test runs: a build directory may be shared with another checkout.
    let manifest = PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR").unwrap());
    let root = std::env::var_os("CAPSTAN_UPSTREAM")
        .map_or_else(|| manifest.join("../../../shared/upstream"), PathBuf::from);
    let found = Some(root.join("crds")).filter(|crds| crds.is_dir());
    assert!(found.is_some() || std::env::var_os("CI").is_none(), "no CRDs in {}", root.display());
    found
}

fn definitions(folder: &Path) -> Vec<Value> {
    let mut files: Vec<PathBuf> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files.iter().map(|file| serde_saphyr::from_str(&fs::read_to_string(file).unwrap()).unwrap()).collect()
}

fn name(descriptor: &Descriptor) -> String {
    format!("{}/{}/{}", descriptor.group, descriptor.version, descriptor.kind)
}

/// One version of a definition that the server serves.
struct Served<'a> {
    descriptor: &'a Descriptor,
    definition: &'a Value,
    version: &'a Value,
}

fn served(definitions: &[Value]) -> Vec<Served<'_>> {
    let mut found = Vec::new();
    for definition in definitions {
        for version in definition["spec"]["versions"].as_array().unwrap() {
            let is_same = |known: &&Descriptor| {
                definition["spec"]["group"] == known.group
                    && definition["spec"]["names"]["kind"] == known.kind
                    && version["name"] == known.version
            };
            let descriptor = DESCRIPTORS.iter().find(is_same);
            assert_eq!(
                descriptor.is_some(),
                version["served"] == true,
                "{} {}",
                definition["metadata"]["name"],
                version["name"]
            );
            found.extend(descriptor.map(|descriptor| Served { descriptor, definition, version }));
        }
    }
    found
}

#[test]
fn every_schema_matches_upstream() {
    let Some(folder) = folder() else { return };
    let list = include_str!("differences.txt").lines().filter(|line| !line.is_empty());
    let mut meant: BTreeSet<String> = BTreeSet::new();
    for line in list {
        let words: Vec<&str> = line.splitn(4, ' ').collect();
        assert!(words.len() == 4 && !words[3].is_empty(), "no reason: {line}");
        meant.insert(words[..3].join(" "));
    }
    let mut found = Vec::new();
    for Served { descriptor, definition, version } in served(&definitions(&folder)) {
        let kind = name(descriptor);
        let mut differences = compare::schemas(
            &apiserver_types::schema(descriptor).unwrap(),
            &version["schema"]["openAPIV3Schema"],
        );
        differences.extend(compare::descriptors(descriptor, &definition["spec"], version));
        for difference in differences {
            if !meant.remove(&format!("{kind} {} {}", difference.path, difference.keyword)) {
                found.push(format!("{kind} {difference}"));
            }
        }
    }
    found.extend(meant.iter().map(|line| format!("{line}: no difference any more")));
    assert!(found.is_empty(), "{} differences:\n{}", found.len(), found.join("\n"));
}

/// The texts are upstream's work, so ours are written anew.
#[test]
fn no_column_description_is_copied_from_upstream() {
    let Some(folder) = folder() else { return };
    for Served { descriptor, version, .. } in served(&definitions(&folder)) {
        for column in version["additionalPrinterColumns"].as_array().into_iter().flatten() {
            let theirs = column["description"].as_str().unwrap_or_default().trim_end_matches('.');
            let is_copy = |own: &&str| own.trim_end_matches('.').eq_ignore_ascii_case(theirs);
            let copy = descriptor.columns.iter().map(|own| own.description).find(is_copy);
            assert_eq!(copy, None, "{}", name(descriptor));
        }
    }
}

#[test]
fn every_kind_of_upstreams_groups_is_compared() {
    let Some(folder) = folder() else { return };
    let definitions = definitions(&folder);
    let compared: BTreeSet<String> = served(&definitions).iter().map(|one| name(one.descriptor)).collect();
    let ours = DESCRIPTORS.iter().filter(|descriptor| descriptor.group.ends_with("cluster.x-k8s.io"));
    assert_eq!(compared, ours.map(name).collect());
}
