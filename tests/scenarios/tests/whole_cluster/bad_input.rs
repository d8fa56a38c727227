//! Workload APIs and kubeconfigs that cannot be used: a condition names object, field, cause and remedy.

use std::time::{Duration, Instant};

use apiserver_types::Cluster;
use controllers_workload::Timing;
use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use kube::api::{DeleteParams, PostParams};
use serde_json::{Value, json};
use tests_hollow_cluster::{HollowClusters, WorkloadEffect, WorkloadFault};
use tests_scenarios::World;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::manifest;
use super::observer::Observer;

/// Time limit of a condition. A quiet machine needs a tenth of it.
const LIMIT: Duration = Duration::from_secs(120);

const NAMESPACE: &str = "bad";
const SECRET: &str = "blue-kubeconfig";

/// Waits until the condition of the connection says all of these texts.
async fn until_told(observer: &Observer, texts: &[&str]) {
    let begun = Instant::now();
    loop {
        let cluster: Cluster = observer.clusters().get("blue").await.unwrap();
        let condition = cluster.condition("RemoteConnectionProbe").cloned();
        let message = condition.map(|it| format!("{:?} {}", it.status, it.message)).unwrap_or_default();
        if message.starts_with("False") && texts.iter().all(|text| message.contains(text)) {
            return;
        }
        assert!(begun.elapsed() < LIMIT, "not told: {texts:?}, but {message}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// Returns a kubeconfig of a user, which no controller replaces.
fn secret(value: &str) -> Secret {
    let metadata = json!({"name": SECRET, "labels": {"cluster.x-k8s.io/cluster-name": "blue"}});
    serde_json::from_value(json!({"metadata": metadata, "type": "Opaque", "stringData": {"value": value}}))
        .unwrap()
}

/// Replaces the Secret with another one.
async fn replace(secrets: &Api<Secret>, value: &str) {
    secrets.delete(SECRET, &DeleteParams::default()).await.unwrap();
    let begun = Instant::now();
    while let Err(error) = secrets.create(&PostParams::default(), &secret(value)).await {
        // The control plane may have made a new one first.
        assert!(begun.elapsed() < LIMIT, "{error}");
        let _ = secrets.delete(SECRET, &DeleteParams::default()).await;
    }
}

/// Test of one namespace, whose process begins anew for each mistake: a new one reports at once.
struct Case {
    world: World,
    hollow: HollowClusters,
    observer: Observer,
    secrets: Api<Secret>,
    running: JoinSet<()>,
}

impl Case {
    async fn start() -> Self {
        let (world, hollow) = World::start_with_hollow_clusters().await.unwrap();
        let world = world.with_workload_timing(Timing::faster(20));
        let observer = Observer::new(&world, NAMESPACE);
        let secrets = Api::namespaced(world.admin(), NAMESPACE);
        Self { world, hollow, observer, secrets, running: JoinSet::new() }
    }

    async fn restart(&mut self) {
        self.running.shutdown().await;
        self.running = tests_scenarios::run(&self.world, &CancellationToken::new());
    }

    /// Creates the objects of a cluster whose kubeconfig is not YAML.
    async fn create(&self) {
        let namespace = json!({"metadata": {"name": NAMESPACE}});
        let _: Value = self.world.post("/api/v1/namespaces", &namespace).await.unwrap();
        self.secrets.create(&PostParams::default(), &secret("clusters: [")).await.unwrap();
        let documents = manifest(&self.world, NAMESPACE);
        let (_, documents) = documents.split_once("---\n").unwrap();
        self.world.create(documents).await.unwrap();
    }

    /// Gives the cluster a kubeconfig with the authority of etcd, and returns the right one.
    async fn confuse(&self) -> String {
        let made = self.secrets.get(SECRET).await.unwrap();
        let made = String::from_utf8(made.data.unwrap()["value"].0.clone()).unwrap();
        let other = self.secrets.get("blue-etcd").await.unwrap();
        let other = serde_json::to_value(&other.data.unwrap()["tls.crt"]).unwrap();
        let mut kubeconfig: Value = serde_saphyr::from_str(&made).unwrap();
        kubeconfig["clusters"][0]["cluster"]["certificate-authority-data"] = other;
        replace(&self.secrets, &kubeconfig.to_string()).await;
        made
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kubeconfig_or_a_workload_api_that_cannot_be_used_is_named_with_cause_and_remedy() {
    let mut case = Case::start().await;
    let before = serde_json::to_value(case.world.cloud.inventory("demo")).unwrap();
    case.create().await;
    case.restart().await;
    let unusable = "the kubeconfig of the workload cluster cannot be used: ";
    until_told(&case.observer, &[unusable, "Correct the key value of Secret bad/blue-kubeconfig"]).await;
    case.secrets.delete(SECRET, &DeleteParams::default()).await.unwrap();
    case.observer.until_available(1, 1).await;

    let right = case.confuse().await;
    case.restart().await;
    let field = "Correct certificate-authority-data of Secret bad/blue-kubeconfig";
    until_told(&case.observer, &["an authority that the kubeconfig does not contain", field]).await;
    replace(&case.secrets, &right).await;
    case.observer.until_available(1, 1).await;

    let effect = WorkloadEffect::Html { code: 200 };
    case.hollow.inject(WorkloadFault { endpoint: None, call: None, effect, count: None });
    case.restart().await;
    let field = "spec.controlPlaneEndpoint of Cluster bad/blue";
    until_told(&case.observer, &["answered GET / with HTML", "a proxy in between", field]).await;
    case.hollow.clear_faults();
    case.observer.until_available(1, 1).await;

    case.observer.clusters().delete("blue", &DeleteParams::background()).await.unwrap();
    case.observer.until_gone().await;
    let after = serde_json::to_value(case.world.cloud.inventory("demo")).unwrap();
    assert_eq!(after, before, "the project is not as it was");
}
