//! Commands of the real clusterctl: it describes a cluster, rolls it out, and moves it to a second Capstan and back.

use std::collections::BTreeSet;
use std::path::PathBuf;

use apiserver_types::{KubeadmControlPlane, Machine, MachineDeployment};
use k8s_openapi::api::core::v1::Secret;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use kube::{Api, Resource, ResourceExt};
use serde::de::DeserializeOwned;
use serde_json::json;
use tests_openstack_simulator::Simulator;
use tests_scenarios::World;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::looks::Looks;
use super::observer::Observer;

/// Variable with the path of clusterctl.
const CLUSTERCTL: &str = "CAPSTAN_CLUSTERCTL";

const NAMESPACE: &str = "moved";

/// MachineDeployment and KubeadmControlPlane, as `clusterctl alpha rollout` takes them.
const WORKERS: &str = "blue-md-0";
const CONTROL_PLANE: &str = "blue-control-plane";

/// Annotation of a paused object.
const PAUSED: &str = "cluster.x-k8s.io/paused";

/// A Capstan that clusterctl reaches.
struct Site {
    world: World,
    observer: Observer,
    kubeconfig: PathBuf,
}

impl Site {
    async fn start(world: World, name: &str, folder: &std::path::Path, tasks: &mut JoinSet<()>) -> Self {
        let kubeconfig = folder.join(name);
        std::fs::write(&kubeconfig, world.listen(tasks).await.unwrap()).unwrap();
        Self { observer: Observer::new(&world, NAMESPACE), world, kubeconfig }
    }

    fn api<K>(&self) -> Api<K>
    where
        K: Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>,
    {
        Api::namespaced(self.world.admin(), NAMESPACE)
    }

    /// Runs clusterctl. Returns its output.
    async fn clusterctl(&self, arguments: &[&str]) -> String {
        let program = std::env::var_os(CLUSTERCTL).unwrap_or_else(|| panic!("{CLUSTERCTL} is not set"));
        let mut command = tokio::process::Command::new(program);
        command.args(arguments).args(["--namespace", NAMESPACE]).arg("--kubeconfig").arg(&self.kubeconfig);
        command.env("CLUSTERCTL_DISABLE_VERSIONCHECK", "true");
        command.env("XDG_CONFIG_HOME", self.kubeconfig.parent().unwrap());
        let output = command.output().await.unwrap();
        let text =
            [output.stdout, output.stderr].map(|it| String::from_utf8_lossy(&it).into_owned()).concat();
        assert!(output.status.success(), "clusterctl {}: {text}", arguments.join(" "));
        text
    }

    async fn machines(&self) -> BTreeSet<String> {
        let machines = self.api::<Machine>().list(&ListParams::default()).await.unwrap();
        machines.iter().map(ResourceExt::name_any).collect()
    }

    /// Waits until a Machine with this prefix is another one than before.
    async fn until_replaced(&self, before: &BTreeSet<String>, prefix: &str) {
        let mut looks = Looks::begin();
        loop {
            let now = self.machines().await;
            let old = now.iter().filter(|it| it.starts_with(prefix) && before.contains(*it));
            let old: Vec<&String> = old.collect();
            if old.is_empty() && now.len() == before.len() {
                break;
            }
            looks.again(&format!("the end of {old:?}")).await;
        }
        self.observer.until_available(1, 1).await;
    }

    async fn read<K>(&self, name: &str) -> K
    where
        K: Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>
            + Clone
            + std::fmt::Debug
            + DeserializeOwned,
    {
        self.api::<K>().get(name).await.unwrap()
    }

    /// Describes the cluster.
    async fn describe(&self) {
        let tree = self.clusterctl(&["describe", "cluster", "blue", "--show-conditions", "all"]).await;
        let mut expected: Vec<String> =
            self.machines().await.iter().map(|it| format!("Machine/{it}")).collect();
        let owners = ["Cluster/blue", "KubeadmControlPlane/", "MachineDeployment/", "OpenStackCluster/"];
        expected.extend(owners.map(str::to_owned));
        let tree = tree.replace(&format!(" {NAMESPACE}/"), "/");
        for part in expected {
            assert!(tree.contains(&part), "describe does not show {part}:\n{tree}");
        }
        assert!(tree.contains("Available"), "describe shows no condition:\n{tree}");
    }

