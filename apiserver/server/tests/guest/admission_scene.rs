//! Scene of the tests of admission: a server, an administrator, and a user.

use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::client::{Answer, Client, Identity};
use crate::process::{Capstan, PATIENCE};
use crate::webhook_server::WebhookServer;

pub(crate) const ADMISSION: &str = "/apis/admissionregistration.k8s.io/v1";
pub(crate) const MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// Scene: a server, an administrator of configurations, and a user without the permission to bypass webhooks.
pub(crate) struct Scene {
    pub(crate) capstan: Capstan,
    pub(crate) admin: Client,
    pub(crate) alice: Client,
    pub(crate) data: tempfile::TempDir,
}

impl Scene {
    pub(crate) async fn start() -> Self {
        Self::start_with(|_| Vec::new()).await
    }

    pub(crate) async fn start_with(arguments: impl FnOnce(&Path) -> Vec<String>) -> Self {
        let data = tempfile::tempdir().unwrap();
        let arguments = arguments(data.path());
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let capstan = Capstan::start(data.path(), &arguments);
        capstan.ready().await;
        let admin = capstan.client();
        let rules = json!([{"verbs": ["create", "delete", "deletecollection", "get", "list", "patch", "update"],
            "apiGroups": ["", "cluster.x-k8s.io"], "resources": ["*"]}]);
        let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
            "metadata": {"name": "writer"}, "rules": rules});
        let rbac = "/apis/rbac.authorization.k8s.io/v1";
        send(&admin, "POST", &format!("{rbac}/clusterroles"), &role, 201).await;
        let binding = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
            "metadata": {"name": "writer"}, "roleRef": {"kind": "ClusterRole", "name": "writer"},
            "subjects": [{"kind": "User", "name": "alice"}]});
        send(&admin, "POST", &format!("{rbac}/clusterrolebindings"), &binding, 201).await;
        let alice = capstan.client_of(Identity::of_member(data.path(), "alice", &["dev"]));
        let scene = Self { capstan, admin, alice, data };
        scene.until("GET", MAPS, &Value::Null, |answer| answer.code == 200).await;
        scene
    }

    /// Sends a request of alice until the answer is as expected: configurations take effect within a second.
    pub(crate) async fn until(
        &self,
        method: &str,
        path: &str,
        body: &Value,
        is_expected: impl Fn(&Answer) -> bool,
    ) -> Answer {
        let end = Instant::now() + PATIENCE;
        loop {
            let text = if body.is_null() { String::new() } else { body.to_string() };
            let answer = self.alice.once(method, path, &text).await.unwrap();
            if is_expected(&answer) {
                return answer;
            }
            assert!(Instant::now() < end, "{method} {path}: {} {}", answer.code, answer.text());
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// Creates a configuration with one webhook, and waits until it is in force.
    pub(crate) async fn configure(&self, kind: &str, server: &WebhookServer, name: &str, changes: &Value) {
        let configuration = configuration(kind, server, name, changes);
        let plural = format!("{}s", kind.to_lowercase());
        send(&self.admin, "POST", &format!("{ADMISSION}/{plural}"), &configuration, 201).await;
        tokio::time::sleep(Duration::from_millis(300)).await;
    }
}

pub(crate) fn configuration(kind: &str, server: &WebhookServer, name: &str, changes: &Value) -> Value {
    let mut hook = json!({"name": format!("{name}.example.org"),
        "clientConfig": {"url": format!("{}/{name}", server.url), "caBundle": server.bundle},
        "rules": [{"operations": ["*"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}],
        "sideEffects": "None", "admissionReviewVersions": ["v1"]});
    hook.as_object_mut().unwrap().extend(changes.as_object().unwrap().clone());
    json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "metadata": {"name": name}, "webhooks": [hook]})
}

pub(crate) async fn send(client: &Client, method: &str, path: &str, body: &Value, expected: u16) -> Value {
    let text = if body.is_null() { String::new() } else { body.to_string() };
    let answer = client.once(method, path, &text).await.unwrap();
    assert_eq!(answer.code, expected, "{method} {path}: {}", answer.text());
    serde_json::from_slice(&answer.body).unwrap()
}

pub(crate) fn map(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "labels": {"app": "a"}}, "data": {"a": "b"}})
}

pub(crate) fn warnings(answer: &Answer) -> Vec<String> {
    answer.headers.get_all("warning").iter().map(|value| value.to_str().unwrap().to_owned()).collect()
}
