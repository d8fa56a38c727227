//! Health of a cluster's objects at each phase, as Argo CD and Flux compute it, and scaling as cluster-autoscaler does.
//!
//! `health.txt` has the expected lines. With `CAPSTAN_WRITE_GOLDENS` the test writes them.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use apiserver_types::{Machine, MachineDeployment};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};
use tests_openstack_simulator::{FaultEffect, InjectedFault};
use tests_scenarios::World;
use tokio_util::sync::CancellationToken;

use crate::objects::{INTERVAL, Namespace, PATIENCE, STILL, Stillness, text};
use crate::progress::Progress;
use crate::source::Template;

/// Cluster with one control plane Machine and one worker.
const MANIFEST: &str = include_str!("../whole_cluster/cluster.yaml");

/// Name of its MachineDeployment.
const WORKERS: &str = "blue-md-0";

/// Kinds that users put into a repository, or look at in a dashboard.
const KINDS: [(&str, &str); 6] = [
    ("cluster.x-k8s.io", "clusters"),
    ("cluster.x-k8s.io", "machinedeployments"),
    ("cluster.x-k8s.io", "machines"),
    ("controlplane.cluster.x-k8s.io", "kubeadmcontrolplanes"),
    ("infrastructure.cluster.x-k8s.io", "openstackclusters"),
    ("infrastructure.cluster.x-k8s.io", "openstackmachines"),
];

/// Longest delay of a call to the cloud, until the objects have been read. It is shorter than the time limit of a call.
/// Unit: milliseconds.
const DELAY: u64 = 50_000;

/// Delay of boots until the objects have been read.
const UNTIL_READ: Duration = Duration::from_secs(3600);

/// Delay of boots otherwise.
const SOON: Duration = Duration::from_millis(50);

/// Time without a change after which lines are recorded that are not the expected ones.
const SETTLED: Duration = Duration::from_secs(10);

/// Returns the status of a condition.
fn condition<'a>(object: &'a Value, kind: &str) -> &'a str {
    crate::objects::condition(object, kind).map(|it| text(it, "/status")).unwrap_or_default()
}

/// Returns true if an object is not ready, and not only on its way.
fn is_degraded(object: &Value) -> bool {
    crate::objects::conditions(object)
        .any(|it| it["type"] == "Ready" && it["status"] == "False" && it["severity"] != "Info")
}

/// Returns the health that Argo CD computes with its rules for this kind; `-` for a kind without rules.
fn argo_cd(object: &Value) -> &'static str {
    let phase = text(object, "/status/phase");
    let deleted = object.pointer("/metadata/deletionTimestamp").is_some();
    let paused = object.pointer("/spec/paused") == Some(&json!(true));
    let count = |field: &str| object.pointer(&format!("/status/{field}")).and_then(Value::as_u64);
    match text(object, "/kind") {
        "Cluster" | "MachineDeployment" if paused => "Suspended",
        "Cluster" | "MachineDeployment" | "Machine" if deleted => "Progressing",
        "Cluster" if is_degraded(object) || phase == "Failed" => "Degraded",
        "Cluster" if phase == "Provisioned" => "Healthy",
        "MachineDeployment" | "Machine" if phase == "Failed" => "Degraded",
        "MachineDeployment" if phase == "Running" => {
            let updated = count("upToDateReplicas").or_else(|| count("updatedReplicas"));
            let all = [updated, count("readyReplicas")].iter().all(|it| *it == count("replicas"));
            if all { "Healthy" } else { "Progressing" }
        }
        "Machine" if phase == "Running" => "Healthy",
        "Cluster" | "MachineDeployment" | "Machine" => "Progressing",
        _ => "-",
    }
}

