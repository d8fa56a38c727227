//! Tests of the bundles in `manifests/addons`: sets, versions of images, privileges and alerts.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::{prerequisites, run};

/// Minors of Kubernetes that the bundles are for.
const MINORS: [&str; 4] = ["1.33", "1.34", "1.35", "1.36"];

/// Label of a Cluster with its minor.
const MINOR: &str = "capstan.dev/kubernetes";

/// Returns the folders of the bundles.
fn bundles() -> Vec<PathBuf> {
    let folders = std::fs::read_dir(run::root().unwrap().join("manifests/addons")).unwrap();
    let mut folders: Vec<PathBuf> = folders.map(|entry| entry.unwrap().path()).collect();
    folders.sort();
    assert!(folders.len() >= 8, "{folders:?}");
    folders
}

fn documents(path: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(path).unwrap();
    serde_saphyr::from_multiple(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn texts(value: &Value) -> Vec<String> {
    value.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
}

/// Bundle as its kustomization has it.
struct Bundle {
    folder: PathBuf,
    /// ConfigMaps with their files.
    maps: BTreeMap<String, Vec<String>>,
    sets: Vec<Value>,
}

impl Bundle {
    fn read(folder: PathBuf) -> Self {
        let kustomization = documents(&folder.join("kustomization.yaml")).remove(0);
        let generated = kustomization["configMapGenerator"].as_array().unwrap().iter();
        let maps = generated.map(|map| (map["name"].as_str().unwrap().to_owned(), texts(&map["files"])));
        let sets = texts(&kustomization["resources"]).into_iter();
        let sets = sets.map(|file| documents(&folder.join(file)).remove(0)).collect();
        Self { maps: maps.collect(), sets, folder }
    }

    fn objects(&self) -> Vec<Value> {
        self.maps.values().flatten().flat_map(|file| documents(&self.folder.join(file))).collect()
    }

    /// Returns the containers with their Pods' settings.
    fn containers(&self) -> Vec<Value> {
        let mut found = Vec::new();
        for object in self.objects() {
            for field in ["initContainers", "containers"] {
                let list = &object["spec"]["template"]["spec"][field];
                found.extend(list.as_array().into_iter().flatten().cloned());
            }
        }
        found
    }
}

#[test]
fn each_add_on_is_named_by_a_label_that_the_docs_have_for_each_minor() {
    let docs = std::fs::read_to_string(run::root().unwrap().join("docs/add-ons.md")).unwrap();
    for bundle in bundles().into_iter().map(Bundle::read) {
        let shown = bundle.folder.display();
        let (mut used, mut minors) = (BTreeSet::new(), BTreeSet::new());
        for set in &bundle.sets {
            let spec = &set["spec"];
            assert_eq!(
                (set["kind"].as_str(), spec["strategy"].as_str()),
                (Some("ClusterResourceSet"), Some("Reconcile"))
            );
            let mut labels = spec["clusterSelector"]["matchLabels"].as_object().unwrap().clone();
            match labels.remove(MINOR) {
                Some(minor) => {
                    assert!(minors.insert(minor.as_str().unwrap().to_owned()), "{shown}: {minor} twice")
                }
                None => minors.extend(MINORS.map(str::to_owned)),
            }
            let (key, value) = labels.iter().next().unwrap();
            assert_eq!(labels.len(), 1, "{shown}");
            let row = format!("| `{key}` | `{}` |", value.as_str().unwrap());
            assert!(docs.contains(&row), "docs/add-ons.md has no row {row}");
            let resources = spec["resources"].as_array().unwrap().iter();
            used.extend(resources.map(|it| it["name"].as_str().unwrap().to_owned()));
        }
        assert_eq!(minors, BTreeSet::from(MINORS.map(str::to_owned)), "{shown}");
        assert_eq!(
            used,
            bundle.maps.keys().cloned().collect::<BTreeSet<String>>(),
            "{shown}: ConfigMaps of the sets"
        );
    }
}

#[test]
fn each_image_of_an_add_on_has_a_registry_and_a_version() {
    for bundle in bundles().into_iter().map(Bundle::read) {
        for container in bundle.containers() {
            let image = container["image"].as_str().unwrap();
            let (name, tag) = image.rsplit_once(':').unwrap_or_else(|| panic!("{image} has no tag"));
            let host = name.split('/').next().unwrap();
            assert!(host.contains('.'), "{image} has no registry");
            let version: Vec<&str> = tag.strip_prefix('v').unwrap_or_default().splitn(3, '.').collect();
            let is_number = |text: &&str| text.starts_with(|first: char| first.is_ascii_digit());
            assert!(version.len() == 3 && version.iter().all(is_number), "{image} has no version");
        }
    }
}

#[test]
fn each_container_of_an_add_on_is_privileged_by_intention_or_drops_capabilities() {
    for bundle in bundles().into_iter().map(Bundle::read) {
        // Its manifest is older than this rule. Its containers run as upstream's do.
        if bundle.folder.ends_with("flannel") {
            continue;
        }
        for container in bundle.containers() {
            let context = &container["securityContext"];
            let drops = texts(&context["capabilities"]["drop"]).contains(&"ALL".to_owned());
            let is_privileged = context["privileged"] == true;
            assert!(drops != is_privileged, "{}: {}", bundle.folder.display(), container["name"]);
        }
    }
}

#[test]
fn the_identities_of_an_add_on_exist_in_the_bundle() {
    for bundle in bundles().into_iter().map(Bundle::read) {
        let objects = bundle.objects();
        let named = |kind: &str| {
            let of_kind = objects.iter().filter(|it| it["kind"] == kind);
            let key = |it: &Value| {
                format!(
                    "{}/{}",
                    it["metadata"]["namespace"].as_str().unwrap_or_default(),
                    it["metadata"]["name"].as_str().unwrap()
                )
            };
            of_kind.map(key).collect::<BTreeSet<String>>()
        };
        let accounts = named("ServiceAccount");
        let mut bound = BTreeSet::new();
        for binding in
            objects.iter().filter(|it| it["kind"].as_str().unwrap_or_default().ends_with("RoleBinding"))
        {
            for subject in binding["subjects"].as_array().unwrap() {
                bound.insert(format!(
                    "{}/{}",
                    subject["namespace"].as_str().unwrap(),
                    subject["name"].as_str().unwrap()
                ));
            }
            let role = binding["roleRef"]["name"].as_str().unwrap();
            let is_system = role.starts_with("system:auth-") || role.starts_with("extension-apiserver-");
            let of_cluster = named("ClusterRole").contains(&format!("/{role}"));
            let of_namespace = named("Role").iter().any(|name| name.ends_with(&format!("/{role}")));
            assert!(is_system || of_cluster || of_namespace, "{}: {role}", bundle.folder.display());
        }
        assert_eq!(bound, accounts, "{}", bundle.folder.display());
        for object in &objects {
            let template = &object["spec"]["template"]["spec"];
            if let Some(account) = template["serviceAccountName"].as_str() {
                let namespace = object["metadata"]["namespace"].as_str().unwrap();
                assert!(accounts.contains(&format!("{namespace}/{account}")), "{namespace}/{account}");
            }
        }
    }
}

#[test]
fn each_monitor_selects_a_port_of_an_add_on() {
    let all: Vec<Bundle> = bundles().into_iter().map(Bundle::read).collect();
    let objects: Vec<Value> = all.iter().flat_map(Bundle::objects).collect();
    let monitors = objects.iter().filter(|it| it["kind"].as_str().unwrap_or_default().ends_with("Monitor"));
    let mut count = 0;
    for monitor in monitors {
        let spec = &monitor["spec"];
        let selected = spec["selector"]["matchLabels"].as_object().unwrap();
        let is_of_pods = monitor["kind"] == "PodMonitor";
        let endpoints = if is_of_pods { "podMetricsEndpoints" } else { "endpoints" };
        let port = spec[endpoints][0]["port"].as_str().unwrap();
        let is_match = |object: &&Value| {
            let (labels, ports) = match is_of_pods {
                true => {
                    let template = &object["spec"]["template"];
                    (&template["metadata"]["labels"], &template["spec"]["containers"][0]["ports"])
                }
                false if object["kind"] == "Service" => {
                    (&object["metadata"]["labels"], &object["spec"]["ports"])
                }
                false => return false,
            };
            let is_selected = selected.iter().all(|(key, value)| labels[key] == *value);
            is_selected && ports.as_array().into_iter().flatten().any(|it| it["name"] == port)
        };
        assert!(objects.iter().any(|object| is_match(&object)), "{}", monitor["metadata"]["name"]);
        count += 1;
    }
    assert!(count > 5, "{count}");
}

#[test]
fn each_alert_about_add_ons_fires_in_its_case_and_none_about_healthy_ones() {
    let folder = run::root().unwrap().join("manifests/addons/monitoring");
    let rules = documents(&folder.join("rules.yaml")).remove(0);
    let tests = std::fs::read_to_string(folder.join("tests.yaml")).unwrap();
    let alerts = rules["spec"]["groups"][0]["rules"].as_array().unwrap();
    for alert in alerts {
        let name = alert["alert"].as_str().unwrap();
        assert!(tests.contains(&format!("- name: {name}\n")), "{name} has no case");
    }
    let home = std::env::temp_dir().join(format!("capstan-add-ons-{}", std::process::id()));
    std::fs::create_dir_all(&home).unwrap();
    std::fs::write(home.join("rules.json"), rules["spec"].to_string()).unwrap();
    std::fs::write(home.join("tests.yaml"), tests).unwrap();
    let mut command = Command::new(prerequisites::promtool().unwrap());
    let output = command.args(["test", "rules", "tests.yaml"]).current_dir(&home).output().unwrap();
    std::fs::remove_dir_all(home).unwrap();
    let text = [output.stdout, output.stderr].concat();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&text));
}
