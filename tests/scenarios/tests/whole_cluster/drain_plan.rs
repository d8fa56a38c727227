//! Drains in plans of a hollow cluster: a plan names the budgets that refuse evictions, and is complete without a workload
//! cluster that does not answer.

use apiserver_types::Machine;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};
use tests_hollow_cluster::{EndpointFault, WorkloadCall, WorkloadEffect, WorkloadFault};
use tests_scenarios::World;
use tokio_util::sync::CancellationToken;

use super::looks::Looks;
use super::observer::Observer;
use super::{manifest, pods};

const NAMESPACE: &str = "foreseen";

/// Plan of the workers.
const PLAN: &str = "machinedeployments/blue-md-0/plan";

/// Change of a budget after which it does not allow an eviction.
const REMEDY: &str = "Scale up its workload, lower spec.minAvailable of the budget, or delete the budget";

/// Begin of the sentence about a workload cluster that cannot be read.
const UNREAD: &str =
    "The drains are not checked, because the budgets of Cluster foreseen/blue were not read: ";

/// Posts a body to a verb. Returns the plan.
async fn post(world: &World, verb: &str, body: &Value) -> Value {
    let path = format!("/apis/cluster.x-k8s.io/v1beta2/namespaces/{NAMESPACE}/{verb}");
    world.post(&path, body).await.unwrap()
}

/// Returns the sentences about the drains of a plan.
fn drains(plan: &Value) -> Vec<&str> {
    plan["drains"].as_array().unwrap().iter().map(|line| line.as_str().unwrap()).collect()
}

fn budgets(workload: &Client) -> Api<PodDisruptionBudget> {
    Api::default_namespaced(workload.clone())
}

/// Creates a budget that needs the only pod, and waits for its status.
async fn protect(workload: &Client) {
    let spec = json!({"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}});
    let budget = serde_json::from_value(json!({"metadata": {"name": "web"}, "spec": spec})).unwrap();
    budgets(workload).create(&PostParams::default(), &budget).await.unwrap();
    let mut looks = Looks::begin();
    loop {
        let status = budgets(workload).get("web").await.unwrap().status.unwrap_or_default();
        if (status.expected_pods, status.current_healthy) == (1, 1) {
            return;
        }
        looks.again(&format!("the status of the budget: {status:?}")).await;
    }
}

/// Lets the budget have allowed no eviction for years.
async fn age(workload: &Client) {
    let condition = json!({
        "type": "DisruptionAllowed", "status": "False", "reason": "InsufficientPods", "message": "",
        "lastTransitionTime": "2020-01-01T00:00:00Z",
    });
    let change = Patch::Merge(json!({"status": {"conditions": [condition]}}));
    budgets(workload).patch_status("web", &PatchParams::default(), &change).await.unwrap();
}

/// Runs a pod on the worker that is Ready. Returns its name.
async fn run_pod(workload: &Client) -> String {
    pods::run_on_workers(workload).await;
    let api: Api<Pod> = Api::default_namespaced(workload.clone());
    let name = api.list(&ListParams::default()).await.unwrap().items.remove(0).name_any();
    let ready = json!({"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}});
    api.patch_status(&name, &PatchParams::default(), &Patch::Merge(&ready)).await.unwrap();
    name
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plan_names_the_budgets_that_refuse_its_drains_and_does_not_wait_for_a_silent_workload_cluster() {
    let (world, hollow) = World::start_with_hollow_clusters().await.unwrap();
    let term = CancellationToken::new();
    let running = tests_scenarios::run(&world, &term);
    world.create(&manifest(&world, NAMESPACE)).await.unwrap();
    let observer = Observer::new(&world, NAMESPACE);
    observer.until_available(1, 1).await;
    let workload = observer.workload().await;
    let pod = run_pod(&workload).await;
    let machines: Api<Machine> = Api::namespaced(world.admin(), NAMESPACE);
    let worker = ListParams::default().labels("!cluster.x-k8s.io/control-plane");
    let machine = machines.list(&worker).await.unwrap().items.remove(0).name_any();

    let none = json!({"spec": {"replicas": 0}});
    assert_eq!(drains(&post(&world, PLAN, &none).await), [""; 0], "there is no budget");
    protect(&workload).await;
    assert_eq!(drains(&post(&world, PLAN, &json!({})).await), [""; 0], "no Machine goes");
    let line = format!(
        "Machine {machine} cannot be drained now: PodDisruptionBudget default/web refuses evictions now: it needs 1 healthy \
         Pods, and has 1. {REMEDY}"
    );
    assert_eq!(drains(&post(&world, PLAN, &none).await), [line]);
    age(&workload).await;
    let line = format!(
        "Machine {machine} cannot be drained now: PodDisruptionBudget default/web will never allow an eviction: it needs 1 \
         healthy Pods, and its workload has 1. {REMEDY}"
    );
    let upgrade = post(&world, "clusters/blue/upgrade", &json!({"version": "v1.34.0", "dryRun": true})).await;
    assert_eq!(drains(&upgrade), [line], "{upgrade:#}");
    let whole = post(&world, "clusters/blue/plan", &json!({})).await;
    assert_eq!(drains(&whole), [""; 0], "the Cluster stays as it is");
    let found = Api::<Pod>::default_namespaced(workload).get(&pod).await.unwrap();
    assert!(found.metadata.deletion_timestamp.is_none(), "a plan evicts nothing");

    let call = Some(WorkloadCall { verb: "list", resource: "poddisruptionbudgets".to_owned() });
    hollow.inject(WorkloadFault { endpoint: None, call, effect: WorkloadEffect::Hang, count: None });
    let silent = post(&world, PLAN, &none).await;
    // In other words than those of the limit of a single call, which is ten seconds.
    let [line] = drains(&silent)[..] else { panic!("{silent:#}") };
    assert!(line.starts_with(UNREAD) && line.contains("did not answer in time"), "{line}");
    assert_eq!(silent["summary"]["delete"], 1, "the rest of the plan is complete");
    hollow.clear_faults();

    hollow.endpoint_fault(Some(EndpointFault::Refuse));
    let mut looks = Looks::begin();
    loop {
        let refused = post(&world, PLAN, &none).await;
        let lines = drains(&refused);
        if matches!(lines[..], [line] if line.starts_with(UNREAD) && line.contains("Connection refused")) {
            break;
        }
        looks.again(&format!("the refused connection in {lines:?}")).await;
    }
    hollow.endpoint_fault(None);
    term.cancel();
    running.join_all().await;
    drop(hollow);
}
