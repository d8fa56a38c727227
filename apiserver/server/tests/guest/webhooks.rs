//! Admission webhooks, with a real server and a webhook server over TLS.

use std::time::Duration;

use serde_json::{Value, json};

use crate::admission_scene::{ADMISSION, MAPS, Scene, configuration, map, send, warnings};
use crate::webhook_server::{Reply, WebhookServer};

const DEPLOYMENTS: &str = "/apis/cluster.x-k8s.io/v1beta2/namespaces/default/machinedeployments";

#[tokio::test(flavor = "multi_thread")]
async fn a_validating_webhook_sees_every_write_and_its_refusal_is_the_answer() {
    let server = WebhookServer::start(|_, request| {
        let is_bad = request["object"]["data"]["a"] == "bad" || request["oldObject"]["data"]["keep"] == "yes";
        if is_bad && request["operation"] != "CREATE" || request["object"]["data"]["a"] == "bad" {
            return Reply::Review(json!({"allowed": false, "status": {"code": 403, "reason": "Forbidden", "message": "no bad maps"}}));
        }
        Reply::Review(json!({"allowed": true, "warnings": ["careful"], "auditAnnotations": {"seen": "yes"}}))
    })
    .await;
    let mut scene = Scene::start().await;
    scene.configure("ValidatingWebhookConfiguration", &server, "check", &json!({})).await;

    let mut bad = map("bad");
    bad["data"]["a"] = json!("bad");
    let refused = send(&scene.alice, "POST", MAPS, &bad, 403).await;
    assert_eq!(refused["message"], "admission webhook \"check.example.org\" denied the request: no bad maps");
    assert_eq!(refused["reason"], "Forbidden");
    send(&scene.alice, "GET", &format!("{MAPS}/bad"), &Value::Null, 404).await;

    let created = scene.alice.once("POST", MAPS, &map("good").to_string()).await.unwrap();
    assert_eq!((created.code, warnings(&created)), (201, vec!["299 - \"careful\"".to_owned()]));
    let one = format!("{MAPS}/good");
    send(&scene.alice, "PATCH", &one, &json!({"data": {"a": "bad"}}), 403).await;
    send(
        &scene.alice,
        "PATCH",
        &format!("{one}?dryRun=All"),
        &json!({"data": {"a": "c", "keep": "yes"}}),
        200,
    )
    .await;
    send(&scene.alice, "PATCH", &one, &json!({"data": {"a": "c", "keep": "yes"}}), 200).await;
    send(&scene.alice, "DELETE", &one, &Value::Null, 403).await;
    send(&scene.alice, "DELETE", MAPS, &Value::Null, 403).await;
    assert_eq!(send(&scene.alice, "GET", &one, &Value::Null, 200).await["data"]["a"], "c");

    let calls = server.calls("/check");
    let first = &calls[0].request;
    assert_eq!((calls[0].query.as_str(), calls[0].version), ("timeout=10s", http::Version::HTTP_2));
    assert_eq!(first["kind"], json!({"group": "", "version": "v1", "kind": "ConfigMap"}));
    assert_eq!(first["resource"], json!({"group": "", "version": "v1", "resource": "configmaps"}));
    assert_eq!((&first["name"], &first["namespace"]), (&json!("bad"), &json!("default")));
    assert_eq!(first["userInfo"]["username"], "alice");
    assert_eq!(first["userInfo"]["groups"], json!(["dev", "system:authenticated"]));
    assert_eq!(first["options"]["kind"], "CreateOptions");
    assert!(first["object"]["metadata"]["uid"].is_string() && first["oldObject"].is_null(), "{first}");
    assert!(first["object"]["metadata"]["managedFields"][0]["fieldsV1"].is_object(), "{first}");
    let operations: Vec<(&str, bool)> = calls
        .iter()
        .map(|call| (call.request["operation"].as_str().unwrap(), call.request["dryRun"] == true))
        .collect();
    assert!(
        operations.contains(&("UPDATE", true)) && operations.contains(&("DELETE", false)),
        "{operations:?}"
    );
    let deletion = calls.iter().find(|call| call.request["operation"] == "DELETE").unwrap();
    assert!(deletion.request["object"].is_null() && deletion.request["oldObject"]["data"]["keep"] == "yes");

    scene.capstan.signal("TERM");
    scene.capstan.ended().await;
    let log = std::fs::read_to_string(scene.data.path().join("audit/audit.log")).unwrap();
    assert!(log.contains("\"check.example.org/seen\":\"yes\""), "the annotation is in the audit log");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_webhook_that_cannot_be_called_fails_the_write_unless_it_is_ignored_or_bypassed() {
    let server = WebhookServer::start(|path, _| match path {
        "/silent" => Reply::Silence,
        "/broken" => Reply::Raw(500, "", b"boom".to_vec()),
        "/moved" => Reply::Raw(302, "https://127.0.0.1:1/", Vec::new()),
        "/long" => Reply::Raw(200, "", vec![b' '; 1_100_000]),
        _ => Reply::allowed(),
    })
    .await;
    let mut scene = Scene::start().await;
    let kind = "ValidatingWebhookConfiguration";
    let only = |name: &str| json!({"objectSelector": {"matchLabels": {"for": name}}});
    for name in ["silent", "broken", "moved", "long"] {
        let mut changes = only(name);
        changes["timeoutSeconds"] = json!(1);
        scene.configure(kind, &server, name, &changes).await;
    }
    let gone = json!({"url": "https://127.0.0.1:1/gone", "caBundle": server.bundle});
    for (name, policy) in [("closed", "Fail"), ("open", "Ignore")] {
        let mut changes = only(name);
        changes["clientConfig"] = gone.clone();
        changes["failurePolicy"] = json!(policy);
        scene.configure(kind, &server, name, &changes).await;
    }
    let mut untrusted = only("untrusted");
    untrusted["clientConfig"] = json!({"url": format!("{}/untrusted", server.url)});
    scene.configure(kind, &server, "untrusted", &untrusted).await;
    let labelled = |name: &str| {
        let mut map = map(name);
        map["metadata"]["labels"]["for"] = json!(name);
        map
    };
    for (name, expected) in [
        ("silent", "context deadline exceeded"),
        ("broken", "an error on the server (\"boom\") has prevented the request from succeeding"),
        ("moved", "redirects are not followed"),
        ("long", "larger than 1048576 bytes"),
        ("closed", "onnection refused"),
        ("untrusted", "ertificate"),
    ] {
        let answer = send(&scene.alice, "POST", MAPS, &labelled(name), 500).await;
        let message = answer["message"].as_str().unwrap();
        let begin = format!(
            "Internal error occurred: failed calling webhook \"{name}.example.org\": failed to call webhook: "
        );
        assert!(message.starts_with(&begin) && message.contains(expected), "{name}: {message}");
        let remedy = format!("change or delete ValidatingWebhookConfiguration \"{name}\"");
        assert!(message.ends_with(&remedy), "{message}");
    }
    send(&scene.alice, "POST", MAPS, &labelled("open"), 201).await;
    // The administrator has every permission, also the one to bypass webhooks.
    let passed = scene.admin.once("POST", MAPS, &labelled("closed").to_string()).await.unwrap();
    assert_eq!(passed.code, 201, "{}", passed.text());
    let warned = warnings(&passed).concat();
    assert!(warned.contains("bypass admissionwebhooks.capstan.dev"), "{warned}");
    scene.capstan.signal("TERM");
    scene.capstan.ended().await;
    let log = std::fs::read_to_string(scene.data.path().join("audit/audit.log")).unwrap();
    for expected in [
        "\"failed-open.validating.webhook.admission.k8s.io/round_0_index_0\":\"open.example.org\"",
        "\"bypassed.webhook.admission.capstan.dev/round_0_index_0\":\"closed.example.org\"",
    ] {
        assert!(log.contains(expected), "{expected}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn mutating_webhooks_change_objects_in_order_and_are_called_again() {
    let server = WebhookServer::start(|path, request| {
        let data = &request["object"]["data"];
        let add = |key: &str, value: &str| {
            Reply::patch(&json!([{"op": "add", "path": format!("/data/{key}"), "value": value}]))
        };
        match path {
            // It records which later changes it has seen.
            "/a-first" if data["second"].is_null() => add("first", "before"),
            "/a-first" => add("first", "after"),
            "/b-second" => add("second", data["first"].as_str().unwrap_or("none")),
            "/c-broken" if data["break"] == "managers" => Reply::patch(
                &json!([{"op": "replace", "path": "/metadata/managedFields", "value": [{"manager": 7}]}]),
            ),
            "/c-broken" if data["break"] == "unknown" => {
                Reply::patch(&json!([{"op": "add", "path": "/unknown", "value": 1}]))
            }
            "/c-broken" if data["break"] == "kind" => {
                Reply::patch(&json!([{"op": "replace", "path": "/kind", "value": "Secret"}]))
            }
            "/c-broken" if data["break"] == "path" => {
                Reply::patch(&json!([{"op": "remove", "path": "/none"}]))
            }
            _ => Reply::allowed(),
        }
    })
    .await;
    let scene = Scene::start().await;
    let kind = "MutatingWebhookConfiguration";
    for (name, policy) in [("a-first", "IfNeeded"), ("b-second", "Never"), ("c-broken", "Never")] {
        scene.configure(kind, &server, name, &json!({"reinvocationPolicy": policy})).await;
    }
    let created = send(&scene.alice, "POST", MAPS, &map("m"), 201).await;
    assert_eq!(created["data"], json!({"a": "b", "first": "after", "second": "before"}));
    assert_eq!(server.calls("/a-first").len(), 2);
    assert_eq!(server.calls("/b-second").len(), 1);
    let with = |what: &str| json!({"data": {"break": what}});
    let one = format!("{MAPS}/m");
    let patch =
        |what: &str| scene.alice.once("PATCH", &one, Box::leak(with(what).to_string().into_boxed_str()));
    let reset = patch("managers").await.unwrap();
    assert_eq!(reset.code, 200, "{}", reset.text());
    assert!(warnings(&reset).concat().contains("managedFields was in an invalid state after admission"));
    let stored: Value = serde_json::from_slice(&reset.body).unwrap();
    assert!(stored["metadata"]["managedFields"][0]["fieldsV1"].is_object(), "{stored}");
    let pruned = patch("unknown").await.unwrap();
    assert_eq!(pruned.code, 200, "{}", pruned.text());
    assert!(!pruned.text().contains("unknown\":1"), "{}", pruned.text());
    for what in ["kind", "path"] {
        let failed = patch(what).await.unwrap();
        assert_eq!(failed.code, 500, "{what}: {}", failed.text());
        assert!(failed.text().contains("c-broken.example.org"), "{what}: {}", failed.text());
        let cause = if what == "kind" { "it changes kind" } else { "patch[0] (remove " };
        assert!(failed.text().contains(cause), "{what}: {}", failed.text());
    }
    // Server-side apply creates and changes through the same webhooks.
    let before = server.calls("/b-second").len();
    let generated = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "g-"}, "data": {"a": "b"}});
    let generated = send(&scene.alice, "POST", MAPS, &generated, 201).await;
    assert_eq!(generated["data"]["second"], "before");
    assert_eq!(server.calls("/b-second")[before].request["name"], Value::Null);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_of_a_second_call_reaches_the_webhooks_after_it() {
    let server = WebhookServer::start(|_, request| {
        let before: usize = request["object"]["data"]["n"].as_str().map_or(0, |n| n.parse().unwrap());
        Reply::patch(&json!([{"op": "add", "path": "/data/n", "value": (before + 1).to_string()}]))
    })
    .await;
    let scene = Scene::start().await;
    for name in ["a-first", "b-second"] {
        let kind = "MutatingWebhookConfiguration";
        scene.configure(kind, &server, name, &json!({"reinvocationPolicy": "IfNeeded"})).await;
    }
    let created = send(&scene.alice, "POST", MAPS, &map("m"), 201).await;
    assert_eq!(created["data"], json!({"a": "b", "n": "4"}));
    assert_eq!((server.calls("/a-first").len(), server.calls("/b-second").len()), (2, 2));
}

#[tokio::test(flavor = "multi_thread")]
async fn rules_selectors_versions_and_conditions_decide_which_writes_a_webhook_sees() {
    let server = WebhookServer::start(|_, request| {
        // A scale to a forbidden number is refused.
        if request["object"]["spec"]["replicas"] == 13 {
            return Reply::Review(json!({"allowed": false, "status": {"message": "unlucky"}}));
        }
        Reply::allowed()
    })
    .await;
    let scene = Scene::start().await;
    let kind = "ValidatingWebhookConfiguration";
    let rule = |resources: &[&str], version: &str| {
        json!([{"operations": ["CREATE", "UPDATE"], "apiGroups": ["cluster.x-k8s.io"],
        "apiVersions": [version], "resources": resources}])
    };
    for (name, changes) in [
        ("older", json!({"rules": rule(&["machinedeployments"], "v1beta1")})),
        ("exact", json!({"rules": rule(&["machinedeployments"], "v1beta1"), "matchPolicy": "Exact"})),
        ("scale", json!({"rules": rule(&["*/scale"], "*")})),
        ("team", json!({"namespaceSelector": {"matchLabels": {"team": "x"}}})),
        (
            "alice",
            json!({"matchConditions": [{"name": "user", "expression": "request.userInfo.username == 'alice'"}]}),
        ),
        (
            "wrong",
            json!({"matchConditions": [{"name": "c", "expression": "object.data.missing == 'x'"}],
            "objectSelector": {"matchLabels": {"for": "wrong"}}}),
        ),
    ] {
        scene.configure(kind, &server, name, &changes).await;
    }
    let template = json!({"spec": {"clusterName": "c", "bootstrap": {"dataSecretName": "s"}, "infrastructureRef":
        {"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "OpenStackMachineTemplate", "name": "t"}}});
    let deployment = json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "MachineDeployment",
        "metadata": {"name": "d"}, "spec": {"clusterName": "c", "replicas": 0, "selector": {}, "template": template}});
    send(&scene.alice, "POST", DEPLOYMENTS, &deployment, 201).await;
    let older = server.calls("/older");
    let of_alice = older.iter().find(|call| call.request["userInfo"]["username"] == "alice").unwrap();
    assert_eq!(of_alice.request["kind"]["version"], "v1beta1");
    assert_eq!(of_alice.request["requestKind"]["version"], "v1beta2");
    assert_eq!(of_alice.request["object"]["apiVersion"], "cluster.x-k8s.io/v1beta1");
    assert_eq!(server.calls("/exact").len(), 0);

    let scale = format!("{DEPLOYMENTS}/d/scale");
    let refused = send(&scene.alice, "PATCH", &scale, &json!({"spec": {"replicas": 13}}), 400).await;
    assert_eq!(refused["message"], "admission webhook \"scale.example.org\" denied the request: unlucky");
    let call = &server.calls("/scale")[0].request;
    assert_eq!((&call["kind"]["kind"], &call["subResource"]), (&json!("Scale"), &json!("scale")));
    let replicas = &call["oldObject"]["spec"]["replicas"];
    assert!(replicas.is_null() || *replicas == json!(0), "{replicas}");

    send(&scene.alice, "POST", MAPS, &map("a"), 201).await;
    send(&scene.admin, "POST", MAPS, &map("b"), 201).await;
    assert_eq!(server.calls("/team").len(), 0);
    assert_eq!(server.calls("/alice").len(), 1);
    let label = json!({"metadata": {"labels": {"team": "x"}}});
    send(&scene.admin, "PATCH", "/api/v1/namespaces/default", &label, 200).await;
    send(&scene.admin, "POST", MAPS, &map("c"), 201).await;
    assert_eq!(server.calls("/team").len(), 1);
    let mut wrong = map("wrong");
    wrong["metadata"]["labels"]["for"] = json!("wrong");
    let refused = send(&scene.alice, "POST", MAPS, &wrong, 403).await;
    assert!(
        refused["message"].as_str().unwrap().contains("resulted in error: no such key: missing"),
        "{refused}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_configuration_for_everything_does_not_lock_its_administrator_out() {
    let server = WebhookServer::start(|_, _| {
        Reply::Review(json!({"allowed": false, "status": {"message": "nothing at all"}}))
    })
    .await;
    let scene = Scene::start().await;
    let rules =
        json!([{"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*/*"]}]);
    scene.configure("ValidatingWebhookConfiguration", &server, "all", &json!({"rules": rules})).await;
    scene.until("POST", MAPS, &map("a"), |answer| answer.code == 400).await;
    // Leases and Events of the server itself are not sent.
    tokio::time::sleep(Duration::from_secs(6)).await;
    let is_own = |call: &crate::webhook_server::Call| {
        let plural = call.request["resource"]["resource"].as_str().unwrap();
        matches!(plural, "leases" | "events" | "validatingwebhookconfigurations")
    };
    assert!(!server.calls("/all").iter().any(is_own));
    let path = format!("{ADMISSION}/validatingwebhookconfigurations/all");
    send(&scene.admin, "DELETE", &path, &Value::Null, 200).await;
    scene.until("POST", MAPS, &map("a"), |answer| answer.code == 201).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn configurations_in_files_are_in_force_from_the_start_and_not_in_the_api() {
    let server = WebhookServer::start(|_, _| {
        Reply::Review(json!({"allowed": false, "status": {"message": "by file"}}))
    })
    .await;
    let mut file = configuration("ValidatingWebhookConfiguration", &server, "file", &json!({}));
    file["metadata"]["name"] = json!("file.static.capstan.dev");
    let scene = Scene::start_with(|data| {
        let manifests = data.join("manifests");
        std::fs::create_dir(&manifests).unwrap();
        std::fs::write(manifests.join("webhook.yaml"), file.to_string()).unwrap();
        for (name, pem) in [("client.crt", &server.client.0), ("client.key", &server.client.1)] {
            std::fs::write(data.join(name), pem).unwrap();
        }
        let config = data.join("config.yaml");
        let text = format!(
            "apiVersion: capstan.dev/v1alpha1\nkind: ServerConfiguration\nadmission: {{manifestsDirectory: {}, \
             clientCertFile: {data}/client.crt, clientKeyFile: {data}/client.key}}\n",
            manifests.display(),
            data = data.display()
        );
        std::fs::write(&config, text).unwrap();
        vec!["--config".to_owned(), config.display().to_string()]
    })
    .await;
    let refused = send(&scene.alice, "POST", MAPS, &map("a"), 400).await;
    assert_eq!(refused["message"], "admission webhook \"file.example.org\" denied the request: by file");
    assert!(server.calls("/file")[0].has_certificate, "the webhook gets Capstan's certificate");
    let path = format!("{ADMISSION}/validatingwebhookconfigurations");
    assert_eq!(send(&scene.admin, "GET", &path, &Value::Null, 200).await["items"], json!([]));
    let reserved = send(&scene.admin, "POST", &path, &file, 422).await;
    assert!(reserved["message"].as_str().unwrap().contains("admission.manifestsDirectory"), "{reserved}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_action_is_a_create_of_its_subresource() {
    let server = WebhookServer::start(|_, request| {
        if request["object"]["spec"]["expirationSeconds"] == 601 {
            return Reply::Review(json!({"allowed": false, "status": {"message": "too short"}}));
        }
        Reply::patch(&json!([{"op": "replace", "path": "/spec/expirationSeconds", "value": 700}]))
    })
    .await;
    let scene = Scene::start().await;
    let rules = json!([{"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["serviceaccounts/token"]}]);
    scene.configure("MutatingWebhookConfiguration", &server, "token", &json!({"rules": rules})).await;
    let accounts = "/api/v1/namespaces/default/serviceaccounts";
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "robot"}});
    send(&scene.alice, "POST", accounts, &account, 201).await;
    assert!(server.calls("/token").is_empty());
    let token = |seconds: i64| json!({"spec": {"expirationSeconds": seconds, "audiences": []}});
    let path = format!("{accounts}/robot/token");
    let refused = send(&scene.admin, "POST", &path, &token(601), 400).await;
    assert_eq!(refused["message"], "admission webhook \"token.example.org\" denied the request: too short");
    let changed = send(&scene.admin, "POST", &path, &token(900), 201).await;
    assert_eq!(changed["spec"]["expirationSeconds"], 700);
    let call = &server.calls("/token")[0].request;
    assert_eq!(
        call["kind"],
        json!({"group": "authentication.k8s.io", "version": "v1", "kind": "TokenRequest"})
    );
    assert_eq!(
        (&call["operation"], &call["subResource"], &call["name"]),
        (&json!("CREATE"), &json!("token"), &json!("robot"))
    );
    assert_eq!(call["object"]["kind"], "TokenRequest");
    // Configurations see the defaults. Clients in Go send null for a lifetime that is not set.
    for body in [json!({}), json!({"spec": {"expirationSeconds": null, "audiences": null}})] {
        send(&scene.admin, "POST", &path, &body, 201).await;
        let calls = server.calls("/token");
        assert_eq!(calls.last().unwrap().request["object"]["spec"]["expirationSeconds"], 3600, "{body}");
    }
}
