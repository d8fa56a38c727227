//! Actions and verbs on a whole Capstan behind a host, started by the real kubectl. The workload cluster shows their
//! effects, and the messages of errors reach a person.

mod machines;
mod program;
mod refusals;
mod rollouts;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use serde_json::Value;
use tests_hollow_cluster::{HollowClusters, HollowOptions};
use tests_openstack_simulator::{Simulator, SimulatorOptions};

use super::observer::Observer;
use program::Kubectl;

/// Variables with the path of a kubeconfig: for the kube-apiserver of the host, and for the direct endpoint.
const HOST: &str = "CAPSTAN_HOST_KUBECONFIG";
const DIRECT: &str = "CAPSTAN_DIRECT_KUBECONFIG";

const NAMESPACE: &str = "driven";

/// Owners of the Machines of the manifest.
const WORKERS: &str = "blue-md-0";
const CONTROL_PLANE: &str = "blue-control-plane";

/// Label of the Nodes of a control plane.
const CONTROL_PLANE_ROLE: &str = "node-role.kubernetes.io/control-plane";

/// Longest wait for a state: five times as long as the slowest one needs on a quiet machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// Interval between two looks. Each look starts a process.
const INTERVAL: Duration = Duration::from_millis(200);

/// Capstan behind a host, with a cluster of hollow nodes.
struct Scene {
    /// The endpoint of the host.
    host: Kubectl,
    /// The endpoint of Capstan.
    direct: Kubectl,
    /// The API of the workload cluster.
    workload: Kubectl,
}

/// Machine with its Node.
struct Worker {
    machine: String,
    node: String,
}

/// Waits for a state. `look` returns the text that is missing.
async fn until<T>(state: &str, mut look: impl AsyncFnMut() -> Result<T, String>) -> T {
    let begun = Instant::now();
    loop {
        match look().await {
            Ok(found) => return found,
            Err(missing) => assert!(begun.elapsed() < PATIENCE, "waiting until {state}: {missing}"),
        }
        tokio::time::sleep(INTERVAL).await;
    }
}

/// Returns the path of a verb on a Machine, a MachineDeployment or a Cluster.
fn path(resource: &str, name: &str, verb: &str) -> String {
    format!("/apis/cluster.x-k8s.io/v1beta2/namespaces/{NAMESPACE}/{resource}/{name}/{verb}")
}

/// Returns the path of a verb on the control plane.
fn path_of_control_plane(verb: &str) -> String {
    let group = "controlplane.cluster.x-k8s.io/v1beta2";
    format!("/apis/{group}/namespaces/{NAMESPACE}/kubeadmcontrolplanes/{CONTROL_PLANE}/{verb}")
}

impl Scene {
    /// Creates the cluster, and waits until it is available. `folder` gets the kubeconfig of the workload cluster.
    async fn start(cloud: &Simulator, folder: &Path) -> (Self, Observer) {
        let at = |variable: &str, name: &str| Kubectl::new(program::variable(variable), folder.join(name));
        let (host, direct) = (at(HOST, "host"), at(DIRECT, "direct"));
        let manifest = super::manifest_of(cloud, NAMESPACE);
        // The namespace and the credentials are Capstan's own: the host has neither.
        direct.attempt(&["create", "-f", "-"], &manifest).await.unwrap();
        let kubeconfig = Kubeconfig::read_from(program::variable(DIRECT)).unwrap();
        let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
        let observer = Observer::of(Client::try_from(config).unwrap(), NAMESPACE);
        observer.until_available(1, 1).await;
        observer.until_nodes_are_ready(2).await;
        let workload = Kubectl::new(workload_kubeconfig(&direct, folder).await, folder.join("cache"));
        (Self { host, direct, workload }, observer)
    }

    /// Returns the worker that is not being deleted and has a Node.
    async fn worker(&self) -> Worker {
        until("there is a worker with a Node", async || {
            let selector = "!cluster.x-k8s.io/control-plane";
            let machines = self.host.json(&["get", "machines", "-l", selector]).await?;
            let workers = machines["items"].as_array().into_iter().flatten();
            let mut workers = workers.filter(|it| it.pointer("/metadata/deletionTimestamp").is_none());
            let found = workers.find_map(|it| {
                let node = it.pointer("/status/nodeRef/name")?.as_str()?.to_owned();
                Some(Worker { machine: it["metadata"]["name"].as_str()?.to_owned(), node })
            });
            found.ok_or_else(|| machines.to_string())
        })
        .await
    }

    /// Waits until the Events of a Machine have these reasons.
    async fn until_events(&self, machine: &str, reasons: &[&str]) {
        let field = format!("involvedObject.name={machine}");
        until("the Machine has its Events", async || {
            let events = self.direct.json(&["get", "events", "--field-selector", &field]).await?;
            let items = events["items"].as_array().into_iter().flatten();
            let found: Vec<&str> = items.filter_map(|event| event["reason"].as_str()).collect();
            let missing = reasons.iter().find(|reason| !found.contains(*reason));
            missing.map_or(Ok(()), |missing| Err(format!("{missing} is not among {found:?}")))
        })
        .await;
    }

    /// Returns a Node of the workload cluster.
    async fn node(&self, name: &str) -> Result<Value, String> {
        self.workload.json(&["get", "node", name]).await
    }
}

/// Writes the kubeconfig of the workload cluster to a file. Returns its path.
async fn workload_kubeconfig(direct: &Kubectl, folder: &Path) -> PathBuf {
    let secret = direct.output(&["get", "secret", "blue-kubeconfig", "-o", "jsonpath={.data.value}"]).await;
    let path = folder.join("workload.kubeconfig");
    std::fs::write(&path, STANDARD.decode(secret.trim()).unwrap()).unwrap();
    path
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs kubectl, and Capstan behind a host cluster; `cargo xtask e2e --only clients` runs it"]
async fn kubectl_starts_actions_and_verbs_whose_effects_the_workload_cluster_shows() {
    // Another test of the same process may have done so.
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let options = SimulatorOptions {
        external_cidr: tests_hollow_cluster::loopback_range(),
        ..SimulatorOptions::default()
    };
    let cloud = Simulator::start(options).await.unwrap();
    let hollow = HollowClusters::start(cloud.hypervisor(), HollowOptions::default());
    let empty = tests_scenarios::counts(&cloud);
    let folder = tempfile::tempdir().unwrap();
    let (scene, observer) = Scene::start(&cloud, folder.path()).await;

    let worker = scene.worker().await;
    refusals::check(&scene, &worker).await;
    machines::cordon_and_uncordon(&scene, &worker).await;
    machines::drain(&scene, &worker).await;
    machines::cancel_retirement(&scene, &worker).await;
    rollouts::plans(&scene).await;
    rollouts::rollback(&scene, &worker).await;
    rollouts::restart_workers(&scene, &worker).await;
    machines::retire(&scene, &scene.worker().await).await;
    rollouts::restart_control_plane(&scene).await;

    scene.host.output(&["delete", "cluster", "blue", "--timeout=60s"]).await;
    observer.until_gone().await;
    assert_eq!(tests_scenarios::counts(&cloud), empty, "the deleted cluster left resources behind");
    drop(hollow);
}
