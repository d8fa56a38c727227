//! Webhooks and admission policies of a host cluster, while it answers, while it is down, and after a restart without it.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU16, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::admission_scene::{send, warnings};
use crate::client::{Answer, Client, Identity};
use crate::etcd::free_port;
use crate::host_down::{COPIED, FrontProxy, host_with, kubeconfig, until_in_state};
use crate::process::{Capstan, PATIENCE};
use crate::webhook_server::{Reply, WebhookServer};

pub(crate) const RULES: &str = "/apis/cluster.x-k8s.io/v1beta2/namespaces/team/machinedrainrules";

/// Webhooks with `failurePolicy: Fail` and `Ignore` behind one Service, a policy, and a webhook of Cluster API's provider.
fn configurations(bundle: &str) -> impl Fn(&str) -> Option<Value> + use<> {
    let rules = json!([{"operations": ["*"], "apiGroups": ["cluster.x-k8s.io"], "apiVersions": ["*"], "resources": ["machinedrainrules"]}]);
    let hook = |name: &str, failure: &str, namespace: &str| {
        json!({"name": format!("{name}.example.org"), "failurePolicy": failure, "rules": rules, "sideEffects": "None",
            "admissionReviewVersions": ["v1"], "timeoutSeconds": 2,
            "clientConfig": {"caBundle": bundle, "service": {"namespace": namespace, "name": "gate", "path": format!("/{name}")}}})
    };
    let replaced = json!({"metadata": {"name": "capi", "labels": {"cluster.x-k8s.io/provider": "cluster-api"}},
        "webhooks": [hook("replaced", "Fail", "gone")]});
    let hooks = json!([{"metadata": {"name": "gate"}, "webhooks": [hook("ignored", "Ignore", "tools"), hook("gate", "Fail", "tools")]}, replaced]);
    let policy = json!([{"metadata": {"name": "names"}, "spec": {"matchConstraints": {"resourceRules": rules},
        "validations": [{"expression": "object.metadata.name != 'bad'", "message": "a bad name"}]}}]);
    let binding = json!([{"metadata": {"name": "names"}, "spec": {"policyName": "names", "validationActions": ["Deny"]}}]);
    move |plural| match plural {
        "validatingwebhookconfigurations" => Some(hooks.clone()),
        "validatingadmissionpolicies" => Some(policy.clone()),
        "validatingadmissionpolicybindings" => Some(binding.clone()),
        "mutatingwebhookconfigurations" => Some(json!([])),
        // This host does not know policies that change objects.
        _ => None,
    }
}

/// Returns the response with a list of objects.
pub(crate) fn list(items: &Value) -> Option<(u16, Value)> {
    let metadata = json!({"resourceVersion": "1"});
    Some((200, json!({"kind": "List", "apiVersion": "v1", "metadata": metadata, "items": items})))
}

/// Returns the responses of a host with the configurations and one Service, whose endpoint is at this port.
fn answers(bundle: &str, port: &Arc<AtomicU16>) -> impl Fn(&str) -> Option<(u16, Value)> + use<> {
    let (of_kind, port) = (configurations(bundle), Arc::clone(port));
    move |path| {
        let meta = json!({"name": "gate", "namespace": "tools", "uid": "g", "resourceVersion": "1"});
        match path {
            "GET /api/v1/resourcequotas" => list(&json!([])),
            "GET /api/v1/namespaces/tools/services" => {
                list(&json!([{"metadata": meta, "spec": {"ports": [{"port": 443, "targetPort": "https"}]}}]))
            }
            "GET /apis/discovery.k8s.io/v1/namespaces/tools/endpointslices" => {
                let port = port.load(Ordering::SeqCst);
                list(
                    &json!([{"metadata": meta, "addressType": "IPv4", "endpoints": [{"addresses": ["127.0.0.1"]}],
                    "ports": [{"name": "", "port": port}]}]),
                )
            }
            _ => list(&of_kind(path.strip_prefix("GET /apis/admissionregistration.k8s.io/v1/")?)?),
        }
    }
}

pub(crate) fn configure(data: &Path, port: u16) -> String {
    let [host, config] = ["host.kubeconfig", "config.yaml"].map(|name| data.join(name));
    std::fs::write(&host, kubeconfig(&format!("http://127.0.0.1:{port}"))).unwrap();
    let text = format!(
        "apiVersion: capstan.dev/v1alpha1\nkind: ServerConfiguration\nhost: {{kubeconfig: {}, admission: mirror}}\n",
        host.display()
    );
    std::fs::write(&config, text).unwrap();
    config.display().to_string()
}

pub(crate) async fn create(client: &Client, name: &str) -> Answer {
    let rule = json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "MachineDrainRule",
        "metadata": {"name": name}, "spec": {"drain": {"behavior": "Skip"}}});
    client.once("POST", RULES, &rule.to_string()).await.unwrap()
}

pub(crate) fn message(answer: &Answer) -> String {
    let status: Value = serde_json::from_slice(&answer.body).unwrap();
    status["message"].as_str().unwrap_or_default().to_owned()
}

