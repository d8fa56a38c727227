//! Test of the cleanup of a workload cluster before its Machines are deleted.

use std::time::{Duration, Instant};

use apiserver_types::MachineDeployment;
use k8s_openapi::api::core::v1::Service;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use serde_json::json;
use tests_scenarios::World;
use tokio_util::sync::CancellationToken;

use super::observer::Observer;

/// Finalizer by which OpenStack's cloud provider keeps a Service until its load balancer is gone.
const FINALIZER: &str = "service.kubernetes.io/load-balancer-cleanup";

/// Time within which a controller makes a pass.
const LIMIT: Duration = Duration::from_secs(60);

fn service(kind: &str) -> Service {
    let spec = json!({"type": kind, "ports": [{"port": 80}]});
    let metadata = json!({"name": kind.to_lowercase(), "finalizers": [FINALIZER]});
    serde_json::from_value(json!({"metadata": metadata, "spec": spec})).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn r17_4_services_with_a_load_balancer_are_deleted_before_the_machines() {
    let (world, hollow) = World::start_with_hollow_clusters().await.unwrap();
    let term = CancellationToken::new();
    let running = tests_scenarios::run(&world, &term);
    let namespace = "cleaned";
    world.create(&super::manifest(&world, namespace)).await.unwrap();
    let observer = Observer::new(&world, namespace);
    observer.until_available(1, 1).await;
    observer.until_nodes_are_ready(2).await;
    let services: Api<Service> = Api::default_namespaced(observer.workload().await);
    for kind in ["LoadBalancer", "ClusterIP"] {
        services.create(&PostParams::default(), &service(kind)).await.unwrap();
    }

    observer.clusters().delete("blue", &DeleteParams::background()).await.unwrap();
    let begun = Instant::now();
    loop {
        let cluster = observer.clusters().get("blue").await.unwrap();
        let deleting = cluster.condition("Deleting").cloned();
        let waits = deleting.filter(|it| it.reason == "WaitingForWorkloadCleanup");
        if waits.is_some_and(|it| it.message.contains("Service default/loadbalancer")) {
            break;
        }
        assert!(begun.elapsed() < LIMIT, "the deletion does not wait for the Service");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let of = |name: &'static str| {
        let services = services.clone();
        async move { services.get(name).await.unwrap().metadata.deletion_timestamp.is_some() }
    };
    assert!(of("loadbalancer").await && !of("clusterip").await);
    let deployments: Api<MachineDeployment> = Api::namespaced(world.admin(), namespace);
    let deployment = deployments.get("blue-md-0").await.unwrap();
    assert!(deployment.metadata.deletion_timestamp.is_none(), "the cloud provider runs on the Machines");

    // The cloud provider has deleted the load balancer.
    let done = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    services.patch("loadbalancer", &PatchParams::default(), &done).await.unwrap();
    observer.until_gone().await;
    term.cancel();
    running.join_all().await;
    drop(hollow);
}
