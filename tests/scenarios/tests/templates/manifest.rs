//! Manifest of a cluster that its user changes: an upgrade by one minor version, and other numbers of Machines.
//!
//! The user edits the documents and applies them again. A template that other objects refer to is not edited: it gets a
//! new name, as Cluster API's users rotate templates.

use serde_json::{Value, json};

/// Version of the templates, in their names of images too.
pub(crate) const FIRST_VERSION: &str = "v1.33.0";

/// Version after the upgrade.
pub(crate) const NEXT_VERSION: &str = "v1.34.0";

/// Kinds that are rotated. A kind is behind those that it refers to.
const ROTATED: [&str; 3] = ["Image", "KubeadmConfigTemplate", "OpenStackMachineTemplate"];

/// Kinds that are edited.
const EDITED: [&str; 3] = ["Cluster", "KubeadmControlPlane", "MachineDeployment"];

/// Annotation with the least number of workers. It is the number until cluster-autoscaler sets one.
const LEAST: &str = "/metadata/annotations/cluster.x-k8s.io~1cluster-api-autoscaler-node-group-min-size";

/// Kind and name of a document that has a new name.
type Renamed = (String, String);

/// Documents of one cluster.
#[derive(Clone)]
pub(crate) struct Manifest(pub(crate) Vec<Value>);

impl Manifest {
    /// Returns the Cluster.
    pub(crate) fn cluster(&self) -> Option<&Value> {
        self.0.iter().find(|document| document["kind"] == "Cluster")
    }

    /// Returns the number of control plane Machines.
    pub(crate) fn control_plane(&self) -> usize {
        let plane = self.of("KubeadmControlPlane").next();
        let plane = plane.or_else(|| self.cluster()?.pointer("/spec/topology/controlPlane"));
        plane.map_or(0, |it| number(it.pointer("/spec").unwrap_or(it)).unwrap_or_default())
    }

    /// Returns the number of workers.
    pub(crate) fn workers(&self) -> usize {
        let own = self.of("MachineDeployment").filter_map(|it| number(&it["spec"]));
        let least = |it: &Value| it.pointer(LEAST)?.as_str()?.parse().ok();
        let of_class = self.groups().iter().filter_map(|it| number(it).or_else(|| least(it)));
        own.chain(of_class).sum()
    }

    /// Returns the names of the worker groups whose number is not the user's.
    pub(crate) fn groups_without_number(&self) -> Vec<String> {
        let groups = self.groups().iter().filter(|it| number(it).is_none());
        groups.map(|it| text(it, "/name")).collect()
    }

    /// Returns the worker groups of a topology.
    fn groups(&self) -> &[Value] {
        let groups = self.cluster().and_then(|it| it.pointer("/spec/topology/workers/machineDeployments"));
        groups.and_then(Value::as_array).map_or(&[], Vec::as_slice)
    }

    fn of(&self, kind: &'static str) -> impl Iterator<Item = &Value> {
        self.0.iter().filter(move |document| document["kind"] == kind)
    }

    /// Replaces the version. Returns the documents that the user applies.
    pub(crate) fn upgrade(&mut self) -> Vec<Value> {
        let mut renamed: Vec<Renamed> = Vec::new();
        let mut applied = Vec::new();
        for kind in ROTATED.iter().chain(&EDITED) {
            for document in self.0.iter_mut().filter(|it| it["kind"] == *kind) {
                let before = document["spec"].clone();
                replace(&mut document["spec"], &renamed);
                if document["spec"] == before {
                    continue;
                }
                if ROTATED.contains(kind) {
                    let name = text(document, "/metadata/name");
                    document["metadata"]["name"] = json!(next_name(&name));
                    renamed.push(((*kind).to_owned(), name));
                }
                applied.push(document.clone());
            }
        }
        applied
    }

    /// Changes the numbers of Machines: a control plane of three gets one, any other gets three, and each group that has a
    /// number gets a worker more. Returns the documents that the user applies.
    pub(crate) fn scale(&mut self) -> Vec<Value> {
        let mut applied = Vec::new();
        for document in &mut self.0 {
            let before = document.clone();
            match document["kind"].as_str().unwrap_or_default() {
                "KubeadmControlPlane" => scale_control_plane(&mut document["spec"]),
                "MachineDeployment" => add_worker(&mut document["spec"]),
                "Cluster" => scale_topology(document),
                _ => {}
            }
            applied.extend((*document != before).then(|| document.clone()));
        }
        applied
    }
}

fn scale_topology(cluster: &mut Value) {
    if let Some(plane) = cluster.pointer_mut("/spec/topology/controlPlane") {
        scale_control_plane(plane);
    }
    let groups =
        cluster.pointer_mut("/spec/topology/workers/machineDeployments").and_then(Value::as_array_mut);
    groups.into_iter().flatten().for_each(add_worker);
}

fn scale_control_plane(owner: &mut Value) {
    let replicas = if number(owner) == Some(3) { 1 } else { 3 };
    owner["replicas"] = json!(replicas);
}

fn add_worker(owner: &mut Value) {
    if let Some(replicas) = number(owner) {
        owner["replicas"] = json!(replicas + 1);
    }
}

fn number(owner: &Value) -> Option<usize> {
    usize::try_from(owner.get("replicas")?.as_u64()?).ok()
}

/// Replaces versions in all texts, and names of documents that have a new one.
fn replace(value: &mut Value, renamed: &[Renamed]) {
    let has = |kind: &str, name: &Value| renamed.iter().any(|(of, old)| of == kind && name == old);
    match value {
        Value::String(text) => *text = text.replace(FIRST_VERSION, NEXT_VERSION),
        Value::Array(items) => items.iter_mut().for_each(|item| replace(item, renamed)),
        Value::Object(fields) => {
            fields.values_mut().for_each(|field| replace(field, renamed));
            let kind = fields.get("kind").and_then(Value::as_str).unwrap_or_default().to_owned();
            if let Some(name) = fields.get_mut("name").filter(|name| has(&kind, name)) {
                *name = json!(next_name(name.as_str().unwrap_or_default()));
            }
            let image = match fields.get("name").and_then(Value::as_str) {
                // A variable of upstream's class has the name of the Image.
                Some("imageRef") => fields.get_mut("value"),
                _ => fields.get_mut("imageRef").and_then(|it| it.get_mut("name")),
            };
            if let Some(name) = image.filter(|name| has("Image", name)) {
                *name = json!(next_name(name.as_str().unwrap_or_default()));
            }
        }
        _ => {}
    }
}

/// Returns the name of a document of the next version.
fn next_name(name: &str) -> String {
    format!("{name}-{}", NEXT_VERSION.replace('.', "-"))
}

fn text(document: &Value, pointer: &str) -> String {
    document.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned()
}