/// Returns the status that Flux and Helm compute for any kind.
fn flux(object: &Value) -> &'static str {
    let generation = &object["metadata"]["generation"];
    let observed = object.pointer("/status/observedGeneration");
    if object.pointer("/metadata/deletionTimestamp").is_some() {
        return "Terminating";
    }
    if observed.is_some_and(|observed| observed != generation) || condition(object, "Reconciling") == "True" {
        return "InProgress";
    }
    match (condition(object, "Stalled"), condition(object, "Ready")) {
        ("True", _) => "Failed",
        (_, "" | "True") => "Current",
        _ => "InProgress",
    }
}

/// Reader of the health.
struct Reader {
    namespace: Namespace,
    /// Recorded lines.
    golden: String,
    lines: Vec<String>,
}

impl Reader {
    async fn objects(&self, version: &str) -> Vec<Value> {
        let mut objects = Vec::new();
        for (group, plural) in KINDS {
            objects.extend(self.namespace.list(&format!("/apis/{group}/{version}"), plural).await);
        }
        objects
    }

    /// Records the health of all objects when nothing changes any more, and a Machine is in this phase. If the health
    /// is not the expected one, it waits longer.
    async fn rest(&mut self, step: &str, phase: &str) {
        let mut stillness = Stillness::new();
        let is_there = |it: &Value| it["kind"] == "Machine" && text(it, "/status/phase") == phase;
        loop {
            let objects = self.objects("v1beta2").await;
            let still = stillness.of(&objects);
            if still >= STILL && objects.iter().any(is_there) {
                let lines = self.health(step).await;
                if still >= SETTLED || lines == self.expected(step) {
                    self.lines.extend(lines);
                    return;
                }
            }
            assert!(still < PATIENCE, "{step}: nothing changes any more, and no Machine is {phase}");
            tokio::time::sleep(INTERVAL).await;
        }
    }

    async fn health(&self, step: &str) -> Vec<String> {
        let mut lines = Vec::new();
        for version in ["v1beta2", "v1beta1"] {
            let objects = self.objects(version).await;
            lines.extend(objects.iter().map(|it| line(step, version, it)).collect::<BTreeSet<_>>());
        }
        lines
    }

    fn expected(&self, step: &str) -> Vec<String> {
        let of_step = |line: &&str| line.split(' ').next() == Some(step);
        self.golden.lines().filter(of_step).map(str::to_owned).collect()
    }

    fn api<K>(&self) -> Api<K>
    where
        K: kube::Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>,
    {
        Api::namespaced(self.namespace.client.clone(), &self.namespace.name)
    }

    /// Scales the MachineDeployment up and down with the requests of cluster-autoscaler. Records what it reads.
    async fn autoscale(&mut self) {
        let (deployments, machines) = (self.api::<MachineDeployment>(), self.api::<Machine>());
        let mut marked = String::new();
        for (replicas, is_down) in [(2, false), (1, true)] {
            let scale = deployments.get_scale(WORKERS).await.unwrap();
            let selector = scale.status.as_ref().and_then(|it| it.selector.clone()).unwrap();
            let workers = machines.list(&ListParams::default().labels(&selector)).await.unwrap().items;
            self.lines.push(format!(
                "autoscaler: spec={:?} status={:?} selected={}",
                scale.spec.and_then(|it| it.replicas),
                scale.status.map(|it| it.replicas),
                workers.len()
            ));
            assert!(workers.iter().all(|it| it.spec.provider_id.is_some()), "a worker has no provider id");
            if is_down {
                marked = workers.iter().map(ResourceExt::name_any).min().unwrap();
                let mark = json!({"metadata": {"annotations": {"cluster.x-k8s.io/delete-machine": "now"}}});
                machines.patch(&marked, &PatchParams::default(), &Patch::Merge(&mark)).await.unwrap();
            }
            let change = Patch::Merge(json!({"spec": {"replicas": replicas}}));
            deployments.patch_scale(WORKERS, &PatchParams::default(), &change).await.unwrap();
            self.until_workers(replicas, &selector).await;
        }
        assert!(machines.get_opt(&marked).await.unwrap().is_none(), "the marked Machine still exists");
    }

