//! Actions on a Machine, and the Node and the Pods that they are about.

use serde_json::{Value, json};

use super::program::Kubectl;
use super::{Scene, Worker, path, until};

/// Annotation of a Node that an operation has cordoned.
const CORDONED_BY: &str = "/metadata/annotations/capstan.dev~1cordoned-by";

/// Columns of a table of operations.
const COLUMNS: [&str; 7] = ["NAME", "MACHINE", "ACTION", "PHASE", "STEP", "REQUESTED-BY", "AGE"];

/// Namespace of the Pods in the workload cluster.
const PODS: &str = "default";

/// Pod that a disruption budget of the same name covers.
const COVERED: &str = "web";

/// Words about a Pod whose eviction that budget refuses.
const REFUSED: &str = "The disruption budget web needs 1 healthy pods and has 1 currently";

impl Scene {
    /// Starts an action. Returns the operation.
    async fn start_action(&self, endpoint: &Kubectl, worker: &Worker, action: &str, body: &str) -> Value {
        let operation = endpoint.post(&path("machines", &worker.machine, action), body).await.unwrap();
        assert_eq!(operation["kind"], "MachineOperation");
        assert_eq!(operation["spec"]["machineName"], worker.machine.as_str());
        operation
    }

    /// Waits until an operation has ended. Returns its status.
    async fn ended(&self, operation: &Value) -> Value {
        let name = format!("mop/{}", text(operation, "/metadata/name"));
        let completed = "--for=jsonpath={.status.completionTime}";
        self.host.output(&["wait", &name, completed, "--timeout=60s"]).await;
        self.host.json(&["get", &name]).await.unwrap()["status"].clone()
    }

    /// Starts an action, and checks that it ends in this phase. Returns the status.
    async fn act(&self, worker: &Worker, action: &str, body: &str, phase: &str) -> Value {
        let operation = self.start_action(&self.host, worker, action, body).await;
        let status = self.ended(&operation).await;
        assert_eq!(status["phase"], phase, "{action}: {status}");
        status
    }

    /// Waits until a step of an operation has this text.
    async fn until_step(&self, operation: &Value, step: &str, expected: &str) {
        let name = text(operation, "/metadata/name");
        until("the step has its message", async || {
            let found = self.host.json(&["get", "mop", name]).await?;
            let steps = found.pointer("/status/steps").and_then(Value::as_array);
            let mut steps = steps.into_iter().flatten().filter(|it| it["name"] == step);
            match steps.any(|it| text(it, "/message").contains(expected)) {
                true => Ok(()),
                false => Err(format!("{step} without {expected:?}: {}", found["status"])),
            }
        })
        .await;
    }

    /// Checks if the Node is unschedulable, and if an operation has marked it.
    async fn is_cordoned(&self, worker: &Worker) -> (bool, bool) {
        let node = self.node(&worker.node).await.unwrap();
        (node["spec"]["unschedulable"] == true, node.pointer(CORDONED_BY).is_some())
    }

