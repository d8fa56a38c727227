//! Whole cluster on hollow clusters: one control plane Machine, two workers, and a health check of the workers.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use apiserver_types::{Machine, MachineHealthCheck};
use k8s_openapi::api::core::v1::Secret;
use kube::api::ListParams;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, ResourceExt};
use tests_hollow_cluster::HollowClusters;
use tests_scenarios::World;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// Cluster with one control plane Machine and one worker.
const MANIFEST: &str = include_str!("../whole_cluster/cluster.yaml");

/// Health check of the workers.
const CHECK: &str = "
---
apiVersion: cluster.x-k8s.io/v1beta2
kind: MachineHealthCheck
metadata: {name: workers, namespace: NAMESPACE}
spec:
  clusterName: blue
  selector: {matchLabels: {cluster.x-k8s.io/deployment-name: blue-md-0}}
  checks:
    nodeStartupTimeoutSeconds: 600
    unhealthyNodeConditions:
      - {type: Ready, status: Unknown, timeoutSeconds: 1}
      - {type: Ready, status: \"False\", timeoutSeconds: 600}
  remediation: {triggerIf: {unhealthyLessThanOrEqualTo: 1}}
";

/// Time in which every state must come. A quiet machine needs a tenth of it.
const LIMIT: Duration = Duration::from_secs(120);

pub(crate) struct Scene {
    pub(crate) world: World,
    pub(crate) hollow: HollowClusters,
    namespace: &'static str,
    term: CancellationToken,
    running: JoinSet<()>,
}

impl Scene {
    /// Starts a cluster with two workers that are healthy.
    pub(crate) async fn start(namespace: &'static str) -> Self {
        let (world, hollow) = World::start_with_hollow_clusters().await.unwrap();
        let world = world.with_workload_timing(controllers_workload::Timing::faster(20));
        let term = CancellationToken::new();
        let running = tests_scenarios::run(&world, &term);
        let clouds = world.cloud.clouds_yaml("demo");
        let clouds: String = clouds.lines().map(|line| format!("    {line}\n")).collect();
        let manifest = format!("{MANIFEST}{CHECK}").replace("NAMESPACE", namespace);
        let manifest = manifest.replace(
            "replicas: 1\n  selector:\n    matchLabels: null",
            "replicas: 2\n  selector:\n    matchLabels: null",
        );
        world.create(&manifest.replace("CLOUDS\n", &clouds)).await.unwrap();
        let scene = Self { world, hollow, namespace, term, running };
        scene.until("two healthy workers", async || scene.healthy().await == Some(2)).await;
        scene
    }

    pub(crate) fn api<K>(&self) -> Api<K>
    where
        K: kube::Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>,
    {
        Api::namespaced(self.world.admin(), self.namespace)
    }

    pub(crate) async fn until(&self, what: &str, is_so: impl AsyncFn() -> bool) {
        let begun = Instant::now();
        while !is_so().await {
            if begun.elapsed() > LIMIT {
                let machines = self.workers().await;
                panic!("not there: {what}\n{:#?}\n{machines:#?}", self.check().await);
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    pub(crate) async fn check(&self) -> MachineHealthCheck {
        self.api::<MachineHealthCheck>().get("workers").await.unwrap()
    }

    pub(crate) async fn healthy(&self) -> Option<i32> {
        self.check().await.status?.current_healthy
    }

    pub(crate) async fn workers(&self) -> Vec<Machine> {
        let params = ListParams::default().labels("cluster.x-k8s.io/deployment-name=blue-md-0");
        self.api::<Machine>().list(&params).await.unwrap().items
    }

    pub(crate) async fn names(&self) -> Vec<String> {
        self.workers().await.iter().map(ResourceExt::name_any).collect()
    }

    pub(crate) async fn is_replaced(&self, name: &str) -> bool {
        let names = self.names().await;
        names.len() == 2 && !names.iter().any(|it| it == name) && self.healthy().await == Some(2)
    }

    pub(crate) async fn node_of(&self, machine: &str) -> String {
        let machines = self.api::<Machine>();
        let node = async || machines.get(machine).await.unwrap().status?.node_ref;
        self.until("the Node of a Machine", async || node().await.is_some()).await;
        node().await.unwrap().name
    }

    pub(crate) async fn workload(&self) -> Client {
        let secret = self.api::<Secret>().get("blue-kubeconfig").await.unwrap();
        let text = String::from_utf8(secret.data.unwrap()["value"].0.clone()).unwrap();
        let kubeconfig = Kubeconfig::from_yaml(&text).unwrap();
        let config = kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await;
        Client::try_from(config.unwrap()).unwrap()
    }

    pub(crate) fn endpoint(&self) -> SocketAddr {
        self.hollow.endpoints()[0]
    }

    pub(crate) async fn end(self) {
        self.term.cancel();
        self.running.join_all().await;
    }
}
