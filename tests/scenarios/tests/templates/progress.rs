//! Progress of one cluster: waits for its states, and describes what is missing when they do not come.

use std::time::Duration;

use apiserver_types::Cluster;
use kube::{Api, Client};
use serde_json::Value;

use crate::objects::{self, INTERVAL, Namespace, PATIENCE, Stillness, text};
use crate::source::Template;

/// Kinds of the objects that a user applied, and that may outlive their cluster. Health checks of Machines have no
/// controller yet.
const STAYING: [&str; 3] = ["MachineHealthCheck", "KubeadmConfigTemplate", "OpenStackMachineTemplate"];

/// Label with the name of the cluster.
const CLUSTER_NAME: &str = "/metadata/labels/cluster.x-k8s.io~1cluster-name";

pub(crate) struct Progress {
    /// Name of the Cluster.
    pub(crate) cluster: String,
    namespace: Namespace,
    machines: usize,
}

impl Progress {
    pub(crate) fn new(client: Client, template: &Template) -> Self {
        let cluster = template.cluster().unwrap()["metadata"]["name"].as_str().unwrap().to_owned();
        let machines = template.replicas("KubeadmControlPlane") + template.replicas("MachineDeployment");
        Self { cluster, namespace: Namespace { client, name: template.namespace.clone() }, machines }
    }

    pub(crate) fn clusters(&self) -> Api<Cluster> {
        Api::namespaced(self.namespace.client.clone(), &self.namespace.name)
    }

    /// Waits until the Cluster is Available, and all Machines are Running with a Node that is ready.
    pub(crate) async fn until_available(&self) -> Result<(), String> {
        let mut stillness = Stillness::new();
        loop {
            let objects = self.namespace.objects().await;
            let missing = self.unavailable(&objects);
            if missing.is_empty() {
                return Ok(());
            }
            if let Some(refusal) = objects.iter().find_map(refusal) {
                return Err(refusal.to_owned());
            }
            expect_change(stillness.of(&objects), "not available", &missing)?;
            tokio::time::sleep(INTERVAL).await;
        }
    }

    fn unavailable(&self, objects: &[Value]) -> Vec<String> {
        let mut missing = Vec::new();
        let of = |kind: &'static str| objects.iter().filter(move |it| it["kind"] == kind);
        let machines = of("Machine").count();
        if machines != self.machines {
            missing.push(format!("Machines: {machines}, not {}", self.machines));
            missing.extend(of("MachineSet").chain(of("KubeadmControlPlane")).map(shown));
        }
        for machine in of("Machine") {
            if text(machine, "/status/phase") != "Running" || !holds(machine, "Ready") {
                missing.push(shown(machine));
            }
        }
        if !of("Cluster").any(|cluster| holds(cluster, "Available")) {
            missing.extend(of("Cluster").chain(of("OpenStackCluster")).map(shown));
            missing.extend(of("OpenStackMachine").filter(|it| !holds(it, "Ready")).map(shown));
        }
        missing
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
            objects.retain(|it| !STAYING.contains(&text(it, "/kind")));
            if objects.is_empty() {
                return Ok(());
            }
            let left: Vec<String> = objects.iter().map(shown).collect();
            expect_change(stillness.of(&objects), "not gone", &left)?;
            tokio::time::sleep(INTERVAL).await;
        }
    }
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
