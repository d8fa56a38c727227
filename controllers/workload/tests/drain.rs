//! Passes of a drain, against a server whose answers the test gives.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod scripted;

use std::time::{Duration, Instant};

use controllers_workload::drain::{
    BUDGET, DrainProgress, DrainWaiting, NEVER, RefusingBudgets, VolumeProgress, delete_node, drain,
    refusals, wait_for_volumes,
};
use controllers_workload::{KubeconfigConnector, WorkloadConnector};
use kube::Client;
use scripted::{Answer, Call, Scripted, failure, now};
use serde_json::{Value, json};

fn pod(name: &str, change: impl FnOnce(&mut Value)) -> Value {
    let mut pod = json!({
        "metadata": { "name": name, "namespace": "web", "uid": format!("uid-{name}") },
        "spec": { "containers": [], "terminationGracePeriodSeconds": 30 },
        "status": { "phase": "Running" },
    });
    change(&mut pod);
    pod
}

fn node(ready: &str, unschedulable: bool) -> Answer {
    let conditions = json!([{ "type": "Ready", "status": ready }]);
    let volumes = json!([{ "name": "kubernetes.io/csi/cinder^1", "devicePath": "" }]);
    let status = json!({ "conditions": conditions, "volumesAttached": volumes });
    let spec = json!({ "unschedulable": unschedulable });
    now(200, json!({ "metadata": { "name": "n" }, "spec": spec, "status": status }))
}

fn list(items: &[Value], token: &str) -> Answer {
    now(200, json!({ "metadata": { "continue": token }, "items": items }))
}

async fn client(server: &Scripted) -> Client {
    KubeconfigConnector::default().client(&server.kubeconfig()).await.unwrap()
}

async fn waiting(client: &Client) -> DrainWaiting {
    match drain(client, "n", &[]).await.unwrap() {
        DrainProgress::Waiting(waiting) => waiting,
        DrainProgress::Done => panic!("it is not done"),
    }
}

fn web(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| format!("web/{name}")).collect()
}

/// Two pages of Pods, and one answer to an eviction by the name of the Pod.
fn busy_node(call: &Call) -> Answer {
    let labelled = |value: &'static str| {
        move |pod: &mut Value| pod["metadata"]["labels"] = json!({ "cluster.x-k8s.io/drain": value })
    };
    let owned = |name: &'static str| {
        let owner = json!([{ "apiVersion": "apps/v1", "kind": "DaemonSet", "name": name, "uid": "1", "controller": true }]);
        move |pod: &mut Value| pod["metadata"]["ownerReferences"] = owner
    };
    let budget = json!([{ "reason": "DisruptionBudget", "message": "The disruption budget web needs 1 healthy pods" }]);
    match call.what.as_str() {
        "GET /api/v1/nodes/n" => node("True", false),
        "PATCH /api/v1/nodes/n" => node("True", true),
        "GET /api/v1/pods" if call.query.contains("continue=second") => list(
            &[
                pod("job", labelled("WaitCompleted")),
                pod("skipped", labelled("skip")),
                pod("orphan", owned("lost")),
            ],
            "",
        ),
        "GET /api/v1/pods" => list(
            &[
                pod("accepted", |_| {}),
                pod("budget", |_| {}),
                pod("gone", |_| {}),
                pod("two-budgets", |_| {}),
                pod("agent", owned("agent")),
                pod("leaving", |pod| pod["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z")),
            ],
            "second",
        ),
        "GET /apis/apps/v1/namespaces/web/daemonsets/agent" => now(
            200,
            json!({ "apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata", "metadata": { "name": "agent" } }),
        ),
        "POST /api/v1/namespaces/web/pods/budget/eviction" => {
            failure(429, "Cannot evict pod as it would violate the pod's disruption budget.", &budget)
        }
        "POST /api/v1/namespaces/web/pods/two-budgets/eviction" => {
            failure(500, "This pod has more than one PodDisruptionBudget", &json!([]))
        }
        "POST /api/v1/namespaces/web/pods/accepted/eviction"
        | "POST /api/v1/namespaces/web/pods/orphan/eviction" => {
            now(201, json!({ "kind": "Status", "apiVersion": "v1", "status": "Success" }))
        }
        other => failure(404, &format!("{other} not found"), &json!([])),
    }
}

