//! Verbs of a MachineDeployment, a KubeadmControlPlane and a Cluster, and the Nodes that they change.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{CONTROL_PLANE, CONTROL_PLANE_ROLE, Scene, WORKERS, Worker, path, path_of_control_plane, until};

/// Label that a Machine hands down to its Node.
const LABEL: &str = "node.cluster.x-k8s.io/stage";

/// The label in the template of a MachineDeployment.
const IN_TEMPLATE: &str = "/spec/template/metadata/labels/node.cluster.x-k8s.io~1stage";

/// The label on a Node.
const ON_NODE: &str = "/metadata/labels/node.cluster.x-k8s.io~1stage";

/// Time of a restart.
const AFTER: &str = "/spec/rollout/after";

fn of_workers(verb: &str) -> String {
    path("machinedeployments", WORKERS, verb)
}

/// Returns the change that sets the label in the template.
fn label() -> String {
    json!({"spec": {"template": {"metadata": {"labels": {LABEL: "test"}}}}}).to_string()
}

impl Scene {
    async fn workers(&self) -> Value {
        self.host.json(&["get", "md", WORKERS]).await.unwrap()
    }

    /// Waits until the Node of a worker has the label, or has none.
    async fn until_labelled(&self, worker: &Worker, expected: Option<&str>) {
        until("the Node has the label of its template", async || {
            let node = self.node(&worker.node).await?;
            let found = node.pointer(ON_NODE).and_then(Value::as_str);
            (found == expected).then_some(()).ok_or_else(|| format!("{found:?}, not {expected:?}"))
        })
        .await;
    }

    /// Waits until this number of revisions is kept. Returns them, the newest first.
    async fn until_revisions(&self, count: usize) -> Vec<Value> {
        until("the revisions are kept", async || {
            let history = self.host.get(&of_workers("history")).await?;
            assert_eq!(history["kind"], "MachineDeploymentRevisionList");
            let items = history["items"].as_array().cloned().unwrap_or_default();
            if items.len() == count { Ok(items) } else { Err(format!("{}, not {count}", items.len())) }
        })
        .await
    }

    /// Returns the names of the Nodes that are Ready: of the control plane, or of the workers.
    async fn ready_nodes(&self, control_plane: bool) -> Result<BTreeSet<String>, String> {
        let selector = format!("{}{CONTROL_PLANE_ROLE}", if control_plane { "" } else { "!" });
        let nodes = self.workload.json(&["get", "nodes", "-l", &selector]).await?;
        let is_ready = |node: &&Value| {
            let conditions = node.pointer("/status/conditions").and_then(Value::as_array);
            let mut conditions = conditions.into_iter().flatten();
            conditions.any(|it| it["type"] == "Ready" && it["status"] == "True")
        };
        let nodes = nodes["items"].as_array().into_iter().flatten().filter(is_ready);
        Ok(nodes.filter_map(|it| it["metadata"]["name"].as_str().map(str::to_owned)).collect())
    }
}

/// Plans say what a change would do, and write nothing.
pub(super) async fn plans(scene: &Scene) {
    let plan = scene.host.post(&of_workers("plan"), &label()).await.unwrap();
    assert_eq!(plan["kind"], "RolloutPlan");
    assert_eq!((&plan["summary"]["inPlace"], &plan["summary"]["replace"]), (&json!(1), &json!(0)), "{plan}");
    assert!(scene.workers().await.pointer(IN_TEMPLATE).is_none(), "a plan writes nothing");

    let change = json!({"spec": {"kubeadmConfigSpec": {"preKubeadmCommands": ["echo planned"]}}}).to_string();
    let plan = scene.host.post(&path_of_control_plane("plan"), &change).await.unwrap();
    assert_eq!((&plan["kind"], &plan["summary"]["replace"]), (&json!("RolloutPlan"), &json!(1)), "{plan}");
    let reasons = plan["machines"][0]["reasons"].to_string();
    assert!(reasons.contains("KubeadmConfig is not up-to-date"), "{reasons}");

    let plan = scene.host.post(&path("clusters", "blue", "plan"), "{}").await.unwrap();
    assert_eq!((&plan["kind"], &plan["summary"]["keep"]), (&json!("ClusterPlan"), &json!(2)), "{plan}");
    let rollouts = plan["rollouts"].as_array().unwrap();
    let names: BTreeSet<&str> = rollouts.iter().filter_map(|it| it["name"].as_str()).collect();
    assert_eq!(names, BTreeSet::from([CONTROL_PLANE, WORKERS]));
}

