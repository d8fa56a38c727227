//! Test of upgrades that take the disk of a worker: its node joins again with its old user data.

use std::time::{Duration, Instant};

use apiserver_types::{KubeadmConfig, Machine, MachineOperation};
use k8s_openapi::api::core::v1::{Node, Secret};
use kube::api::ListParams;
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};
use tests_scenarios::{World, is_over};
use tokio_util::sync::CancellationToken;

use crate::observer::Observer;

/// Time limit of an upgrade. A slow machine needs a fifth of it.
const LIMIT: Duration = Duration::from_secs(120);

/// Interval between two looks.
const INTERVAL: Duration = Duration::from_millis(100);

/// Identity of a worker's server and Node.
struct Worker {
    name: String,
    machine_uid: String,
    server: String,
    node: Node,
}

impl Worker {
    async fn observe(world: &World, workload: &Client, namespace: &str) -> Self {
        let machines: Api<Machine> = Api::namespaced(world.admin(), namespace);
        let all = machines.list(&ListParams::default()).await.unwrap().items;
        let label = "cluster.x-k8s.io/control-plane";
        let machine = all.into_iter().find(|machine| !machine.labels().contains_key(label)).unwrap();
        assert!(!machine.annotations().contains_key("capstan.dev/rejoin"), "{:?}", machine.annotations());
        let node = machine.status.as_ref().unwrap().node_ref.clone().unwrap().name;
        Self {
            name: machine.name_any(),
            machine_uid: machine.uid().unwrap(),
            server: machine.spec.provider_id.clone().unwrap(),
            node: Api::<Node>::all(workload.clone()).get(&node).await.unwrap(),
        }
    }

    fn boot_id(&self) -> String {
        self.node.status.clone().unwrap().node_info.unwrap().boot_id
    }

    fn kubelet(&self) -> String {
        self.node.status.clone().unwrap().node_info.unwrap().kubelet_version
    }
}

/// Upgrades the worker, and waits for the end of the operation.
async fn upgrade(world: &World, namespace: &str, machine: &str, body: &Value) {
    let path = format!("/apis/cluster.x-k8s.io/v1beta2/namespaces/{namespace}/machines/{machine}/upgrade");
    let operation: MachineOperation = world.post(&path, body).await.unwrap();
    let operations: Api<MachineOperation> = Api::namespaced(world.admin(), namespace);
    let begun = Instant::now();
    loop {
        let now = operations.get(&operation.name_any()).await.unwrap();
        if is_over(&now) {
            assert!(now.condition("Complete").is_some_and(|it| it.holds()), "{:#?}", now.status);
            return;
        }
        assert!(begun.elapsed() < LIMIT, "not over after {LIMIT:?}: {:#?}", now.status);
        tokio::time::sleep(INTERVAL).await;
    }
}

/// Waits until the bootstrap token of a Machine is deleted in the workload cluster.
async fn until_the_token_is_deleted(world: &World, workload: &Client, namespace: &str, machine: &str) {
    let configs: Api<KubeadmConfig> = Api::namespaced(world.admin(), namespace);
    let join = configs.get(machine).await.unwrap().spec.join_configuration.unwrap();
    let token = join.discovery.unwrap().bootstrap_token.unwrap().token.unwrap();
    let name = format!("bootstrap-token-{}", &token[..6]);
    let secrets: Api<Secret> = Api::namespaced(workload.clone(), "kube-system");
    let begun = Instant::now();
    loop {
        if secrets.get_opt(&name).await.unwrap().is_none() {
            return;
        }
        assert!(begun.elapsed() < LIMIT, "Secret {name} is left");
        tokio::time::sleep(INTERVAL).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_is_rebuilt_or_replaced_joins_again_with_its_old_user_data() {
    let (world, hollow) = World::start_with_hollow_clusters().await.unwrap();
    let term = CancellationToken::new();
    let running = tests_scenarios::run(&world, &term);
    let namespace = "upgraded";
    // The worker's user data is of kubeadm's API v1beta3, and the new kubeadm's own is v1beta4.
    let manifest = crate::manifest(&world, namespace).replace("v1.33.0", "v1.30.0");
    world.create(&manifest).await.unwrap();
    let observer = Observer::new(&world, namespace);
    observer.until_available(1, 1).await;
    let workload = observer.workload().await;
    let created = Worker::observe(&world, &workload, namespace).await;
    until_the_token_is_deleted(&world, &workload, namespace, &created.name).await;

    let body = json!({"version": "v1.31.0", "strategy": "Rebuild"});
    upgrade(&world, namespace, &created.name, &body).await;
    observer.until_nodes_are_ready(2).await;
    until_the_token_is_deleted(&world, &workload, namespace, &created.name).await;
    let rebuilt = Worker::observe(&world, &workload, namespace).await;
    assert_eq!((&rebuilt.machine_uid, &rebuilt.server), (&created.machine_uid, &created.server));
    assert_ne!(rebuilt.node.uid(), created.node.uid(), "the same Node");
    assert_ne!(rebuilt.boot_id(), created.boot_id(), "the same boot");
    assert_eq!((created.kubelet().as_str(), rebuilt.kubelet().as_str()), ("v1.30.0", "v1.31.0"));
    assert_ne!(rebuilt.node.spec.as_ref().unwrap().unschedulable, Some(true));

    // kubeadm v1.32 does not join a control plane of v1.30, so the image has the same minor version.
    let image = json!({"filter": {"name": "ubuntu-2204-kube-v1.31.0"}});
    let body = json!({"version": "v1.31.1", "strategy": "Replace", "drain": false, "image": image});
    upgrade(&world, namespace, &created.name, &body).await;
    observer.until_nodes_are_ready(2).await;
    until_the_token_is_deleted(&world, &workload, namespace, &created.name).await;
    let replaced = Worker::observe(&world, &workload, namespace).await;
    assert_eq!(replaced.machine_uid, created.machine_uid);
    assert_ne!(replaced.server, created.server, "the same server");
    assert_ne!(replaced.node.uid(), rebuilt.node.uid(), "the same Node");
    assert_eq!(replaced.kubelet(), "v1.31.0");

    term.cancel();
    running.join_all().await;
    drop(hollow);
}
