//! Health of a cluster's objects at each phase, as Argo CD and Flux compute it, and scaling as cluster-autoscaler does.
//!
//! `health.txt` has the expected lines. With `CAPSTAN_WRITE_GOLDENS` the test writes them.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use apiserver_types::{Machine, MachineDeployment};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};
use tests_openstack_simulator::{FaultEffect, InjectedFault};
use tests_scenarios::World;
use tokio_util::sync::CancellationToken;

use crate::progress::Progress;
use crate::source::Template;

/// Cluster with one control plane Machine and one worker.
const MANIFEST: &str = include_str!("../whole_cluster/cluster.yaml");

/// Kinds that users put into a repository, or look at in a dashboard.
const KINDS: [(&str, &str); 6] = [
    ("cluster.x-k8s.io", "clusters"),
    ("cluster.x-k8s.io", "machinedeployments"),
    ("cluster.x-k8s.io", "machines"),
    ("controlplane.cluster.x-k8s.io", "kubeadmcontrolplanes"),
    ("infrastructure.cluster.x-k8s.io", "openstackclusters"),
    ("infrastructure.cluster.x-k8s.io", "openstackmachines"),
];

/// Delay of a call to the cloud, during which the objects come to rest. Unit: milliseconds.
const DELAY: u64 = 15_000;

/// Time in which the server of the control plane Machine boots.
const BOOT: Duration = Duration::from_secs(25);

/// Time without a change after which the objects are at rest.
const STILL: Duration = Duration::from_millis(1500);

/// Time limit of a rest.
const LIMIT: Duration = Duration::from_secs(180);

/// Interval between two looks.
const INTERVAL: Duration = Duration::from_millis(250);

fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// Returns status of a condition.
fn condition<'a>(object: &'a Value, kind: &str) -> &'a str {
    let conditions = object.pointer("/status/conditions").and_then(Value::as_array);
    let found = conditions.into_iter().flatten().find(|it| it["type"] == kind);
    found.map(|it| text(it, "/status")).unwrap_or_default()
}

