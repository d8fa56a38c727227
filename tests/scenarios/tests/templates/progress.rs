//! Progress of one cluster: waits for its states, and describes what is missing when they do not come.

use std::time::{Duration, Instant};

use apiserver_types::{Cluster, Image, MachineDeployment};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use kube::{Api, Client, Resource, ResourceExt};
use serde_json::{Value, json};

use crate::manifest::FIRST_VERSION;
use crate::objects::{self, INTERVAL, Namespace, PATIENCE, Stillness, text};
use crate::source::Template;

/// Kinds of the objects that a user applied, and that may outlive their cluster.
const STAYING: [&str; 3] = ["MachineHealthCheck", "KubeadmConfigTemplate", "OpenStackMachineTemplate"];

/// Beginning of the annotations for which a deleted Machine waits before its drain.
const PRE_DRAIN: &str = "pre-drain.delete.hook.machine.cluster.x-k8s.io/";

/// Label with the name of the cluster.
const CLUSTER_NAME: &str = "/metadata/labels/cluster.x-k8s.io~1cluster-name";

/// Label of the objects of a topology. They never outlive their cluster.
const OWNED: &str = "/metadata/labels/topology.cluster.x-k8s.io~1owned";

/// Label of a MachineDeployment with the name of its group in the topology.
const GROUP: &str = "topology.cluster.x-k8s.io/deployment-name";

/// Label of the Machines of a control plane.
const CONTROL_PLANE: &str = "/metadata/labels/cluster.x-k8s.io~1control-plane";

/// Machines that a cluster has at rest.
pub(crate) struct Wanted {
    pub(crate) control_plane: usize,
    pub(crate) workers: usize,
    /// Version of all Machines, and of their kubelets.
    pub(crate) version: &'static str,
}

impl Wanted {
    /// Returns what a template describes.
    pub(crate) fn of(template: &Template) -> Self {
        let (control_plane, workers) = template.machines();
        Self { control_plane, workers, version: FIRST_VERSION }
    }
}

pub(crate) struct Progress {
    /// Name of the Cluster.
    pub(crate) cluster: String,
    namespace: Namespace,
    wanted: Wanted,
}

impl Progress {
    pub(crate) fn new(client: Client, template: &Template) -> Self {
        let cluster = template.cluster().unwrap()["metadata"]["name"].as_str().unwrap().to_owned();
        let namespace = Namespace { client, name: template.namespace.clone() };
        Self { cluster, namespace, wanted: Wanted::of(template) }
    }

    pub(crate) fn clusters(&self) -> Api<Cluster> {
        self.api()
    }

    fn api<K>(&self) -> Api<K>
    where
        K: Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>,
    {
        Api::namespaced(self.namespace.client.clone(), &self.namespace.name)
    }

    /// Waits until the Cluster is Available, and all Machines are Running with a Node that is ready.
    pub(crate) async fn until_available(&self) -> Result<(), String> {
        self.until(&self.wanted).await
    }

    /// Waits for the same with other Machines.
    pub(crate) async fn until(&self, wanted: &Wanted) -> Result<(), String> {
        let mut stillness = Stillness::new();
        loop {
            let objects = self.namespace.objects().await;
            let missing = unavailable(wanted, &objects);
            if missing.is_empty() {
                return Ok(());
            }
            if let Some(refusal) = objects.iter().find_map(refusal) {
                return Err(refusal.to_owned());
            }
            self.end_waits(&objects).await;
            expect_change(stillness.of(&objects), "not available", &missing)?;
            tokio::time::sleep(INTERVAL).await;
        }
    }

    /// Removes the annotations for which deleted Machines wait, as the programs do that set them.
    async fn end_waits(&self, objects: &[Value]) {
        let deleted = objects.iter().filter(|it| it.pointer("/metadata/deletionTimestamp").is_some());
        for machine in deleted.filter(|it| it["kind"] == "Machine") {
            let annotations = machine.pointer("/metadata/annotations").and_then(Value::as_object);
            let hooks = annotations.into_iter().flatten().filter(|(key, _)| key.starts_with(PRE_DRAIN));
            let removed: serde_json::Map<_, _> = hooks.map(|(key, _)| (key.clone(), Value::Null)).collect();
            if removed.is_empty() {
                continue;
            }
            let change = Patch::Merge(json!({"metadata": {"annotations": removed}}));
            let api: Api<apiserver_types::Machine> = self.api();
            // It may be gone.
            drop(api.patch(text(machine, "/metadata/name"), &PatchParams::default(), &change).await);
        }
    }

