//! Time limit of a drain on a hollow cluster: a budget that permits no eviction blocks it until the limit.

use std::time::{Duration, Instant};

use apiserver_types::{Machine, MachineDeployment};
use k8s_openapi::api::core::v1::{Event, Pod};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt};
use serde_json::json;
use tests_scenarios::World;
use tokio_util::sync::CancellationToken;

use super::looks::Looks;
use super::observer::Observer;
use super::{manifest, pods};

const NAMESPACE: &str = "limited";

/// Time limit of the drain. Unit: seconds.
const LIMIT: u64 = 5;

#[tokio::test(flavor = "multi_thread")]
async fn a_blocked_drain_ends_with_its_time_limit_and_not_before() {
    let (world, hollow) = World::start_with_hollow_clusters().await.unwrap();
    let term = CancellationToken::new();
    let running = tests_scenarios::run(&world, &term);
    world.create(&manifest(&world, NAMESPACE)).await.unwrap();
    let observer = Observer::new(&world, NAMESPACE);
    observer.until_available(1, 1).await;
    let workload = observer.workload().await;
    pods::run_on_workers(&workload).await;
    let ready = json!({"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}});
    let workload_pods: Api<Pod> = Api::default_namespaced(workload.clone());
    let pod = workload_pods.list(&ListParams::default()).await.unwrap().items.remove(0).name_any();
    workload_pods.patch_status(&pod, &PatchParams::default(), &Patch::Merge(&ready)).await.unwrap();
    let budgets: Api<PodDisruptionBudget> = Api::default_namespaced(workload);
    let budget = json!({"metadata": {"name": "web"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}}});
    budgets.create(&PostParams::default(), &serde_json::from_value(budget).unwrap()).await.unwrap();

    let deployments: Api<MachineDeployment> = Api::namespaced(world.admin(), NAMESPACE);
    let limit = json!({"spec": {"template": {"spec": {"deletion": {"nodeDrainTimeoutSeconds": LIMIT}}}}});
    deployments.patch("blue-md-0", &PatchParams::default(), &Patch::Merge(&limit)).await.unwrap();
    let machines: Api<Machine> = Api::namespaced(world.admin(), NAMESPACE);
    let worker = ListParams::default().labels("!cluster.x-k8s.io/control-plane");
    let mut looks = Looks::begin();
    let machine = loop {
        let machine = machines.list(&worker).await.unwrap().items.remove(0);
        let deletion = machine.spec.deletion.clone().unwrap_or_default();
        if deletion.node_drain_timeout_seconds.is_some() {
            break machine.name_any();
        }
        looks.again("the limit of the Machine").await;
    };
    machines.delete(&machine, &DeleteParams::default()).await.unwrap();
    let mut looks = Looks::begin();
    loop {
        let found = machines.get(&machine).await.unwrap().condition("Deleting").cloned();
        let message = found.map(|it| it.message).unwrap_or_default();
        if message.contains("cannot evict pod as it would violate") {
            break;
        }
        looks.again(&format!("the budget in {message:?}")).await;
    }
    let blocked = Instant::now();
    observer.until_deleted(Some(&machine)).await;
    // The drain begins before the message is visible.
    let least = Duration::from_secs(LIMIT - 2);
    assert!(blocked.elapsed() >= least, "the drain ended after {:?}", blocked.elapsed());
    let events: Api<Event> = Api::namespaced(world.admin(), NAMESPACE);
    let given_up = events.list(&ListParams::default()).await.unwrap().items;
    let given_up: Vec<&Event> =
        given_up.iter().filter(|event| event.reason.as_deref() == Some("DrainGivenUp")).collect();
    let texts: Vec<&str> = given_up.iter().filter_map(|event| event.message.as_deref()).collect();
    assert!(matches!(texts[..], [text] if text.contains(&pod)), "the Event names the Pod {pod}: {texts:?}");
    observer.until_available(1, 1).await;
    term.cancel();
    running.join_all().await;
    drop(hollow);
}