/// Returns true if an object is not ready, and not only on its way.
fn is_degraded(object: &Value) -> bool {
    let conditions = object.pointer("/status/conditions").and_then(Value::as_array);
    let mut conditions = conditions.into_iter().flatten();
    conditions.any(|it| it["type"] == "Ready" && it["status"] == "False" && it["severity"] != "Info")
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

struct Looker {
    client: Client,
    namespace: &'static str,
    lines: Vec<String>,
}

impl Looker {
    async fn objects(&self, version: &str) -> Vec<Value> {
        let mut objects = Vec::new();
        for (group, plural) in KINDS {
            let path = format!("/apis/{group}/{version}/namespaces/{}/{plural}", self.namespace);
            let request = http::Request::get(path).body(Vec::new()).unwrap();
            let mut list: Value = self.client.request(request).await.unwrap();
            let kind = text(&list, "/kind").trim_end_matches("List").to_owned();
            for mut object in list["items"].as_array_mut().map(std::mem::take).unwrap_or_default() {
                object["kind"] = kind.clone().into();
                objects.push(object);
            }
        }
        objects
    }

    /// Waits until nothing changes any more, with at least one Machine in this phase. Records the health of all objects.
    async fn rest(&mut self, step: &str, phase: &str) {
        let begun = Instant::now();
        let (mut revisions, mut since) = (Vec::new(), Instant::now());
        loop {
            let objects = self.objects("v1beta2").await;
            let now: Vec<Value> =
                objects.iter().map(|it| it["metadata"]["resourceVersion"].clone()).collect();
            if now != revisions {
                (revisions, since) = (now, Instant::now());
            }
            let is_there = |it: &Value| it["kind"] == "Machine" && text(it, "/status/phase") == phase;
            if objects.iter().any(is_there) && since.elapsed() > STILL {
                break;
            }
            assert!(begun.elapsed() < LIMIT, "{step}: no rest with a Machine that is {phase}");
            tokio::time::sleep(INTERVAL).await;
        }
        for version in ["v1beta2", "v1beta1"] {
            let objects = self.objects(version).await;
            let lines: BTreeSet<String> = objects.iter().map(|it| line(step, version, it)).collect();
            self.lines.extend(lines);
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

/// Scales the MachineDeployment up and down with the requests of cluster-autoscaler. Returns what it reads.
async fn autoscale(client: &Client, namespace: &str) -> Vec<String> {
    let deployments: Api<MachineDeployment> = Api::namespaced(client.clone(), namespace);
    let machines: Api<Machine> = Api::namespaced(client.clone(), namespace);
    let mut lines = Vec::new();
    let mut marked = String::new();
    for (replicas, is_down) in [(2, false), (1, true)] {
        let scale = deployments.get_scale("blue-md-0").await.unwrap();
        let selector = scale.status.as_ref().and_then(|it| it.selector.clone()).unwrap();
        let workers = machines.list(&ListParams::default().labels(&selector)).await.unwrap().items;
        lines.push(format!(
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
        deployments.patch_scale("blue-md-0", &PatchParams::default(), &change).await.unwrap();
        let begun = Instant::now();
        let wanted = ListParams::default().labels(&selector);
        loop {
            let workers = machines.list(&wanted).await.unwrap().items;
            let status = deployments.get("blue-md-0").await.unwrap().status.unwrap_or_default();
            if workers.len() == replicas && status.available_replicas == i32::try_from(replicas).ok() {
                break;
            }
            assert!(begun.elapsed() < LIMIT, "no {replicas} workers");
            tokio::time::sleep(INTERVAL).await;
        }
    }
    assert!(machines.get_opt(&marked).await.unwrap().is_none(), "the marked Machine still exists");
    lines
}

fn delay(world: &World, method: &str, path: &str) {
    world.cloud.inject(InjectedFault {
        method: Some(method.to_owned()),
        path: Some(path.to_owned()),
        ..InjectedFault::new(FaultEffect::Delay { milliseconds: DELAY })
    });
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "its golden was recorded before the boots became slower; record it again with CAPSTAN_WRITE_GOLDENS=1"]
async fn argo_cd_flux_and_cluster_autoscaler_read_what_they_expect_at_each_phase() {
    let (world, hollow) = World::start_with_hollow_clusters().await.unwrap();
    let term = CancellationToken::new();
    let running = tests_scenarios::run(&world, &term);
    let clouds = world.cloud.clouds_yaml("demo");
    let clouds: String = clouds.lines().map(|line| format!("    {line}\n")).collect();
    let manifest = MANIFEST.replace("NAMESPACE", "health").replace("CLOUDS\n", &clouds);
    let template = Template::new("health", &manifest);
    let progress = Progress::new(&world, &template);
    let mut looker = Looker { client: world.admin(), namespace: "health", lines: Vec::new() };

    hollow.boot_delay(BOOT);
    world.apply("health", &template.documents(&world.cloud.address(), "")).await.unwrap();
    looker.rest("pending", "Pending").await;
    delay(&world, "POST", "/servers");
    looker.rest("provisioning", "Provisioning").await;
    world.cloud.clear_faults();
    looker.rest("provisioned", "Provisioned").await;
    hollow.boot_delay(Duration::from_millis(50));
    progress.until_available().await.unwrap();
    looker.rest("running", "Running").await;
    let autoscaled = autoscale(&world.admin(), "health").await;
    looker.lines.extend(autoscaled);
    delay(&world, "DELETE", "/servers/");
    progress.clusters().delete(&progress.cluster, &DeleteParams::background()).await.unwrap();
    looker.rest("deleting", "Deleting").await;
    world.cloud.clear_faults();
    progress.until_gone().await.unwrap();
    term.cancel();
    running.join_all().await;

    let found = looker.lines.join("\n") + "\n";
    let manifest = PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR").unwrap());
    let golden = manifest.join("tests/templates/health.txt");
    if std::env::var_os("CAPSTAN_WRITE_GOLDENS").is_some() {
        std::fs::write(&golden, &found).unwrap();
    }
    assert_eq!(found, std::fs::read_to_string(golden).unwrap());
}