    /// Waits until this number of workers exists, and all are available.
    async fn until_workers(&self, replicas: usize, selector: &str) {
        let wanted = ListParams::default().labels(selector);
        let mut stillness = Stillness::new();
        loop {
            let workers = self.api::<Machine>().list(&wanted).await.unwrap().items;
            let deployment = self.api::<MachineDeployment>().get(WORKERS).await.unwrap();
            let available = deployment.status.unwrap_or_default().available_replicas;
            if workers.len() == replicas && available == i32::try_from(replicas).ok() {
                return;
            }
            assert!(stillness.of(&self.objects("v1beta2").await) < PATIENCE, "no {replicas} workers");
            tokio::time::sleep(INTERVAL).await;
        }
    }
}

/// Returns kind, role, phase and health of an object, without its generated name.
fn line(step: &str, version: &str, object: &Value) -> String {
    let labels = object["metadata"]["labels"].as_object();
    let is_control_plane = labels.is_some_and(|it| it.contains_key("cluster.x-k8s.io/control-plane"));
    let role = if is_control_plane { " of the control plane" } else { "" };
    let phase = Some(text(object, "/status/phase")).filter(|it| !it.is_empty()).unwrap_or("-");
    let kind = text(object, "/kind");
    format!("{step} {version} {kind}{role}: phase={phase} argo-cd={} flux={}", argo_cd(object), flux(object))
}

fn delay(world: &World, method: &str, path: &str) {
    world.cloud.inject(InjectedFault {
        method: Some(method.to_owned()),
        path: Some(path.to_owned()),
        ..InjectedFault::new(FaultEffect::Delay { milliseconds: DELAY })
    });
}

fn template(world: &World) -> Template {
    let clouds = world.cloud.clouds_yaml("demo");
    let clouds: String = clouds.lines().map(|line| format!("    {line}\n")).collect();
    Template::new("health", &MANIFEST.replace("NAMESPACE", "health").replace("CLOUDS\n", &clouds))
}

#[tokio::test(flavor = "multi_thread")]
async fn argo_cd_flux_and_cluster_autoscaler_read_what_they_expect_at_each_phase() {
    let manifest = PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR").unwrap());
    let path = manifest.join("tests/templates/health.txt");
    let golden = std::fs::read_to_string(&path).unwrap_or_default();
    let (world, hollow) = World::start_with_hollow_clusters().await.unwrap();
    let term = CancellationToken::new();
    let running = tests_scenarios::run(&world, &term);
    let template = template(&world);
    let progress = Progress::new(world.admin(), &template);
    let namespace = Namespace { client: world.admin(), name: "health".to_owned() };
    let mut reader = Reader { namespace, golden, lines: Vec::new() };

    hollow.boot_delay(UNTIL_READ);
    world.apply("health", &template.documents(&world.cloud.address())).await.unwrap();
    // The control plane boots, and the workers wait for it.
    reader.rest("pending", "Pending").await;
    delay(&world, "POST", "/servers");
    hollow.boot_delay(SOON);
    reader.rest("provisioning", "Provisioning").await;
    hollow.boot_delay(UNTIL_READ);
    world.cloud.clear_faults();
    reader.rest("provisioned", "Provisioned").await;
    hollow.boot_delay(SOON);
    progress.until_available().await.unwrap();
    reader.rest("running", "Running").await;
    reader.autoscale().await;
    delay(&world, "DELETE", "/servers/");
    progress.clusters().delete(&progress.cluster, &DeleteParams::background()).await.unwrap();
    reader.rest("deleting", "Deleting").await;
    world.cloud.clear_faults();
    progress.until_gone(false).await.unwrap();
    term.cancel();
    running.join_all().await;

    let found = reader.lines.join("\n") + "\n";
    if std::env::var_os("CAPSTAN_WRITE_GOLDENS").is_some() {
        std::fs::write(&path, &found).unwrap();
    }
    assert_eq!(found, std::fs::read_to_string(&path).unwrap());
}