#[tokio::test]
async fn a_pass_cordons_the_node_and_evicts_every_pod_whose_turn_it_is() {
    let server = Scripted::start(busy_node).await;
    let client = client(&server).await;
    let waiting = waiting(&client).await;
    assert_eq!(waiting.terminating, web(&["leaving", "accepted", "orphan"]));
    assert_eq!(waiting.completing, web(&["job"]));
    let reasons: Vec<(&str, &[String])> =
        waiting.failed.iter().map(|(reason, pods)| (reason.as_str(), pods.as_slice())).collect();
    let budget = format!("{BUDGET} The disruption budget web needs 1 healthy pods");
    let expected = [
        (budget.as_str(), &web(&["budget"])[..]),
        ("failed to evict Pod, This pod has more than one PodDisruptionBudget", &web(&["two-budgets"])[..]),
    ];
    assert_eq!(reasons, expected);
    let calls = server.take("");
    let cordon = calls.iter().find(|call| call.what.starts_with("PATCH")).expect("a cordon");
    assert_eq!(cordon.body, json!({ "spec": { "unschedulable": true } }));
    let eviction = calls.iter().find(|call| call.what.ends_with("/accepted/eviction")).expect("an eviction");
    let options = json!({ "gracePeriodSeconds": 30, "preconditions": { "uid": "uid-accepted" } });
    assert_eq!(eviction.body["deleteOptions"], options);
    let pages = calls.iter().filter(|call| call.what == "GET /api/v1/pods");
    assert!(pages.clone().all(|call| call.query.contains("fieldSelector=spec.nodeName%3Dn")));
    assert_eq!(pages.count(), 2);
}

#[tokio::test]
async fn a_node_that_is_gone_or_empty_is_drained() {
    let gone = Scripted::start(|call| failure(404, &call.what, &json!([]))).await;
    assert_eq!(drain(&client(&gone).await, "n", &[]).await, Ok(DrainProgress::Done));
    delete_node(&client(&gone).await, "n").await.expect("there is nothing to delete");
    let elsewhere = Scripted::start(|_| now(404, json!("a page of a load balancer"))).await;
    drain(&client(&elsewhere).await, "n", &[]).await.expect_err("it is not the API server who says so");
    delete_node(&client(&elsewhere).await, "n").await.expect_err("nothing was deleted");
    let empty = Scripted::start(|call| match call.what.as_str() {
        "GET /api/v1/nodes/n" => node("True", true),
        _ => list(&[], ""),
    })
    .await;
    assert_eq!(drain(&client(&empty).await, "n", &[]).await, Ok(DrainProgress::Done));
    assert!(empty.take("PATCH").is_empty(), "it was cordoned before");
}

#[tokio::test]
async fn a_refusal_names_the_budget_that_will_never_allow_the_eviction() {
    let server = Scripted::start(|call| match call.what.as_str() {
        "GET /api/v1/nodes/n" => node("True", true),
        "GET /api/v1/pods" => list(&[pod("a", |_| {}), pod("b", |_| {})], ""),
        "GET /apis/policy/v1/namespaces/web/poddisruptionbudgets/all" => {
            let condition = json!({
                "type": "DisruptionAllowed", "status": "False", "reason": "InsufficientPods", "message": "",
                "lastTransitionTime": "2020-01-01T00:00:00Z",
            });
            let status = json!({
                "observedGeneration": 1, "disruptionsAllowed": 0, "currentHealthy": 2, "desiredHealthy": 2,
                "expectedPods": 2, "conditions": [condition],
            });
            let metadata = json!({ "name": "all", "namespace": "web", "generation": 1 });
            now(200, json!({ "metadata": metadata, "spec": { "maxUnavailable": 0 }, "status": status }))
        }
        _ => {
            let text = "The disruption budget all needs 2 healthy pods and has 2 currently";
            let causes = json!([{ "reason": "DisruptionBudget", "message": text }]);
            failure(429, "Cannot evict pod as it would violate the pod's disruption budget.", &causes)
        }
    })
    .await;
    let waiting = waiting(&client(&server).await).await;
    let reason = format!(
        "{BUDGET} The disruption budget all needs 2 healthy pods and has 2 currently. PodDisruptionBudget web/all \
         {NEVER}: it needs 2 healthy Pods, and its workload has 2. Raise spec.maxUnavailable of the budget, or delete the \
         budget"
    );
    assert_eq!(waiting.failed.into_iter().collect::<Vec<_>>(), [(reason, web(&["a", "b"]))]);
    let reads = server.take("GET /apis/policy");
    assert_eq!(reads.len(), 1, "one budget is read once for all its Pods");
}

