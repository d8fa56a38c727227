//! Comparison of every kind of Cluster API in every version with facts of its CRD: names, columns, subresources, and
//! for each field its type, requiredness, bounds, default, enum values, pattern, list type and rules.
//!
//! `tests/crds/<group>/<Kind>.<version>.txt` has the facts of one CRD's version, one per line; [`facts`] writes ours in
//! the same form. Intended differences are in `tests/crds/<group>/differences.txt`: `<Kind>.<version> <path> <reason>`.
//! A path covers everything below it.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod facts;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use apiserver_types::{DESCRIPTORS, Descriptor};

/// Read when the test runs: a build directory may be shared with another checkout.
fn folder() -> PathBuf {
    Path::new(&std::env::var_os("CARGO_MANIFEST_DIR").unwrap()).join("tests/crds")
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect()
}

/// Intended difference.
struct Intended {
    kind: String,
    path: String,
}

impl Intended {
    fn covers(&self, kind: &str, fact: &str) -> bool {
        let path = fact.split(' ').next().unwrap_or_default();
        let rest = path.strip_prefix(self.path.as_str());
        self.kind == kind && rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[', '{']))
    }
}

fn intended(group: &Path) -> Vec<Intended> {
    let text = fs::read_to_string(group.join("differences.txt")).unwrap_or_default();
    let lines = text.lines().filter(|line| !line.trim().is_empty());
    lines
        .map(|line| {
            let mut words = line.splitn(3, ' ').map(str::to_owned);
            let (kind, path) = (words.next().unwrap(), words.next().unwrap());
            assert!(words.next().is_some_and(|reason| !reason.is_empty()), "no reason: {line}");
            Intended { kind, path }
        })
        .collect()
}

/// Returns the facts that only one side has, with the side.
fn differences(descriptor: &Descriptor, list: &str) -> Vec<(String, &'static str)> {
    let ours: BTreeSet<String> = facts::of(descriptor).into_iter().collect();
    let theirs: BTreeSet<String> = list.lines().map(str::to_owned).collect();
    let missing = theirs.difference(&ours).map(|fact| (fact.clone(), "the CRD has"));
    let mut all: Vec<_> =
        missing.chain(ours.difference(&theirs).map(|fact| (fact.clone(), "we have"))).collect();
    all.sort();
    all
}

#[test]
fn every_kind_matches_its_crd() {
    let mut found = Vec::new();
    for group in entries(&folder()).into_iter().filter(|path| path.is_dir()) {
        let intended = intended(&group);
        let mut used = BTreeSet::new();
        for path in entries(&group) {
            let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
            let Some((kind, version)) = name.split_once('.') else { continue };
            let descriptor = DESCRIPTORS
                .iter()
                .find(|known| (known.kind, known.version) == (kind, version) && group.ends_with(known.group));
            let Some(descriptor) = descriptor else {
                found.push(format!("{name}: not served"));
                continue;
            };
            for (fact, who) in differences(descriptor, &fs::read_to_string(&path).unwrap()) {
                match intended.iter().position(|known| known.covers(&name, &fact)) {
                    Some(index) => drop(used.insert(index)),
                    None => found.push(format!("{name}: {who} {fact}")),
                }
            }
        }
        let unused = intended.iter().enumerate().filter(|(index, _)| !used.contains(index));
        found.extend(
            unused.map(|(_, known)| format!("{} {}: no difference any more", known.kind, known.path)),
        );
    }
    assert!(found.is_empty(), "{} differences:\n{}", found.len(), found.join("\n"));
}

#[test]
fn every_kind_of_a_listed_group_has_a_list() {
    let listed = DESCRIPTORS.iter().filter(|descriptor| folder().join(descriptor.group).is_dir());
    let missing: Vec<String> = listed
        .filter(|descriptor| !descriptor.group.is_empty())
        .map(|descriptor| format!("{}/{}.{}.txt", descriptor.group, descriptor.kind, descriptor.version))
        .filter(|name| !folder().join(name).exists())
        .collect();
    assert_eq!(missing, Vec::<String>::new());
}
