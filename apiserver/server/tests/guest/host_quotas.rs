//! ResourceQuotas of a host cluster, while it answers, while it is down, and after a restart without it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Value, json};

use crate::admission_scene::{send, warnings};
use crate::client::Client;
use crate::host_admission::{RULES, alice, configure, create, list, message, until};
use crate::host_down::{COPIED, FrontProxy, host_with, until_in_state};
use crate::process::Capstan;

const DEPLOYMENTS: &str = "/apis/cluster.x-k8s.io/v1beta2/namespaces/team/machinedeployments";

/// Refusal of a third rule.
const EXCEEDED: &str = "exceeded quota: limits, requested: count/machinedrainrules.cluster.x-k8s.io=1, used: \
    count/machinedrainrules.cluster.x-k8s.io=2, limited: count/machinedrainrules.cluster.x-k8s.io=2";

/// Host with a quota in the namespace `team`.
#[derive(Clone, Default)]
struct Scene {
    is_down: Arc<AtomicBool>,
    /// True while Capstan may not read quotas.
    is_forbidden: Arc<AtomicBool>,
    /// True once Capstan has sent a write to a quota.
    is_written: Arc<AtomicBool>,
}

impl Scene {
    fn start(&self, front_proxy: &FrontProxy) -> u16 {
        let scene = self.clone();
        host_with(&front_proxy.ca, &self.is_down, move |path| scene.answer(path))
    }

    fn answer(&self, path: &str) -> Option<(u16, Value)> {
        let (method, path) = path.split_once(' ').unwrap();
        if method != "GET" && path.contains("resourcequotas") {
            self.is_written.store(true, Ordering::SeqCst);
        }
        match path {
            "/api/v1/resourcequotas" if self.is_forbidden.load(Ordering::SeqCst) => {
                let status = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Forbidden",
                    "message": "resourcequotas is forbidden", "code": 403});
                Some((403, status))
            }
            "/api/v1/resourcequotas" => list(&quotas()),
            "/apis/authorization.k8s.io/v1/subjectaccessreviews" => Some((
                201,
                json!({"kind": "SubjectAccessReview", "apiVersion": "authorization.k8s.io/v1",
                    "metadata": {}, "spec": {}, "status": {"allowed": true}}),
            )),
            _ if path.starts_with("/apis/admissionregistration.k8s.io/v1/") => list(&json!([])),
            _ => None,
        }
    }
}

/// Returns a quota, whose status is that of the host's own controller, and one of another namespace.
fn quotas() -> Value {
    let quota = |namespace: &str, name: &str, hard: Value| {
        json!({"metadata": {"name": name, "namespace": namespace, "uid": name, "resourceVersion": "1"},
            "spec": {"hard": hard}, "status": {"hard": hard, "used": {"pods": "7"}}})
    };
    let hard = json!({"count/machinedrainrules.cluster.x-k8s.io": "2", "capstan.dev/machines": "3",
        "count/configmaps": "0", "pods": "10"});
    json!([
        quota("team", "limits", hard),
        quota("team", "pods", json!({"pods": "1"})),
        quota("kube-system", "none", json!({"count/machinedrainrules.cluster.x-k8s.io": "0"})),
    ])
}