/// Two Pods on a Node, of which one has a budget that allows no eviction.
fn node_with_budget(call: &Call) -> Answer {
    let labelled =
        |name: &'static str| move |pod: &mut Value| pod["metadata"]["labels"] = json!({ "app": name });
    match call.what.as_str() {
        "GET /apis/policy/v1/poddisruptionbudgets" => {
            let budget = |name: &str, allowed: i32| {
                let status = json!({ "disruptionsAllowed": allowed, "desiredHealthy": 1, "currentHealthy": 1 + allowed, "expectedPods": 2 });
                let spec = json!({ "selector": { "matchLabels": { "app": name } } });
                json!({ "metadata": { "name": name, "namespace": "web" }, "spec": spec, "status": status })
            };
            list(&[budget("tight", 0), budget("loose", 1)], "")
        }
        "GET /api/v1/nodes/n" => node("True", false),
        "GET /api/v1/pods" => list(&[pod("a", labelled("tight")), pod("b", labelled("loose"))], ""),
        "POST /api/v1/namespaces/web/pods/a/eviction" => {
            let text = "The disruption budget tight needs 1 healthy pods and has 1 currently";
            let causes = json!([{ "reason": "DisruptionBudget", "message": text }]);
            failure(429, "Cannot evict pod as it would violate the pod's disruption budget.", &causes)
        }
        other => failure(404, &format!("{other} not found"), &json!([])),
    }
}

#[tokio::test]
async fn the_refusals_of_a_node_name_the_budget_and_cost_a_dry_run_for_its_pods_alone() {
    let server = Scripted::start(node_with_budget).await;
    let client = client(&server).await;
    let budgets = RefusingBudgets::read(&client).await.unwrap();
    let found = refusals(&client, &budgets, "n", &[]).await.unwrap();
    let expected = "PodDisruptionBudget web/tight refuses evictions now: it needs 1 healthy Pods, and has 1. Wait until more \
                    of its Pods are healthy, or scale up its workload";
    assert_eq!(found.into_iter().collect::<Vec<_>>(), [expected]);
    let calls = server.take("");
    let writes: Vec<&Call> = calls.iter().filter(|call| !call.what.starts_with("GET")).collect();
    let [eviction] = writes[..] else { panic!("{writes:?}") };
    assert!(eviction.what.ends_with("/pods/a/eviction") && eviction.query == "dryRun=All", "{eviction:?}");
}

#[tokio::test]
async fn evictions_of_a_pass_end_after_ten_seconds() {
    let server = Scripted::start(|call| match call.what.as_str() {
        "GET /api/v1/nodes/n" => node("True", true),
        "GET /api/v1/pods" => list(&[pod("a", |_| {}), pod("b", |_| {})], ""),
        _ => (201, json!({}), Duration::from_secs(11)),
    })
    .await;
    let client = client(&server).await;
    let start = Instant::now();
    let waiting = waiting(&client).await;
    assert!(start.elapsed() < Duration::from_secs(15), "{:?}", start.elapsed());
    let mut pods: Vec<String> = waiting.failed.into_values().flatten().collect();
    pods.sort();
    assert_eq!(pods, web(&["a", "b"]));
}

#[tokio::test]
async fn volumes_of_a_node_that_reports_are_waited_for() {
    let server = |ready: &'static str| {
        Scripted::start(move |call| match call.what.as_str() {
            "GET /api/v1/nodes/n" => node(ready, true),
            "GET /api/v1/persistentvolumes" => {
                let claim = json!({ "kind": "PersistentVolumeClaim", "namespace": "web", "name": "data" });
                let csi = json!({ "driver": "cinder", "volumeHandle": "1" });
                list(
                    &[json!({ "metadata": { "name": "pv" }, "spec": { "claimRef": claim, "csi": csi } })],
                    "",
                )
            }
            _ => list(&[], ""),
        })
    };
    let reporting = server("True").await;
    let progress = wait_for_volumes(&client(&reporting).await, "n", &[]).await.unwrap();
    let VolumeProgress::Waiting(waiting) = progress else { panic!("a volume is attached") };
    assert_eq!(waiting.claims, ["web/data"]);
    let silent = server("Unknown").await;
    assert_eq!(wait_for_volumes(&client(&silent).await, "n", &[]).await, Ok(VolumeProgress::Done));
}

