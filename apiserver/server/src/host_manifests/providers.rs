//! Local repository of clusterctl: the objects of a host cluster, as the components of the providers that Capstan replaces.
//!
//! clusterctl creates the kind of its inventory and the objects in it. So the components leave them out, and the host
//! serves them from clusterctl's own CRD.

use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};
use apiserver_registry::{PROVIDERS, Provider, provider_of};
use serde_json::{Value, json};

use super::documents;
use crate::output;

/// Contract of Cluster API that the kinds follow.
const CONTRACT: &str = "v1beta2";

/// Configuration of clusterctl in the repository.
const CONFIGURATION: &str = "clusterctl.yaml";

/// Characters that a path must not have: clusterctl reads it as a URL, and replaces variables in it.
const SPECIAL: [char; 4] = ['#', '$', '%', '?'];

/// Returns true if the group is that of clusterctl's inventory.
pub(super) fn is_inventory(group: &str) -> bool {
    provider_of(group).is_none()
}

/// Writes the repository, and prints how to use it.
///
/// # Errors
/// A directory that cannot be written, or whose path clusterctl cannot read.
pub(super) fn write(directory: &Path, objects: &[Value]) -> anyhow::Result<()> {
    let root = std::path::absolute(directory)?;
    let root = root.to_str().context("the path of --providers is no text")?;
    ensure!(!root.contains(SPECIAL), "clusterctl cannot read the path {root}: it has one of {SPECIAL:?}");
    for (path, text) in files(root, objects)? {
        let path = Path::new(root).join(path);
        let folder = path.parent().unwrap_or(&path);
        std::fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
        std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
    }
    let text = format!(
        "{root} is a local repository of clusterctl. To install Capstan's providers in a host cluster without Cluster API:\n  \
         clusterctl init --config {root}/{CONFIGURATION} --infrastructure openstack\n"
    );
    Ok(output::print(&text)?)
}

/// Returns the files, with their paths below the directory `root`.
fn files(root: &str, objects: &[Value]) -> anyhow::Result<Vec<(PathBuf, String)>> {
    let mut files = Vec::new();
    let mut entries = Vec::new();
    for provider in PROVIDERS {
        let folder = format!("{}/{}", provider.label, provider.version);
        let components = documents(&components(provider, objects))?;
        let names = names(provider);
        files
            .extend(names.iter().map(|name| (PathBuf::from(format!("{folder}/{name}")), components.clone())));
        let metadata = serde_saphyr::to_string(&metadata(provider.version)?)?;
        files.push((PathBuf::from(format!("{folder}/metadata.yaml")), metadata));
        let url = names.first().map(|name| format!("{root}/{folder}/{name}"));
        entries.push(json!({"name": provider.name, "type": provider.kind, "url": url}));
    }
    let configuration = serde_saphyr::to_string(&json!({"providers": entries}))?;
    let configuration = format!(
        "# Configuration of clusterctl, written by `capstan host manifests --providers`.\n{configuration}"
    );
    files.push((PathBuf::from(CONFIGURATION), configuration));
    Ok(files)
}

/// Returns the names of a provider's components. The Cluster API operator has another name for the control plane.
fn names(provider: Provider) -> &'static [&'static str] {
    match provider.kind {
        "CoreProvider" => &["core-components.yaml"],
        "BootstrapProvider" => &["bootstrap-components.yaml"],
        "ControlPlaneProvider" => &["control-plane-components.yaml", "controlplane-components.yaml"],
        _ => &["infrastructure-components.yaml"],
    }
}

/// Returns the contract of a version. clusterctl refuses versions of other series, so that it does not upgrade an upstream
/// provider to this one.
fn metadata(version: &str) -> anyhow::Result<Value> {
    let numbers = version.trim_start_matches('v').split('.').map(str::parse::<u32>);
    let numbers: Vec<u32> =
        numbers.collect::<Result<_, _>>().with_context(|| format!("version {version}"))?;
    Ok(json!({"apiVersion": "clusterctl.cluster.x-k8s.io/v1alpha3", "kind": "Metadata",
        "releaseSeries": [{"major": numbers.first(), "minor": numbers.get(1), "contract": CONTRACT}]}))
}

/// Returns the objects of a provider, with the labels that clusterctl sets: they are the same if kubectl applies the file.
fn components(provider: Provider, objects: &[Value]) -> Vec<Value> {
    let mut components: Vec<Value> =
        objects.iter().filter(|object| belongs(object, provider)).cloned().collect();
    for object in &mut components {
        let labels = &mut object["metadata"]["labels"];
        labels["clusterctl.cluster.x-k8s.io"] = json!("");
        labels["cluster.x-k8s.io/provider"] = json!(provider.label);
    }
    components
}