/// A change of the template becomes a revision and reaches the Node. A rollback takes both back.
pub(super) async fn rollback(scene: &Scene, worker: &Worker) {
    let first = scene.until_revisions(1).await;
    assert_eq!(first[0]["spec"]["revision"], 1);
    scene.host.output(&["patch", "md", WORKERS, "--type=merge", "-p", &label()]).await;
    scene.until_labelled(worker, Some("test")).await;
    let both = scene.until_revisions(2).await;
    assert!(both[0]["spec"]["changes"].to_string().contains(LABEL), "{both:?}");

    let planned = scene.host.post(&of_workers("rollback"), r#"{"dryRun": true}"#).await.unwrap();
    assert!(planned.pointer(IN_TEMPLATE).is_none(), "{planned}");
    let stored = scene.workers().await;
    assert!(stored.pointer(IN_TEMPLATE).is_some(), "a dry run changes nothing: {stored}");

    let body = r#"{"toRevision": 1, "reason": "not a test"}"#;
    scene.host.post(&of_workers("rollback"), body).await.unwrap();
    scene.until_labelled(worker, None).await;
    let newest = scene.until_revisions(3).await.remove(0);
    let found = [&newest["spec"]["revision"], &newest["spec"]["changeCause"], &newest["spec"]["changedBy"]];
    assert_eq!(found, [&json!(3), &json!("not a test"), &json!("admin")]);
    assert!(scene.node(&worker.node).await.is_ok(), "the worker was not replaced");
}

/// A restart of the workers replaces their Nodes.
pub(super) async fn restart_workers(scene: &Scene, worker: &Worker) {
    let restarted = scene.host.post(&of_workers("restart"), r#"{"reason": "certificates"}"#).await.unwrap();
    assert!(restarted.pointer(AFTER).is_some(), "{restarted}");
    until("another Node has replaced that of the worker", async || {
        let nodes = scene.ready_nodes(false).await?;
        let is_replaced = nodes.len() == 1 && !nodes.contains(&worker.node);
        is_replaced.then_some(()).ok_or_else(|| format!("{nodes:?} with {}", worker.node))
    })
    .await;
}

/// A dry run of a restart of the control plane changes nothing. The restart makes a Node with another API server.
pub(super) async fn restart_control_plane(scene: &Scene) {
    let before = scene.ready_nodes(true).await.unwrap();
    let dry_run = format!("{}?dryRun=All", path_of_control_plane("restart"));
    let planned = scene.host.post(&dry_run, "{}").await.unwrap();
    assert!(planned.pointer(AFTER).is_some(), "{planned}");
    let stored = scene.host.json(&["get", "kcp", CONTROL_PLANE]).await.unwrap();
    assert!(stored.pointer(AFTER).is_none(), "{stored}");

    scene.host.post(&path_of_control_plane("restart"), "{}").await.unwrap();
    let resource = format!("kcp/{CONTROL_PLANE}");
    scene.host.output(&["wait", &resource, "--for=condition=RollingOut", "--timeout=60s"]).await;
    until("a new Node of the control plane is Ready", async || {
        let nodes = scene.ready_nodes(true).await?;
        let is_new = nodes.difference(&before).next().is_some();
        is_new.then_some(()).ok_or_else(|| format!("{nodes:?} after {before:?}"))
    })
    .await;
}