#[tokio::test]
async fn volumes_of_a_pod_that_the_drain_skips_are_not_waited_for_until_it_has_ended() {
    let server = |phase: &'static str| {
        Scripted::start(move |call| match call.what.as_str() {
            "GET /api/v1/nodes/n" => node("True", true),
            "GET /api/v1/persistentvolumes" => {
                let claim = json!({ "kind": "PersistentVolumeClaim", "namespace": "web", "name": "data" });
                let csi = json!({ "driver": "cinder", "volumeHandle": "1" });
                let volume =
                    json!({ "metadata": { "name": "pv" }, "spec": { "claimRef": claim, "csi": csi } });
                list(&[volume], "")
            }
            "GET /api/v1/pods" => {
                let skipped = pod("a", |pod| {
                    pod["metadata"]["labels"] = json!({ "cluster.x-k8s.io/drain": "skip" });
                    let claim = json!({ "claimName": "data" });
                    pod["spec"]["volumes"] = json!([{ "name": "v", "persistentVolumeClaim": claim }]);
                    pod["status"]["phase"] = json!(phase);
                });
                list(&[skipped], "")
            }
            _ => list(&[], ""),
        })
    };
    let running = server("Running").await;
    assert_eq!(wait_for_volumes(&client(&running).await, "n", &[]).await, Ok(VolumeProgress::Done));
    let ended = server("Succeeded").await;
    let progress = wait_for_volumes(&client(&ended).await, "n", &[]).await.unwrap();
    let VolumeProgress::Waiting(waiting) = progress else { panic!("its volume is about to be detached") };
    assert_eq!(waiting.claims, ["web/data"]);
}

#[tokio::test]
async fn a_preview_names_the_treatment_of_each_pod_and_changes_nothing() {
    let server = Scripted::start(busy_node).await;
    let found = controllers_workload::drain::preview(&client(&server).await, "n", &[]).await.unwrap();
    let found: Vec<String> = found.iter().map(|pod| format!("{} {:?}", pod.name, pod.verdict)).collect();
    let expected = [
        "accepted Evict",
        "agent Skip",
        "budget Refused",
        "job WaitCompleted",
        "leaving Terminating",
        "orphan Evict",
        "skipped Skip",
        "two-budgets Refused",
    ];
    assert_eq!(found, expected, "the Pod that is gone is left out");
    let calls = server.take("");
    assert!(calls.iter().all(|call| call.what.starts_with("GET") || call.what.starts_with("POST")));
    let evictions: Vec<&Call> = calls.iter().filter(|call| call.what.starts_with("POST")).collect();
    assert_eq!(evictions.len(), 5);
    for call in evictions {
        let dry_run = &call.body["deleteOptions"]["dryRun"];
        assert_eq!((call.query.as_str(), dry_run), ("dryRun=All", &json!(["All"])));
    }
}

#[tokio::test]
async fn a_drain_by_force_deletes_what_it_could_not_evict_and_no_pod_of_a_daemon_set() {
    let server = Scripted::start(|call| match call.what.as_str() {
        "DELETE /api/v1/namespaces/web/pods/two-budgets" => failure(500, "the webhook is down", &json!([])),
        "DELETE /api/v1/namespaces/web/pods/gone" => failure(404, "pods \"gone\" not found", &json!([])),
        other if other.starts_with("DELETE") => now(200, json!({ "kind": "Status", "status": "Success" })),
        _ => busy_node(call),
    })
    .await;
    let progress = controllers_workload::drain::delete_pods(&client(&server).await, "n", &[]).await.unwrap();
    let DrainProgress::Waiting(waiting) = progress else { panic!("Pods are left") };
    assert_eq!(waiting.terminating, web(&["accepted", "budget", "leaving", "job", "orphan"]));
    let failed: Vec<(String, Vec<String>)> = waiting.failed.into_iter().collect();
    let [(reason, pods)] = failed.as_slice() else { panic!("{failed:?}") };
    assert!(reason.starts_with("failed to delete Pod, the webhook is down"), "{reason}");
    assert_eq!(*pods, web(&["two-budgets"]));
    let calls = server.take("");
    assert!(calls.iter().any(|call| call.what == "PATCH /api/v1/nodes/n"), "the Node is cordoned");
    let deletions: Vec<&Call> = calls.iter().filter(|call| call.what.starts_with("DELETE")).collect();
    let names: Vec<&str> = deletions.iter().filter_map(|call| call.what.rsplit('/').next()).collect();
    assert_eq!(names, ["accepted", "budget", "gone", "two-budgets", "job", "orphan"]);
    assert_eq!(deletions[0].body["preconditions"], json!({ "uid": "uid-accepted" }));
    assert!(deletions[0].body["gracePeriodSeconds"].is_null(), "each Pod has its own grace period");
}