/// Creates rules until the answer has this code and text.
pub(crate) async fn until(client: &Client, name: &str, code: u16, text: &str) -> Answer {
    let end = Instant::now() + PATIENCE;
    loop {
        let answer = create(client, name).await;
        if answer.code == code && message(&answer).contains(text) {
            return answer;
        }
        assert!(Instant::now() < end, "expected {code} with {text:?}: {} {}", answer.code, answer.text());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Gives alice the role of an editor, which cannot bypass webhooks.
pub(crate) async fn alice(capstan: &Capstan, data: &Path) -> Client {
    let binding = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
        "metadata": {"name": "alice"}, "roleRef": {"kind": "ClusterRole", "name": "capstan:edit"},
        "subjects": [{"kind": "User", "name": "alice"}]});
    let path = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings";
    send(&capstan.client(), "POST", path, &binding, 201).await;
    capstan.client_of(Identity::of_member(data, "alice", &["dev"]))
}

#[tokio::test(flavor = "multi_thread")]
async fn webhooks_and_policies_of_the_host_apply_also_while_it_is_down() {
    let data = tempfile::tempdir().unwrap();
    let (is_down, front_proxy) = (Arc::new(AtomicBool::new(false)), FrontProxy::new());
    let server = WebhookServer::start(|path, request| match (path, request["name"].as_str()) {
        ("/gate", Some("refused")) => {
            Reply::Review(json!({"allowed": false, "status": {"message": "not this one"}}))
        }
        _ => Reply::allowed(),
    })
    .await;
    let of_webhook = server.url.rsplit(':').next().unwrap().parse().unwrap();
    let port = Arc::new(AtomicU16::new(of_webhook));
    let config = configure(data.path(), host_with(&front_proxy.ca, &is_down, answers(&server.bundle, &port)));
    let arguments = ["--config", config.as_str()];
    let capstan = Capstan::start(data.path(), &arguments);
    capstan.ready().await;
    until_in_state(&capstan, "up").await;
    let user = alice(&capstan, data.path()).await;
    let denied = "ValidatingAdmissionPolicy 'names' with binding 'names' denied request: a bad name";
    until(&user, "bad", 422, denied).await;
    until(&user, "refused", 400, "admission webhook \"gate.example.org\" denied the request: not this one")
        .await;
    assert_eq!(create(&user, "first").await.code, 201);
    assert!(server.calls("/replaced").is_empty() && !server.calls("/ignored").is_empty());
    // Only the direct endpoint has this ConfigMap, so the host's policies do not apply.
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "bad"}});
    send(&capstan.client(), "POST", "/api/v1/namespaces/default/configmaps", &map, 201).await;
    let host =
        send(&capstan.client(), "GET", "/apis/capstan.dev/v1alpha1/hoststatuses/host", &Value::Null, 200)
            .await;
    let mirrors = host["status"]["mirrors"].as_array().unwrap();
    let mirror = mirrors.iter().find(|it| it["name"] == "admission").unwrap();
    assert_eq!(mirror["leftOut"], json!(["ValidatingWebhookConfiguration/capi"]), "{mirror}");

    tokio::time::sleep(COPIED).await;
    is_down.store(true, Ordering::SeqCst);
    until_in_state(&capstan, "down").await;
    assert_eq!(create(&user, "second").await.code, 201, "the webhook still answers at its last address");
    assert_eq!(create(&user, "bad").await.code, 422);
    capstan.signal("KILL");
    drop(capstan);

    let capstan = Capstan::start(data.path(), &arguments);
    capstan.ready().await;
    until_in_state(&capstan, "down").await;
    let user = capstan.client_of(Identity::of_member(data.path(), "alice", &["dev"]));
    assert_eq!(create(&user, "bad").await.code, 422, "the copies decide");
    let refused = create(&user, "third").await;
    assert_eq!(
        (refused.code, refused.headers["retry-after"].to_str().unwrap()),
        (503, "30"),
        "{}",
        refused.text()
    );
    for part in ["gate.example.org", "gate.tools.svc:443/gate", "have not been read", "does not answer"] {
        assert!(refused.text().contains(part), "{part}: {}", refused.text());
    }
    let passed = create(&capstan.client(), "third").await;
    assert_eq!(passed.code, 201, "{}", passed.text());
    assert!(
        warnings(&passed).iter().any(|it| it.contains("your permission to bypass")),
        "{:?}",
        warnings(&passed)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unreachable_webhook_of_a_host_that_answers_fails_as_upstream_says() {
    let data = tempfile::tempdir().unwrap();
    let (is_down, front_proxy) = (Arc::new(AtomicBool::new(false)), FrontProxy::new());
    let server = WebhookServer::start(|_, _| Reply::allowed()).await;
    let port = Arc::new(AtomicU16::new(free_port()));
    let config = configure(data.path(), host_with(&front_proxy.ca, &is_down, answers(&server.bundle, &port)));
    let capstan = Capstan::start(data.path(), &["--config", config.as_str()]);
    capstan.ready().await;
    until_in_state(&capstan, "up").await;
    let user = alice(&capstan, data.path()).await;
    let failed = until(&user, "first", 500, "failed calling webhook \"gate.example.org\"").await;
    for part in [
        "https://gate.tools.svc:443/gate?timeout=2s",
        "ValidatingWebhookConfiguration \"gate\" in the host cluster",
    ] {
        assert!(message(&failed).contains(part), "{part}: {}", failed.text());
    }
}
