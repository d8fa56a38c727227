//! Messages of errors: wrong bodies, objects and verbs that do not exist, and a Cluster that is paused.

use serde_json::Value;

use super::program::Kubectl;
use super::{CONTROL_PLANE, Scene, WORKERS, Worker, path, path_of_control_plane};

/// Wrong bodies of actions: the action, the body, and the texts of the error.
const BODIES: [(&str, &str, [&str; 2]); 5] = [
    ("cordon", r#"{"typo": true}"#, ["strict decoding error", "unknown field \"typo\""]),
    (
        "uncordon",
        r#"{"force": true, "force": false}"#,
        ["strict decoding error", "duplicate field \"force\""],
    ),
    ("drain", r#"{"timeoutSeconds": 5}"#, ["timeoutSeconds", "should be greater than or equal to 60"]),
    (
        "drain",
        r#"{"kind": "MachineReboot"}"#,
        ["kind: must be \"MachineNodeDrain\"", "not \"MachineReboot\""],
    ),
    ("retire", "{", ["(BadRequest)", "unexpected end of JSON input"]),
];

/// Name of no object.
const ABSENT: &str = "absent";

fn expect(result: Result<Value, String>, what: &str, texts: &[&str]) {
    let error = result.expect_err(what);
    for text in texts {
        assert!(error.contains(text), "{what}: {error:?} has no {text:?}");
    }
}

/// Checks the messages at both endpoints.
pub(super) async fn check(scene: &Scene, worker: &Worker) {
    for endpoint in [&scene.host, &scene.direct] {
        for (action, body, texts) in BODIES {
            let refused = endpoint.post(&path("machines", &worker.machine, action), body).await;
            expect(refused, action, &texts);
        }
        absent(endpoint).await;
        rollouts(endpoint).await;
    }
    let operations = scene.host.output(&["get", "mop", "-o", "name"]).await;
    assert_eq!(operations, "", "a refused action starts no operation");
    paused(scene, worker).await;
}

async fn absent(endpoint: &Kubectl) {
    let of = |resource: &str| format!("{resource}.cluster.x-k8s.io \"{ABSENT}\" not found");
    for action in ["cordon", "uncordon", "drain", "retire"] {
        let refused = endpoint.post(&path("machines", ABSENT, action), "{}").await;
        expect(refused, action, &["(NotFound)", &of("machines")]);
    }
    for verb in ["restart", "rollback", "plan"] {
        let refused = endpoint.post(&path("machinedeployments", ABSENT, verb), "{}").await;
        expect(refused, verb, &["(NotFound)", &of("machinedeployments")]);
    }
    let refused = endpoint.get(&path("machinedeployments", ABSENT, "history")).await;
    expect(refused, "history", &["(NotFound)", &of("machinedeployments")]);
    let refused = endpoint.post(&path("clusters", ABSENT, "plan"), "{}").await;
    expect(refused, "plan of a Cluster", &["(NotFound)", &of("clusters")]);
    let refused = endpoint.post(&path("clusters", ABSENT, "upgrade"), r#"{"version": "v1.34.0"}"#).await;
    expect(refused, "upgrade of a Cluster", &["(NotFound)", &of("clusters")]);
}

async fn rollouts(endpoint: &Kubectl) {
    // A control plane keeps no revisions.
    let named = format!("\"{CONTROL_PLANE}\" not found");
    expect(endpoint.get(&path_of_control_plane("history")).await, "history", &["(NotFound)", &named]);
    expect(
        endpoint.post(&path_of_control_plane("rollback"), "{}").await,
        "rollback",
        &["(NotFound)", &named],
    );

    let rollback = path("machinedeployments", WORKERS, "rollback");
    let refused = endpoint.post(&rollback, "{}").await;
    expect(refused, "rollback", &["toRevision", "there is no revision before the present one"]);
    let refused = endpoint.post(&rollback, r#"{"toRevision": 9}"#).await;
    expect(refused, "rollback", &["toRevision", "this revision is not kept; known revisions: 1"]);
    let plan = path("machinedeployments", WORKERS, "plan");
    expect(endpoint.post(&plan, r#"{"spec": {"replicaz": 3}}"#).await, "plan", &["replicaz"]);
}

/// While the Cluster is paused, no action begins, and a plan says so.
async fn paused(scene: &Scene, worker: &Worker) {
    let pause = async |is_paused: bool| {
        let change = format!(r#"{{"spec": {{"paused": {is_paused}}}}}"#);
        scene.host.output(&["patch", "cluster", "blue", "--type=merge", "-p", &change]).await;
    };
    pause(true).await;
    for action in ["cordon", "uncordon", "drain", "retire"] {
        let refused = scene.host.post(&path("machines", &worker.machine, action), "{}").await;
        expect(refused, action, &["(Conflict)", "its cluster \"blue\" is paused (spec.paused)"]);
    }
    let plan = scene.host.post(&path("machinedeployments", WORKERS, "plan"), "{}").await.unwrap();
    let obstacles = plan["obstacles"].as_array().unwrap();
    let text = "spec.paused is set to true";
    let names_pause = |it: &Value| it.as_str().is_some_and(|it| it.contains(text));
    assert!(obstacles.iter().any(names_pause), "{obstacles:?}");
    pause(false).await;
}
