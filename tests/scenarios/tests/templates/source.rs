//! Source of the templates: upstream's folder if it is there, and our own manifests.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};

use crate::manifest::Manifest;

/// Folders whose templates are for OpenStack. Those of `capi` are for a provider that exists in upstream's tests only.
const FOLDERS: [&str; 3] = ["capo", "capo-e2e", "capi-openstack"];

/// Address of the cloud in the credentials of the templates.
const CLOUD: &str = "http://127.0.0.1:15000";

/// Folder of our own manifests.
pub(crate) const OWN_FOLDER: &str = "own/";

/// Manifests of the same kinds as upstream's templates, for a checkout without them.
const OWN: [(&str, &str); 3] = [
    ("own/load-balancer", include_str!("own/load-balancer.yaml")),
    ("own/v1beta1", include_str!("own/v1beta1.yaml")),
    ("own/v1beta1-class", include_str!("own/v1beta1-class.yaml")),
];

/// Template whose manifest is in several files. Its user writes the Secret.
const IN_PARTS: &str = "capo/topology";

/// File with an Image of that template.
const IMAGE: &str = "image-template-node.yaml";

/// Name of the Secret of that template.
const SECRET: &str = "capo-topology-cloud-config";

/// Manifest of one cluster.
pub(crate) struct Template {
    /// Folder and name of the file.
    pub(crate) name: String,
    /// Namespace into which it is applied.
    pub(crate) namespace: String,
    manifest: Manifest,
    /// ClusterClass with its templates.
    class: Vec<Value>,
}

impl Template {
    pub(crate) fn new(name: &str, text: &str) -> Self {
        let mut documents = parse(text);
        documents.iter_mut().for_each(leave_default_namespace);
        // A cluster-wide identity names the namespace of its Secret.
        let named = documents.iter().find_map(|it| it.pointer("/spec/secretRef/namespace")?.as_str());
        let own: String = name.chars().map(|it| if it == '/' { '-' } else { it }).collect();
        let namespace = named.unwrap_or(&own).to_owned();
        Self { name: name.to_owned(), namespace, manifest: Manifest(documents), class: Vec::new() }
    }

    /// Returns the Cluster of the manifest.
    pub(crate) fn cluster(&self) -> Option<&Value> {
        self.manifest.cluster()
    }

    /// Returns the manifest with the address of a cloud in the credentials.
    pub(crate) fn manifest(&self, cloud: &SocketAddr) -> Manifest {
        let address = format!("http://{cloud}");
        let text = serde_json::to_string(&self.manifest.0).unwrap();
        let text = text.replace(CLOUD, &address);
        let mut documents: Vec<Value> = serde_json::from_str(&text).unwrap();
        for clouds in documents.iter_mut().filter_map(|it| it.pointer_mut("/data/clouds.yaml")) {
            let text = BASE64_STANDARD.decode(clouds.as_str().unwrap()).unwrap();
            let text = String::from_utf8(text).unwrap().replace(CLOUD, &address);
            *clouds = json!(BASE64_STANDARD.encode(text));
        }
        Manifest(documents)
    }

    /// Returns the documents of the manifest.
    pub(crate) fn documents(&self, cloud: &SocketAddr) -> Vec<Value> {
        self.manifest(cloud).0
    }

    /// Returns the numbers of Machines, of the control plane and of the workers.
    pub(crate) fn machines(&self) -> (usize, usize) {
        (self.manifest.control_plane(), self.manifest.workers())
    }

    /// Returns the namespace of the class, and its documents. The list is empty for a cluster without a class.
    pub(crate) fn class(&self) -> (&str, &[Value]) {
        let namespace = self.class_ref("namespace");
        (namespace.unwrap_or(&self.namespace), &self.class)
    }

    fn class_ref(&self, field: &str) -> Option<&str> {
        self.cluster()?.pointer(&format!("/spec/topology/classRef/{field}"))?.as_str()
    }

    /// Adds the class, and what else a user finds in other files. Returns false if the class is in no file.
    fn complete(&mut self, root: &Path) -> bool {
        let Some(class) = self.class_ref("name") else { return true };
        let folder = self.name.split('/').next().unwrap_or_default();
        let folders = [folder].into_iter().chain(FOLDERS);
        let mut files = folders.map(|it| root.join(it).join(format!("clusterclass-{class}.yaml")));
        let Some(file) = files.find(|file| file.is_file()) else { return false };
        self.class = parse(&fs::read_to_string(file).unwrap());
        if self.name == IN_PARTS {
            let mut secret = parse(OWN[0].1).remove(0);
            secret["metadata"]["name"] = json!(SECRET);
            self.manifest.0.push(secret);
            self.manifest.0.extend(parse(&fs::read_to_string(root.join(folder).join(IMAGE)).unwrap()));
        }
        true
    }
}

/// Returns the templates of clusters, and the names of those whose ClusterClass is in no file.
pub(crate) fn all() -> (Vec<Template>, Vec<String>) {
    let mut templates: Vec<Template> = OWN.iter().map(|(name, text)| Template::new(name, text)).collect();
    let root = folder("templates/ready");
    for folder in root.iter().flat_map(|root| FOLDERS.map(|name| root.join(name))) {
        templates.extend(files(&folder).iter().map(|file| read(file)));
    }
    if let Ok(only) = std::env::var("CAPSTAN_TEMPLATE") {
        let wanted: Vec<&str> = only.split(',').collect();
        templates.retain(|template| wanted.iter().any(|part| template.name.contains(part)));
    }
    templates.retain(|template| template.cluster().is_some());
    let root = root.unwrap_or_default();
    let (complete, other): (Vec<_>, Vec<_>) =
        templates.into_iter().map(|mut it| (it.complete(&root), it)).partition(|(complete, _)| *complete);
    let complete = complete.into_iter().map(|(_, template)| template).collect();
    (complete, other.into_iter().map(|(_, template)| template.name).collect())
}

/// Removes the namespace `default`, which stands for the one that a user chooses. Here each template has its own.
fn leave_default_namespace(document: &mut Value) {
    for path in ["/metadata", "/spec/topology/classRef"] {
        let object = document.pointer_mut(path).and_then(Value::as_object_mut);
        if let Some(object) = object.filter(|it| it.get("namespace") == Some(&json!("default"))) {
            object.remove("namespace");
        }
    }
}

fn parse(text: &str) -> Vec<Value> {
    let documents: Vec<Value> = serde_saphyr::from_multiple(text).unwrap();
    documents.into_iter().filter(|document| !document.is_null()).collect()
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