/// Reports whether an object is one of a provider's. Each provider has the Namespace: clusterctl requires one.
fn belongs(object: &Value, provider: Provider) -> bool {
    match object["kind"].as_str() {
        Some("Namespace") => true,
        Some("CustomResourceDefinition" | "APIService") => {
            let group = object.pointer("/spec/group").and_then(Value::as_str).unwrap_or_default();
            provider_of(group).is_some_and(|of_group| of_group.label == provider.label)
        }
        _ => provider.kind == "CoreProvider",
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::host_manifests::tests::options;

    /// Returns the objects for clusterctl.
    fn objects() -> Vec<Value> {
        let registry = apiserver_registry::registry();
        let options = apiserver_host::Options { one_namespace: true, ..options(&registry) };
        apiserver_host::manifests(&registry, &options)
    }

    fn identity(object: &Value) -> String {
        format!("{} {}", object["kind"], object["metadata"]["name"])
    }

    #[test]
    fn each_object_belongs_to_one_provider_and_the_inventory_to_none() {
        let objects = objects();
        let mut counts: BTreeMap<String, usize> = BTreeMap::new();
        for provider in PROVIDERS {
            for object in components(provider, &objects) {
                assert_eq!(object["metadata"]["labels"]["cluster.x-k8s.io/provider"], provider.label);
                *counts.entry(identity(&object)).or_default() += 1;
            }
        }
        for object in &objects {
            let is_of_inventory =
                object.pointer("/spec/group") == Some(&json!("clusterctl.cluster.x-k8s.io"));
            let expected = match object["kind"].as_str() {
                Some("Namespace") => PROVIDERS.len(),
                _ => usize::from(!is_of_inventory),
            };
            assert_eq!(counts.remove(&identity(object)).unwrap_or_default(), expected, "{object}");
        }
        assert!(counts.is_empty(), "{counts:?}");
    }

    /// clusterctl sets this label on the CRDs, so a CRD in the components of another provider would be found as a kind of
    /// that provider.
    #[test]
    fn a_definition_keeps_the_label_of_its_provider() {
        let objects = objects();
        let label = |object: &Value| object["metadata"]["labels"]["cluster.x-k8s.io/provider"].clone();
        let labelled =
            objects.iter().filter(|it| it["kind"] == "CustomResourceDefinition" && label(it).is_string());
        for before in labelled {
            let of = |provider| {
                components(provider, &objects).into_iter().find(|it| identity(it) == identity(before))
            };
            let after = PROVIDERS.into_iter().find_map(of).unwrap();
            assert_eq!(after, *before);
        }
    }

    /// clusterctl moves all objects into one namespace, and replaces variables.
    #[test]
    fn the_components_have_one_namespace_and_no_variables() {
        let objects = objects();
        let namespaces = objects.iter().filter_map(|it| it.pointer("/metadata/namespace"));
        assert!(namespaces.into_iter().all(|it| it == "capstan-system"));
        assert!(objects.iter().all(|it| it["kind"] != "RoleBinding"));
        for (path, text) in files("/srv/capstan", &objects).unwrap() {
            assert!(!text.contains('$'), "{}", path.display());
        }
    }

    #[test]
    fn the_configuration_names_files_that_exist_and_their_series() {
        let files: BTreeMap<PathBuf, String> =
            files("/srv/capstan", &objects()).unwrap().into_iter().collect();
        let read = |path: &str| -> Value { serde_saphyr::from_str(&files[Path::new(path)]).unwrap() };
        let providers = read(CONFIGURATION)["providers"].as_array().unwrap().clone();
        assert_eq!(providers.len(), 4);
        for provider in &providers {
            let path = provider["url"].as_str().unwrap().strip_prefix("/srv/capstan/").unwrap();
            assert!(files.contains_key(Path::new(path)), "{path}");
        }
        let metadata = read("infrastructure-openstack/v0.15.0/metadata.yaml");
        assert_eq!(metadata["releaseSeries"], json!([{"major": 0, "minor": 15, "contract": "v1beta2"}]));
    }

    #[test]
    fn a_path_that_clusterctl_cannot_read_is_refused() {
        let error = write(Path::new("/srv/$HOME"), &[]).unwrap_err().to_string();
        assert!(error.contains("cannot read the path /srv/$HOME"), "{error}");
    }
}