fn deployment(replicas: u32) -> Value {
    let template = json!({"spec": {"clusterName": "c", "bootstrap": {"dataSecretName": "s"},
        "infrastructureRef": {"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "OpenStackMachineTemplate", "name": "t"}}});
    json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "MachineDeployment", "metadata": {"name": "workers"},
        "spec": {"clusterName": "c", "replicas": replicas, "template": template}})
}

async fn start(scene: &Scene, data: &std::path::Path, front_proxy: &FrontProxy) -> (Capstan, String) {
    let config = configure(data, scene.start(front_proxy));
    let capstan = Capstan::start(data, &["--config", config.as_str()]);
    capstan.ready().await;
    until_in_state(&capstan, "up").await;
    (capstan, config)
}

/// Replicas of the MachineDeployment up to the limit are allowed, and one more is not.
async fn scale(client: &Client) {
    send(client, "POST", DEPLOYMENTS, &deployment(2), 201).await;
    let scale = |replicas: u32| {
        json!({"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "workers", "namespace": "team"},
            "spec": {"replicas": replicas}})
    };
    let path = format!("{DEPLOYMENTS}/workers/scale");
    send(client, "PUT", &path, &scale(3), 200).await;
    let refused = send(client, "PUT", &path, &scale(4), 403).await;
    let words = "exceeded quota: limits, requested: capstan.dev/machines=1, used: capstan.dev/machines=3, limited: capstan.dev/machines=3";
    assert!(refused["message"].as_str().unwrap().ends_with(words), "{refused}");
}

#[tokio::test(flavor = "multi_thread")]
async fn quotas_of_the_host_limit_its_kinds_also_while_it_is_down() {
    let (data, front_proxy, scene) = (tempfile::tempdir().unwrap(), FrontProxy::new(), Scene::default());
    let (capstan, config) = start(&scene, data.path(), &front_proxy).await;
    let user = alice(&capstan, data.path()).await;
    until(&user, "first", 201, "").await;
    assert_eq!(create(&user, "second").await.code, 201);
    let refused = create(&user, "third").await;
    assert_eq!(refused.code, 403, "{}", refused.text());
    assert!(message(&refused).ends_with(EXCEEDED), "{}", refused.text());
    let through_host = capstan.client_of(front_proxy.identity(data.path()));
    let refused = create(&through_host, "third").await;
    assert!(refused.code == 403 && message(&refused).ends_with(EXCEEDED), "{}", refused.text());
    scale(&capstan.client()).await;
    // The host's quota of ConfigMaps means its own.
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "own"}});
    send(&capstan.client(), "POST", "/api/v1/namespaces/team/configmaps", &map, 201).await;

    tokio::time::sleep(COPIED).await;
    scene.is_down.store(true, Ordering::SeqCst);
    until_in_state(&capstan, "down").await;
    assert!(message(&create(&user, "third").await).ends_with(EXCEEDED));
    capstan.signal("KILL");
    drop(capstan);

    let capstan = Capstan::start(data.path(), &["--config", config.as_str()]);
    capstan.ready().await;
    until_in_state(&capstan, "down").await;
    let refused = create(&capstan.client(), "third").await;
    assert!(message(&refused).ends_with(EXCEEDED), "no permission passes a quota: {}", refused.text());
    send(&capstan.client(), "DELETE", &format!("{RULES}/first"), &Value::Null, 200).await;
    assert_eq!(create(&capstan.client(), "third").await.code, 201);
    assert!(!scene.is_written.load(Ordering::SeqCst), "the status of a quota belongs to the host");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_whose_quotas_cannot_be_read_refuses_what_they_may_limit() {
    let (data, front_proxy, scene) = (tempfile::tempdir().unwrap(), FrontProxy::new(), Scene::default());
    scene.is_forbidden.store(true, Ordering::SeqCst);
    let (capstan, _config) = start(&scene, data.path(), &front_proxy).await;
    let user = alice(&capstan, data.path()).await;
    let words = "the ResourceQuotas of the host cluster have not been read yet";
    let refused = until(&user, "first", 503, words).await;
    assert!(message(&refused).contains("capstan host manifests --mirror"), "{}", refused.text());
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "own"}});
    send(&capstan.client(), "POST", "/api/v1/namespaces/team/configmaps", &map, 201).await;
    let passed = create(&capstan.client(), "first").await;
    assert_eq!(passed.code, 201, "{}", passed.text());
    assert!(
        warnings(&passed).iter().any(|it| it.contains("your permission to bypass")),
        "{:?}",
        warnings(&passed)
    );
    let status = "/apis/capstan.dev/v1alpha1/hoststatuses/host";
    let host = send(&capstan.client(), "GET", status, &Value::Null, 200).await;
    let mirrors = host["status"]["mirrors"].as_array().unwrap();
    let quotas = mirrors.iter().find(|it| it["name"] == "quotas").unwrap();
    assert_eq!(quotas["usable"], json!(false), "{quotas}");
    // The permission is given later.
    scene.is_forbidden.store(false, Ordering::SeqCst);
    until(&user, "second", 201, "").await;
}
