//! ConfigMaps of a host cluster as parameters of its policies, while it answers, while it is down, and without the
//! permission to read them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::admission_scene::send;
use crate::client::Client;
use crate::host_admission::{RULES, alice, configure, create, list, until};
use crate::host_down::{COPIED, FrontProxy, host_with, until_in_state};
use crate::process::{Capstan, PATIENCE};

const HOST: &str = "/apis/capstan.dev/v1alpha1/hoststatuses/host";

/// Policies of drain rules: their names have a prefix, differ from those in some ConfigMaps, and from that in a rule.
fn policies() -> Value {
    let rules = json!([{"operations": ["CREATE"], "apiGroups": ["cluster.x-k8s.io"], "apiVersions": ["*"], "resources": ["machinedrainrules"]}]);
    let policy = |name: &str, failure: &str, of: Value, expression: &str| {
        json!({"metadata": {"name": name}, "spec": {"matchConstraints": {"resourceRules": rules}, "paramKind": of,
            "failurePolicy": failure, "validations": [{"expression": expression, "message": format!("by {name}")}]}})
    };
    let maps = json!({"apiVersion": "v1", "kind": "ConfigMap"});
    let own = json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "MachineDrainRule"});
    json!([
        policy("prefix", "Fail", maps.clone(), "object.metadata.name.startsWith(params.data.prefix)"),
        policy("others", "Ignore", maps, "object.metadata.name != params.data.not"),
        policy("model", "Fail", own, "object.metadata.name != params.metadata.annotations['not']"),
    ])
}

fn bindings() -> Value {
    let binding = |name: &str, reference: Value| {
        json!({"metadata": {"name": name},
            "spec": {"policyName": name, "paramRef": reference, "validationActions": ["Deny"]}})
    };
    let selector = json!({"matchLabels": {"policy": "others"}});
    json!([
        binding("prefix", json!({"name": "limits", "namespace": "team", "parameterNotFoundAction": "Deny"})),
        binding(
            "others",
            json!({"selector": selector, "namespace": "tools", "parameterNotFoundAction": "Allow"})
        ),
        binding("model", json!({"name": "a-model", "parameterNotFoundAction": "Allow"})),
    ])
}

fn map(namespace: &str, name: &str, data: &Value) -> Value {
    json!({"metadata": {"name": name, "namespace": namespace, "uid": name, "resourceVersion": "1"}, "data": data})
}

/// Starts a host. While `is_forbidden`, Capstan may not read the ConfigMaps of the namespace `team`.
fn host(front_proxy: &FrontProxy, is_down: &Arc<AtomicBool>, is_forbidden: &Arc<AtomicBool>) -> u16 {
    let is_forbidden = Arc::clone(is_forbidden);
    host_with(&front_proxy.ca, is_down, move |path| match path.strip_prefix("GET ")? {
        "/api/v1/namespaces/team/configmaps" if is_forbidden.load(Ordering::SeqCst) => {
            let status = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Forbidden",
                "message": "configmaps is forbidden", "code": 403});
            Some((403, status))
        }
        "/api/v1/namespaces/team/configmaps" => {
            list(&json!([map("team", "limits", &json!({"prefix": "a-"}))]))
        }
        "/api/v1/namespaces/tools/configmaps" => {
            let maps = ["x", "y"].map(|name| map("tools", name, &json!({"not": format!("a-{name}")})));
            list(&json!(maps))
        }
        "/api/v1/resourcequotas" => list(&json!([])),
        path => match path.strip_prefix("/apis/admissionregistration.k8s.io/v1/")? {
            "validatingadmissionpolicies" => list(&policies()),
            "validatingadmissionpolicybindings" => list(&bindings()),
            _ => list(&json!([])),
        },
    })
}