    /// Adds a worker to each of these groups of the topology, as cluster-autoscaler does. Returns the number of workers
    /// that are added.
    pub(crate) async fn add_worker_to(&self, groups: &[String]) -> usize {
        let api: Api<MachineDeployment> = self.api();
        for group in groups {
            let selector = ListParams::default().labels(&format!("{GROUP}={group}"));
            for deployment in api.list(&selector).await.unwrap() {
                let replicas = deployment.spec.replicas.unwrap_or_default() + 1;
                let change = Patch::Merge(json!({"spec": {"replicas": replicas}}));
                api.patch_scale(&deployment.name_any(), &PatchParams::default(), &change).await.unwrap();
            }
        }
        groups.len()
    }

    /// Deletes the Images of the manifest, and waits until they are gone.
    pub(crate) async fn delete_images(&self) -> Result<(), String> {
        let (api, all): (Api<Image>, _) = (self.api(), ListParams::default());
        api.delete_collection(&DeleteParams::background(), &all).await.map_err(|error| error.to_string())?;
        let begun = Instant::now();
        loop {
            let left: Vec<String> = api.list(&all).await.unwrap().iter().map(ResourceExt::name_any).collect();
            if left.is_empty() {
                return Ok(());
            }
            expect_change(begun.elapsed(), "Images are not gone", &left)?;
            tokio::time::sleep(INTERVAL).await;
        }
    }

    /// Waits until nothing of the cluster is left in the API. A host may keep Secrets.
    pub(crate) async fn until_gone(&self, keeps_secrets: bool) -> Result<(), String> {
        let mut stillness = Stillness::new();
        loop {
            let mut objects = self.namespace.objects().await;
            if !keeps_secrets {
                let secrets = self.namespace.secrets().await;
                objects.extend(secrets.into_iter().filter(|it| text(it, CLUSTER_NAME) == self.cluster));
            }
            objects.retain(|it| !STAYING.contains(&text(it, "/kind")) || it.pointer(OWNED).is_some());
            if objects.is_empty() {
                return Ok(());
            }
            self.end_waits(&objects).await;
            let left: Vec<String> = objects.iter().map(shown).collect();
            expect_change(stillness.of(&objects), "not gone", &left)?;
            tokio::time::sleep(INTERVAL).await;
        }
    }
}

/// Describes what a cluster lacks.
fn unavailable(wanted: &Wanted, objects: &[Value]) -> Vec<String> {
    let mut missing = Vec::new();
    let of = |kind: &'static str| objects.iter().filter(move |it| it["kind"] == kind);
    let machines = of("Machine").count();
    let control_plane = of("Machine").filter(|it| it.pointer(CONTROL_PLANE).is_some()).count();
    if (control_plane, machines) != (wanted.control_plane, wanted.control_plane + wanted.workers) {
        let workers = machines - control_plane;
        let (planes, groups) = (wanted.control_plane, wanted.workers);
        missing.push(format!("Machines: {control_plane} + {workers}, not {planes} + {groups}"));
        missing.extend(of("MachineSet").chain(of("KubeadmControlPlane")).map(shown));
    }
    for machine in of("Machine") {
        let versions = ["/spec/version", "/status/nodeInfo/kubeletVersion"];
        let has_version = versions.iter().all(|it| text(machine, it) == wanted.version);
        if text(machine, "/status/phase") != "Running" || !holds(machine, "Ready") || !has_version {
            missing.push(shown(machine));
        }
    }
    if !of("Cluster").any(|cluster| holds(cluster, "Available")) {
        missing.extend(of("Cluster").chain(of("OpenStackCluster")).map(shown));
        missing.extend(of("OpenStackMachine").filter(|it| !holds(it, "Ready")).map(shown));
    }
    missing
}

/// Returns an error if the objects have not changed for too long.
fn expect_change(still: Duration, state: &str, missing: &[String]) -> Result<(), String> {
    if still < PATIENCE {
        return Ok(());
    }
    Err(format!("{state}, and nothing happens any more, or it happens forever:\n{}", missing.join("\n")))
}

fn holds(object: &Value, kind: &str) -> bool {
    objects::condition(object, kind).is_some_and(|it| it["status"] == "True")
}

/// Returns the text of a condition after which the cluster cannot become available.
fn refusal(object: &Value) -> Option<&str> {
    let ready = objects::condition(object, "Ready").filter(|_| object["kind"] == "OpenStackMachine")?;
    (ready["reason"] == "NotSupported").then(|| text(ready, "/message"))
}

/// Returns the name of an object, its phase, and the conditions that do not hold.
fn shown(object: &Value) -> String {
    let mut words = format!("{} {}", text(object, "/kind"), text(object, "/metadata/name"));
    words = format!("{words} {}", text(object, "/status/phase"));
    if object.pointer("/metadata/deletionTimestamp").is_some() {
        words = format!("{words} with finalizers {}", object["metadata"]["finalizers"]);
    }
    for it in objects::conditions(object).filter(|it| it["status"] != "True") {
        let part = |pointer: &str| text(it, pointer).to_owned();
        let (kind, status) = (part("/type"), part("/status"));
        words = format!("{words}\n  {kind} {status} {}: {}", part("/reason"), part("/message"));
    }
    words
}
