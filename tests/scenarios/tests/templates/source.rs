//! Source of the templates: upstream's folder if it is there, and our own manifests.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};

/// Folders whose templates are for OpenStack. Those of `capi` are for a provider that exists in upstream's tests only.
const FOLDERS: [&str; 3] = ["capo", "capo-e2e", "capi-openstack"];

/// Address of the cloud in the credentials of the templates.
const CLOUD: &str = "http://127.0.0.1:15000";

/// Folder of our own manifests.
pub(crate) const OWN_FOLDER: &str = "own/";

/// Manifests of the same kinds as upstream's templates, for a checkout without them.
const OWN: [(&str, &str); 2] = [
    ("own/load-balancer", include_str!("own/load-balancer.yaml")),
    ("own/v1beta1", include_str!("own/v1beta1.yaml")),
];

/// Manifest of one cluster.
pub(crate) struct Template {
    /// Folder and name of the file.
    pub(crate) name: String,
    /// Namespace into which it is applied.
    pub(crate) namespace: String,
    documents: Vec<Value>,
}

impl Template {
    pub(crate) fn new(name: &str, text: &str) -> Self {
        let documents: Vec<Value> = serde_saphyr::from_multiple(text).unwrap();
        let documents: Vec<Value> = documents.into_iter().filter(|document| !document.is_null()).collect();
        // A cluster-wide identity names the namespace of its Secret.
        let named = documents.iter().find_map(|it| it.pointer("/spec/secretRef/namespace")?.as_str());
        let own: String = name.chars().map(|it| if it == '/' { '-' } else { it }).collect();
        Self { name: name.to_owned(), namespace: named.unwrap_or(&own).to_owned(), documents }
    }

    /// Returns the Cluster of the manifest.
    pub(crate) fn cluster(&self) -> Option<&Value> {
        self.documents.iter().find(|document| document["kind"] == "Cluster")
    }

    /// Returns the sum of the replicas of a kind.
    pub(crate) fn replicas(&self, kind: &str) -> usize {
        let owners = self.documents.iter().filter(|document| document["kind"] == kind);
        let counts = owners.filter_map(|owner| owner.pointer("/spec/replicas")?.as_u64());
        usize::try_from(counts.sum::<u64>()).unwrap()
    }

    /// Returns the documents with the address of a cloud in the credentials.
    pub(crate) fn documents(&self, cloud: &SocketAddr) -> Vec<Value> {
        let address = format!("http://{cloud}");
        let text = serde_json::to_string(&self.documents).unwrap();
        let text = text.replace(CLOUD, &address);
        let mut documents: Vec<Value> = serde_json::from_str(&text).unwrap();
        for clouds in documents.iter_mut().filter_map(|it| it.pointer_mut("/data/clouds.yaml")) {
            let text = BASE64_STANDARD.decode(clouds.as_str().unwrap()).unwrap();
            let text = String::from_utf8(text).unwrap().replace(CLOUD, &address);
            *clouds = json!(BASE64_STANDARD.encode(text));
        }
        documents
    }

    fn is_of_a_class(&self) -> bool {
        self.cluster().is_some_and(|cluster| cluster.pointer("/spec/topology").is_some())
    }
}

/// Returns the templates of clusters, and the names of those that have a topology.
pub(crate) fn all() -> (Vec<Template>, Vec<String>) {
    let mut templates: Vec<Template> = OWN.iter().map(|(name, text)| Template::new(name, text)).collect();
    for folder in folder("templates/ready").iter().flat_map(|root| FOLDERS.map(|name| root.join(name))) {
        templates.extend(files(&folder).iter().map(|file| read(file)));
    }
    if let Ok(only) = std::env::var("CAPSTAN_TEMPLATE") {
        let wanted: Vec<&str> = only.split(',').collect();
        templates.retain(|template| wanted.iter().any(|part| template.name.contains(part)));
    }
    templates.retain(|template| template.cluster().is_some());
    let (topologies, plain): (Vec<_>, Vec<_>) = templates.into_iter().partition(Template::is_of_a_class);
    (plain, topologies.into_iter().map(|template| template.name).collect())
}

/// Returns a folder of upstream's data, if it is there.
pub(crate) fn folder(path: &str) -> Option<PathBuf> {
    // Read when the test runs: a build directory may be shared with another checkout.
    let manifest = PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR").unwrap());
    let root = std::env::var_os("CAPSTAN_UPSTREAM")
        .map_or_else(|| manifest.join("../../../shared/upstream"), PathBuf::from);
    let found = Some(root.join(path)).filter(|folder| folder.is_dir());
    let there = root.display();
    if found.is_none() {
        eprintln!("skipped: no upstream data in {there}. Set CAPSTAN_UPSTREAM to its folder");
    }
    assert!(found.is_some() || std::env::var_os("CI").is_none(), "no {path} in {there}");
    found
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

fn read(file: &Path) -> Template {
    let name = |path: &Path| path.file_stem().unwrap().to_string_lossy().into_owned();
    let flavor = name(file).replacen("cluster-template-", "", 1).replacen("cluster-template", "default", 1);
    let name = format!("{}/{flavor}", name(file.parent().unwrap()));
    Template::new(&name, &fs::read_to_string(file).unwrap())
}