/// Waits until the condition `MirrorFresh` has this reason. Returns the object.
async fn until_fresh_is(client: &Client, reason: &str) -> Value {
    let end = Instant::now() + PATIENCE;
    loop {
        let host = send(client, "GET", HOST, &Value::Null, 200).await;
        let conditions = host["status"]["conditions"].as_array().unwrap();
        if conditions.iter().any(|it| it["type"] == "MirrorFresh" && it["reason"] == reason) {
            return host;
        }
        assert!(Instant::now() < end, "{host}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Names that do not fit the parameters are refused.
async fn check(client: &Client) {
    for (name, by) in [("bad", "prefix"), ("a-x", "others"), ("a-y", "others"), ("a-no", "model")] {
        let refused = create(client, name).await;
        assert_eq!(refused.code, 422, "{name}: {}", refused.text());
        assert!(refused.text().contains(&format!("denied request: by {by}")), "{name}: {}", refused.text());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn config_maps_of_the_host_and_own_kinds_are_parameters_also_while_it_is_down() {
    let (data, front_proxy) = (tempfile::tempdir().unwrap(), FrontProxy::new());
    let [is_down, is_forbidden] = [false, false].map(|flag| Arc::new(AtomicBool::new(flag)));
    let config = configure(data.path(), host(&front_proxy, &is_down, &is_forbidden));
    let arguments = ["--config", config.as_str()];
    let capstan = Capstan::start(data.path(), &arguments);
    capstan.ready().await;
    until_in_state(&capstan, "up").await;
    let user = alice(&capstan, data.path()).await;
    let model = json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "MachineDrainRule",
        "metadata": {"name": "a-model", "annotations": {"not": "a-no"}}, "spec": {"drain": {"behavior": "Skip"}}});
    until(&user, "bad", 422, "denied request: by prefix").await;
    send(&capstan.client(), "POST", RULES, &model, 201).await;
    // This ConfigMap is not the one of the host.
    let other = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "limits"}, "data": {"prefix": "bad"}});
    send(&capstan.client(), "POST", "/api/v1/namespaces/team/configmaps", &other, 201).await;
    check(&user).await;
    assert_eq!(create(&user, "a-first").await.code, 201);
    let host = send(&capstan.client(), "GET", HOST, &Value::Null, 200).await;
    let mirrors = host["status"]["mirrors"].as_array().unwrap();
    let parameters = mirrors.iter().find(|it| it["name"] == "parameters").unwrap();
    assert_eq!((&parameters["objects"], parameters.get("unread")), (&json!(3), None), "{parameters}");

    tokio::time::sleep(COPIED).await;
    is_down.store(true, Ordering::SeqCst);
    until_in_state(&capstan, "down").await;
    check(&user).await;
    capstan.signal("KILL");
    drop(capstan);

    let capstan = Capstan::start(data.path(), &arguments);
    capstan.ready().await;
    until_in_state(&capstan, "down").await;
    check(&capstan.client()).await;
    assert_eq!(create(&capstan.client(), "a-second").await.code, 201);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reference_without_permission_is_shown_and_leaves_the_others_alone() {
    let (data, front_proxy) = (tempfile::tempdir().unwrap(), FrontProxy::new());
    let [is_down, is_forbidden] = [false, true].map(|flag| Arc::new(AtomicBool::new(flag)));
    let config = configure(data.path(), host(&front_proxy, &is_down, &is_forbidden));
    let capstan = Capstan::start(data.path(), &["--config", config.as_str()]);
    capstan.ready().await;
    until_in_state(&capstan, "up").await;
    let user = alice(&capstan, data.path()).await;
    let words = "ConfigMap team/limits of the host cluster: the host cluster refuses to show them";
    until(&user, "a-first", 422, &format!("failed to configure binding: {words}")).await;
    let host = until_fresh_is(&capstan.client(), "Unread").await;
    let mirrors = host["status"]["mirrors"].as_array().unwrap();
    let parameters = mirrors.iter().find(|it| it["name"] == "parameters").unwrap();
    assert_eq!(
        parameters["unread"],
        json!(["ConfigMap team/limits: the host cluster refuses to show them"]),
        "{parameters}"
    );
    is_forbidden.store(false, Ordering::SeqCst);
    until(&user, "a-first", 201, "").await;
    assert_eq!(create(&user, "a-x").await.code, 422);
}
