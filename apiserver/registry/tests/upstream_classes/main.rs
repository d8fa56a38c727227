//! Tests with the ClusterClasses that upstream publishes: each is admitted, and its patches change the templates as the
//! golden says.
//!
//! The classes are not part of this repository. The tests read them from the folder in `CAPSTAN_UPSTREAM`, or from
//! `../shared/upstream` beside the checkout, and are skipped if there is none; in CI (`CI` is set) that is an error.
//!
//! A line of `goldens.txt` is one changed field: file, set of variables, template, JSON pointer and value. A long value
//! is its length and its hash. With `CAPSTAN_WRITE_GOLDENS=1` the test writes the golden.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod manifest;
mod recorded;
#[path = "../server/mod.rs"]
mod server;
mod sets;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use apiserver_types::{Cluster, ClusterClass};
use aws_lc_rs::digest::{SHA256, digest};
use controllers_topology::{builtins, patches, variables};
use serde_json::{Value, json};

use manifest::Manifest;
use server::Server;

/// Folders of classes.
const FOLDERS: [&str; 3] = ["capo", "capi", "capi-openstack"];

/// Longest value that a golden contains as it is.
const LONGEST: usize = 32;

/// Returns the folder of upstream's data, if there is one.
fn folder(path: &str) -> Option<PathBuf> {
    // Read when the test runs: a build directory may be shared with another checkout.
    let manifest = PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR").unwrap());
    let root = std::env::var_os("CAPSTAN_UPSTREAM")
        .map_or_else(|| manifest.join("../../../shared/upstream"), PathBuf::from);
    let found = Some(root.join(path)).filter(|folder| folder.is_dir());
    assert!(found.is_some() || std::env::var_os("CI").is_none(), "no {path} in {}", root.display());
    found
}

/// Returns the manifests of classes, with their names.
fn classes(root: &Path) -> Vec<(String, Manifest)> {
    let mut found = Vec::new();
    for folder in FOLDERS {
        for entry in fs::read_dir(root.join(folder)).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_stem().unwrap().to_string_lossy().into_owned();
            if let Some(class) = name.strip_prefix("clusterclass-") {
                found.push((format!("{folder}/{class}"), Manifest::read(&path)));
            }
        }
    }
    found.sort_by(|(one, _), (other, _)| one.cmp(other));
    found
}

/// Returns the fields of a value that have no fields themselves, by their JSON pointers.
fn leaves(value: &Value, at: &str, found: &mut BTreeMap<String, String>) {
    match value {
        Value::Object(fields) if !fields.is_empty() => {
            for (name, field) in fields {
                leaves(field, &format!("{at}/{}", name.replace('~', "~0").replace('/', "~1")), found);
            }
        }
        Value::Array(items) if !items.is_empty() => {
            for (index, item) in items.iter().enumerate() {
                leaves(item, &format!("{at}/{index}"), found);
            }
        }
        leaf => {
            found.insert(at.to_owned(), leaf.to_string());
        }
    }
}

/// Returns a value as a golden shows it.
fn shown(value: &str) -> String {
    if value.chars().count() <= LONGEST {
        return value.to_owned();
    }
    let hash = digest(&SHA256, value.as_bytes());
    let hash: String = hash.as_ref().iter().take(8).map(|byte| format!("{byte:02x}")).collect();
    format!("{} bytes, SHA-256 {hash}", value.len())
}

/// Returns the fields in which two templates differ, one per line.
fn changes(before: &Value, after: &Value) -> Vec<String> {
    let (mut old, mut new) = (BTreeMap::new(), BTreeMap::new());
    leaves(before, "", &mut old);
    leaves(after, "", &mut new);
    let removed = old.keys().filter(|at| !new.contains_key(*at)).map(|at| format!("{at} removed"));
    let set = new.iter().filter(|(at, value)| old.get(*at) != Some(value));
    let mut lines: Vec<String> =
        set.map(|(at, value)| format!("{at} {}", shown(value))).chain(removed).collect();
    lines.sort();
    lines
}