    /// Rolls the workers and the control plane out, and pauses both.
    async fn roll_out(&self) {
        let (workers, plane) =
            (format!("machinedeployment/{WORKERS}"), format!("kubeadmcontrolplane/{CONTROL_PLANE}"));
        for resource in [&workers, &plane] {
            self.clusterctl(&["alpha", "rollout", "pause", resource]).await;
        }
        assert_eq!(self.read::<MachineDeployment>(WORKERS).await.spec.paused, Some(true));
        let paused = self.read::<KubeadmControlPlane>(CONTROL_PLANE).await;
        assert!(paused.annotations().contains_key(PAUSED), "{:?}", paused.annotations());
        for resource in [&workers, &plane] {
            self.clusterctl(&["alpha", "rollout", "resume", resource]).await;
        }
        assert_ne!(self.read::<MachineDeployment>(WORKERS).await.spec.paused, Some(true));
        let resumed = self.read::<KubeadmControlPlane>(CONTROL_PLANE).await;
        assert!(!resumed.annotations().contains_key(PAUSED));
        for (resource, prefix) in [(&workers, WORKERS), (&plane, CONTROL_PLANE)] {
            let before = self.machines().await;
            // Upstream's command takes the present second, and a Machine of the same second is not older.
            tokio::time::sleep(std::time::Duration::from_millis(1100)).await;
            self.clusterctl(&["alpha", "rollout", "restart", resource]).await;
            self.until_replaced(&before, prefix).await;
        }
    }

    /// Moves the cluster to another Capstan.
    async fn move_to(&self, other: &Self, cloud: &Simulator) {
        let servers = ids_of_servers(cloud);
        let before = self.machines().await;
        let target = other.kubeconfig.display().to_string();
        self.clusterctl(&["move", "--to-kubeconfig", &target]).await;
        assert!(self.observer.is_gone().await, "the source still has the cluster");
        let secrets = self.api::<Secret>().list(&ListParams::default()).await.unwrap();
        let left: Vec<String> = secrets.iter().map(ResourceExt::name_any).collect();
        assert_eq!(left, Vec::<String>::new(), "the source still has Secrets");
        other.observer.until_available(1, 1).await;
        other.observer.until_nodes_are_ready(2).await;
        assert_eq!(other.machines().await, before);
        assert_eq!(ids_of_servers(cloud), servers, "no server is made again");
    }

    /// Scales the workers up and down.
    async fn scale(&self) {
        for replicas in [2, 1] {
            super::scale(&self.api::<MachineDeployment>(), WORKERS, replicas).await;
            self.observer.until_available(1, usize::try_from(replicas).unwrap()).await;
        }
    }
}

/// Returns the ids of the servers.
fn ids_of_servers(cloud: &Simulator) -> BTreeSet<String> {
    cloud.inventory("demo").servers.into_iter().map(|server| server.id).collect()
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs clusterctl; `cargo xtask e2e --only clients` runs it"]
async fn clusterctl_describes_rolls_out_and_moves_a_cluster_to_a_second_capstan_and_back() {
    let (world, hollow) = World::start_with_hollow_clusters().await.unwrap();
    let empty = world.counts();
    let manifest = super::manifest(&world, NAMESPACE);
    let folder = tempfile::tempdir().unwrap();
    let (mut connections, term) = (JoinSet::new(), CancellationToken::new());
    let first = Site::start(world, "first", folder.path(), &mut connections).await;
    let second = Site::start(World::start().await.unwrap(), "second", folder.path(), &mut connections).await;
    let running = [&first, &second].map(|site| tests_scenarios::run(&site.world, &term));

    first.world.create(&manifest).await.unwrap();
    // The credentials belong to no cluster, so their user has them moved by a label.
    let label = Patch::Merge(json!({"metadata": {"labels": {"clusterctl.cluster.x-k8s.io/move": ""}}}));
    first.api::<Secret>().patch("credentials", &PatchParams::default(), &label).await.unwrap();
    first.observer.until_available(1, 1).await;
    first.observer.until_nodes_are_ready(2).await;
    first.describe().await;
    first.roll_out().await;

    let cloud = &first.world.cloud;
    first.move_to(&second, cloud).await;
    second.describe().await;
    second.scale().await;
    second.move_to(&first, cloud).await;
    first.scale().await;

    first.observer.clusters().delete("blue", &DeleteParams::background()).await.unwrap();
    first.observer.until_gone().await;
    assert_eq!(first.world.counts(), empty, "the moved cluster left resources behind");
    term.cancel();
    for set in running {
        set.join_all().await;
    }
    drop(hollow);
}