    /// Runs a Pod on the Node of a worker, and waits until it is Ready.
    async fn run_pod(&self, worker: &Worker, name: &str) {
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {"app": name}},
            "spec": {"nodeName": worker.node, "containers": [{"name": "a", "image": "a"}]},
        });
        let pods = format!("/api/v1/namespaces/{PODS}/pods");
        self.workload.post(&pods, &pod.to_string()).await.unwrap();
        until("the Pod is Ready", async || {
            let pod = self.workload.get(&format!("{pods}/{name}")).await?;
            let conditions = pod.pointer("/status/conditions").and_then(Value::as_array);
            let mut conditions = conditions.into_iter().flatten();
            let is_ready = conditions.any(|it| it["type"] == "Ready" && it["status"] == "True");
            is_ready.then_some(()).ok_or_else(|| pod.to_string())
        })
        .await;
    }

    /// Creates the budget that refuses the eviction of its only Pod.
    async fn protect(&self) {
        let budget = json!({
            "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": COVERED},
            "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": COVERED}}},
        });
        let budgets = format!("/apis/policy/v1/namespaces/{PODS}/poddisruptionbudgets");
        self.workload.post(&budgets, &budget.to_string()).await.unwrap();
    }

    /// Deletes an object in the namespace of the Pods.
    async fn delete(&self, kind: &str, name: &str) {
        self.workload.run_in(PODS, &["delete", kind, name, "--wait=false"], "").await.unwrap();
    }

    /// Returns true if a Pod exists and is not being deleted.
    async fn has_pod(&self, name: &str) -> bool {
        let pod = self.workload.get(&format!("/api/v1/namespaces/{PODS}/pods/{name}")).await;
        match pod {
            Ok(pod) => pod.pointer("/metadata/deletionTimestamp").is_none(),
            Err(error) if error.contains("NotFound") => false,
            Err(error) => panic!("Pod {name}: {error}"),
        }
    }
}

fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// A cordon marks the Node, and `uncordon` ends it. That of a person ends only by force.
pub(super) async fn cordon_and_uncordon(scene: &Scene, worker: &Worker) {
    let operation = scene.start_action(&scene.host, worker, "cordon", "{}").await;
    assert_eq!(scene.ended(&operation).await["phase"], "Complete");
    let node = scene.node(&worker.node).await.unwrap();
    assert_eq!(node["spec"]["unschedulable"], true);
    let mark = format!("{}/", text(&operation, "/metadata/uid"));
    assert!(text(&node, CORDONED_BY).starts_with(&mark), "{node}");

    let operation = scene.start_action(&scene.direct, worker, "uncordon", "{}").await;
    assert_eq!(scene.ended(&operation).await["phase"], "Complete");
    assert_eq!(scene.is_cordoned(worker).await, (false, false));

    scene.workload.output(&["cordon", &worker.node]).await;
    let status = scene.act(worker, "uncordon", "{}", "Failed").await;
    assert!(text(&status, "/result/message").contains("Set force"), "{status}");
    assert_eq!(scene.is_cordoned(worker).await, (true, false));
    scene.act(worker, "uncordon", r#"{"force": true}"#, "Complete").await;
    assert_eq!(scene.is_cordoned(worker).await, (false, false));
    let reasons = ["CordonNodeDone", "CordonComplete", "UncordonComplete", "UncordonFailed"];
    scene.until_events(&worker.machine, &reasons).await;
}

/// A dry run lists the Pods and changes nothing. A drain evicts them, and waits for the budget.
pub(super) async fn drain(scene: &Scene, worker: &Worker) {
    scene.run_pod(worker, COVERED).await;
    scene.run_pod(worker, "free").await;
    scene.protect().await;
    let status = scene.act(worker, "drain", r#"{"dryRun": true}"#, "Complete").await;
    let pods = status["result"]["pods"].as_array().unwrap();
    let verdict = |name: &str| {
        let mut pods = pods.iter().filter(|it| it["namespace"] == PODS && it["name"] == name);
        pods.next().map(|it| (text(it, "/verdict"), text(it, "/message")))
    };
    assert_eq!(verdict("free").unwrap().0, "Evict", "{pods:?}");
    let (refused, why) = verdict(COVERED).unwrap();
    assert_eq!(refused, "Refused", "{pods:?}");
    assert!(why.contains(REFUSED), "{why}");
    assert!(text(&status, "/result/message").starts_with("nothing was changed"), "{status}");
    assert_eq!(scene.is_cordoned(worker).await, (false, false), "a dry run changes nothing");
    assert!(scene.has_pod("free").await && scene.has_pod(COVERED).await, "a dry run evicts nothing");

    let operation = scene.start_action(&scene.host, worker, "drain", "{}").await;
    scene.until_step(&operation, "DrainNode", REFUSED).await;
    assert_eq!(scene.is_cordoned(worker).await, (true, true));
    assert!(!scene.has_pod("free").await && scene.has_pod(COVERED).await, "the budget covers one of them");
    check_while_running(scene, worker, &operation).await;

    scene.delete("poddisruptionbudget", COVERED).await;
    assert_eq!(scene.ended(&operation).await["phase"], "Complete");
    assert!(!scene.has_pod(COVERED).await);
    assert_eq!(scene.is_cordoned(worker).await, (true, true), "the Node stays unschedulable");
    scene.act(worker, "uncordon", "{}", "Complete").await;
    scene.until_events(&worker.machine, &["DrainNodeDone", "DrainComplete"]).await;
}

/// The table shows an operation that runs, and the Machine accepts no other one.
async fn check_while_running(scene: &Scene, worker: &Worker, operation: &Value) {
    let (name, machine) = (text(operation, "/metadata/name"), worker.machine.as_str());
    let table = scene.host.output(&["get", "mop"]).await;
    let mut lines = table.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    assert_eq!(lines.next().unwrap(), COLUMNS, "{table}");
    let row = lines.find(|row| row.first() == Some(&name)).unwrap();
    let expected = [name, machine, "Drain", "Running", "DrainNode", "admin"];
    assert_eq!(row.get(..expected.len()), Some(&expected[..]), "{table}");

    let refused = scene.host.post(&path("machines", machine, "reboot"), "{}").await.unwrap_err();
    let expected = format!("machineoperation \"{name}\" is not finished");
    assert!(refused.contains("(Conflict)") && refused.contains(&expected), "{refused}");
}

/// A retirement that is cancelled during the drain leaves the Machine, and its Node is schedulable again.
pub(super) async fn cancel_retirement(scene: &Scene, worker: &Worker) {
    scene.run_pod(worker, COVERED).await;
    scene.protect().await;
    let operation = scene.start_action(&scene.host, worker, "retire", "{}").await;
    scene.until_step(&operation, "DrainNode", REFUSED).await;
    let name = text(&operation, "/metadata/name");
    let cancel = r#"{"spec": {"cancelRequested": true}}"#;
    scene.host.output(&["patch", "mop", name, "--type=merge", "-p", cancel]).await;
    let status = scene.ended(&operation).await;
    assert_eq!(status["phase"], "Cancelled", "{status}");
    assert!(text(&status, "/result/message").contains("a cancellation was requested"), "{status}");
    assert_eq!(scene.is_cordoned(worker).await, (false, false));
    let machine = scene.host.json(&["get", "machine", &worker.machine]).await.unwrap();
    assert!(machine.pointer("/metadata/deletionTimestamp").is_none(), "{machine}");
    scene.delete("poddisruptionbudget", COVERED).await;
    scene.delete("pod", COVERED).await;
    until("the Pod is gone", async || match scene.has_pod(COVERED).await {
        true => Err(COVERED.to_owned()),
        false => Ok(()),
    })
    .await;
    scene.until_events(&worker.machine, &["RetireCancelled"]).await;
}

/// A retirement evicts the Pods, and deletes the Machine with its Node. The operation goes with its Machine, so that its
/// Events show the end.
pub(super) async fn retire(scene: &Scene, worker: &Worker) {
    scene.run_pod(worker, COVERED).await;
    scene.start_action(&scene.host, worker, "retire", "{}").await;
    until("the Node is gone", async || match scene.node(&worker.node).await {
        Err(error) if error.contains("NotFound") => Ok(()),
        Err(error) => Err(error),
        Ok(node) => Err(node["spec"].to_string()),
    })
    .await;
    let machine = format!("machine/{}", worker.machine);
    scene.host.output(&["wait", &machine, "--for=delete", "--timeout=60s"]).await;
    assert!(!scene.has_pod(COVERED).await, "the Pods of the Node are gone");
    scene.until_events(&worker.machine, &["DrainNodeDone", "DeleteMachineDone", "RetireComplete"]).await;
}