/// Returns a Cluster of a class, with one group of each class of workers, as the server defaults it.
async fn cluster(server: &Server, class: &ClusterClass, set: &sets::Set) -> Cluster {
    let workers = class.spec.workers.clone().unwrap_or_default();
    let deployments = workers.machine_deployments.unwrap_or_default();
    let pools = workers.machine_pools.unwrap_or_default();
    let overrides = json!({"overrides": set.overrides});
    let group = |class: &str, name: &str| match set.overrides.is_empty() {
        true => json!({"class": class, "name": name}),
        false => json!({"class": class, "name": name, "variables": overrides}),
    };
    let mut topology = json!({
        "classRef": {"name": class.metadata.name}, "version": "v1.33.0",
        "controlPlane": {"replicas": 3},
    });
    if !set.variables.is_empty() {
        topology["variables"] = json!(set.variables);
    }
    let groups = [
        ("machineDeployments", deployments.iter().map(|it| group(&it.class, "md-0")).collect::<Vec<_>>()),
        ("machinePools", pools.iter().map(|it| group(&it.class, "mp-0")).collect()),
    ];
    for (list, groups) in groups.into_iter().filter(|(_, groups)| !groups.is_empty()) {
        topology["workers"][list] = json!(groups);
    }
    let cluster = json!({
        "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster", "metadata": {"name": "blue"},
        "spec": {"topology": topology},
    });
    let path = "/apis/cluster.x-k8s.io/v1beta2/namespaces/ns/clusters?dryRun=All";
    let (code, made) = server.admin("POST", path, &cluster).await;
    assert_eq!(code, 201, "{}: {}", set.name, made["message"]);
    serde_json::from_value(made).unwrap()
}

/// Returns the changes that the patches of a class make, one per line.
fn rendered(class: &ClusterClass, cluster: &Cluster, manifest: &Manifest) -> Vec<String> {
    let items = manifest.items(class, cluster);
    let before = items.clone();
    let topology = cluster.spec.topology.as_ref().unwrap();
    let values = variables::by_name(topology.variables.as_deref());
    match patches::apply_definitions(class, &values, &builtins::cluster(cluster), items) {
        Err(error) => vec![format!("error: {error}")],
        Ok(after) => {
            let all = before.iter().zip(&after).flat_map(|(before, after)| {
                let changes = changes(&before.template, &after.template).into_iter();
                changes.map(|change| format!("{}: {change}", after.place)).collect::<Vec<_>>()
            });
            all.collect()
        }
    }
}

#[tokio::test]
async fn classes_of_upstream_are_admitted_and_their_patches_render_as_recorded() {
    let Some(root) = folder("templates/ready") else { return };
    let mut lines = Vec::new();
    for (name, manifest) in classes(&root) {
        let server = Server::start().await;
        let class = manifest.of_kind("ClusterClass").remove(0);
        let path = format!("/apis/{}/namespaces/ns/clusterclasses", class["apiVersion"].as_str().unwrap());
        let (code, made) = server.admin("POST", &path, class).await;
        assert_eq!(code, 201, "{name}: {}", made["message"]);
        let path = "/apis/cluster.x-k8s.io/v1beta2/namespaces/ns/clusterclasses";
        let path = format!("{path}/{}", made["metadata"]["name"].as_str().unwrap());
        let class: ClusterClass =
            serde_json::from_value(server.admin("GET", &path, &Value::Null).await.1).unwrap();
        for set in sets::of(&class) {
            let cluster = cluster(&server, &class, &set).await;
            let found = rendered(&class, &cluster, &manifest);
            lines.extend(found.into_iter().map(|line| format!("{name} {}: {line}\n", set.name)));
        }
    }
    compare(&lines);
}

/// Compares the lines with the golden.
fn compare(lines: &[String]) {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/upstream_classes/goldens.txt");
    if std::env::var("CAPSTAN_WRITE_GOLDENS").is_ok() {
        fs::write(&golden, lines.concat()).unwrap();
    }
    let expected = fs::read_to_string(&golden).unwrap_or_default();
    let expected: Vec<&str> = expected.split_inclusive('\n').collect();
    let missing: String =
        expected.iter().filter(|line| !lines.iter().any(|it| it == *line)).copied().collect();
    let added: String = lines.iter().filter(|line| !expected.contains(&line.as_str())).cloned().collect();
    assert!(lines == expected, "{}\nnot rendered:\n{missing}\nnot in the golden:\n{added}", golden.display());
}
