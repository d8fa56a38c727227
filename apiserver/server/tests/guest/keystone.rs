//! Users of Keystone: they log in with the plug-in for kubectl, and the server knows their projects.

use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};
use tests_openstack_simulator::{Simulator, SimulatorOptions};

use crate::client::Identity;
use crate::process::{Capstan, PATIENCE};
use crate::token_client::TokenClient;

/// Runs `capstan login keystone`. Returns its exit code, its standard output and its standard error.
fn log_in(directory: &Path, arguments: &[&str]) -> (i32, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_capstan"));
    command.args(["login", "keystone"]).args(arguments).current_dir(directory).env("NO_COLOR", "1");
    command.env("OS_CLIENT_CONFIG_FILE", "clouds.yaml").env_remove("OS_CLOUD");
    let output = command.output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code().unwrap_or(-1), text(&output.stdout), text(&output.stderr))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_user_of_keystone_logs_in_with_the_plug_in_and_has_the_groups_of_its_project() {
    let simulator = Simulator::start(SimulatorOptions::default()).await.unwrap();
    let data = tempfile::tempdir().unwrap();
    let (capstan, token) = with_keystone(&simulator, data.path()).await;
    let client = TokenClient::new(&capstan, data.path());
    for (header, value) in [("Authorization", format!("Bearer {token}")), ("X-Auth-Token", token.clone())] {
        let (code, user) = client.review(header, &value).await;
        assert_eq!((code, &user["username"]), (201, &json!("keystone:Default/demo")), "{header}");
        let groups: Vec<&str> = user["groups"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
        assert!(
            groups.iter().any(|it| it.starts_with("keystone:project:") && it.ends_with(":member")),
            "{groups:?}"
        );
        assert_eq!(user["extra"]["alpha.kubernetes.io/identity/project/name"], json!(["demo"]));
    }
    let (code, _) = client.review("Authorization", "Bearer gAAAAABinvented").await;
    assert_eq!(code, 401);

    simulator.shutdown().await.unwrap();
    let (code, _) = client.review("Authorization", &format!("Bearer {token}")).await;
    assert_eq!(code, 201, "the answer is a moment old");
    let (code, message) = client.review("Authorization", "Bearer gAAAAABother").await;
    assert!(
        code == 503 && message.to_string().contains("does not say who this token belongs to"),
        "{code} {message}"
    );
    let (code, stdout, stderr) = log_in(data.path(), &["--cloud", "openstack"]);
    assert!(
        code == 6 && stdout.is_empty() && stderr.contains("it cannot be reached"),
        "{code} {stdout} {stderr}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_login_that_keystone_refuses_has_its_words_and_no_output() {
    let simulator = Simulator::start(SimulatorOptions::default()).await.unwrap();
    let data = tempfile::tempdir().unwrap();
    let clouds = simulator.clouds_yaml("demo").replace("password: demo", "password: wrong");
    std::fs::write(data.path().join("clouds.yaml"), clouds).unwrap();
    let (code, stdout, stderr) = log_in(data.path(), &["--cloud", "openstack"]);
    assert_eq!((code, stdout.as_str()), (6, ""), "{stderr}");
    assert!(stderr.contains("requires authentication") && !stderr.contains("wrong"), "{stderr}");
    let (code, _, stderr) = log_in(data.path(), &["--cloud", "other"]);
    assert!(code == 1 && stderr.contains("has no cloud \"other\""), "{code} {stderr}");
    let (code, _, stderr) = log_in(data.path(), &["--server", "https://x"]);
    assert_eq!(code, 2, "{stderr}");
}

/// Starts a server with the Keystone of a simulator. Returns it with a token of the user `demo`.
async fn with_keystone(simulator: &Simulator, data: &Path) -> (Capstan, String) {
    with_settings(simulator, data, "").await
}

/// The same with further lines of the configuration.
async fn with_settings(simulator: &Simulator, data: &Path, settings: &str) -> (Capstan, String) {
    let config = data.join("config.yaml");
    let text = format!(
        "apiVersion: capstan.dev/v1alpha1\nkind: ServerConfiguration\nkeystone: {{authURL: '{}', allowInsecureHTTP: true}}\n{settings}",
        simulator.auth_url()
    );
    std::fs::write(&config, text).unwrap();
    let capstan = Capstan::start(data, &["--config", config.to_str().unwrap()]);
    capstan.ready().await;
    std::fs::write(data.join("clouds.yaml"), simulator.clouds_yaml("demo")).unwrap();
    let (code, stdout, stderr) = log_in(data, &["--cloud", "openstack"]);
    assert_eq!(code, 0, "{stderr}");
    let credential: Value = serde_json::from_str(&stdout).unwrap();
    (capstan, credential.pointer("/status/token").and_then(Value::as_str).unwrap().to_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn users_of_a_project_have_the_permissions_of_their_role_in_its_namespaces() {
    let simulator = Simulator::start(SimulatorOptions::default()).await.unwrap();
    let data = tempfile::tempdir().unwrap();
    let (capstan, token) = with_keystone(&simulator, data.path()).await;
    let user = TokenClient::new(&capstan, data.path());
    let (_, identity) = user.review("Authorization", &format!("Bearer {token}")).await;
    let project = identity.pointer("/extra/alpha.kubernetes.io~1identity~1project~1id/0");
    let project = project.and_then(Value::as_str).unwrap().to_owned();
    let namespace = |name: &str| {
        json!({"apiVersion": "v1", "kind": "Namespace",
            "metadata": {"name": name, "labels": {"capstan.dev/keystone-project": project}}})
        .to_string()
    };
    let machines = |name: &str| format!("/apis/cluster.x-k8s.io/v1beta2/namespaces/{name}/machines");

    // A user who may create namespaces, and no more, cannot give one to a project.
    let admin = capstan.client();
    let rule = json!([{"apiGroups": [""], "resources": ["namespaces"], "verbs": ["*"]}]);
    let group = "/apis/rbac.authorization.k8s.io/v1";
    let role = json!({"metadata": {"name": "namespaces"}, "rules": rule}).to_string();
    let binding =
        json!({"metadata": {"name": "namespaces"}, "roleRef": {"kind": "ClusterRole", "name": "namespaces"},
        "subjects": [{"kind": "User", "name": "alice"}]})
        .to_string();
    for (kind, body) in [("clusterroles", role), ("clusterrolebindings", binding)] {
        assert_eq!(admin.once("POST", &format!("{group}/{kind}"), &body).await.unwrap().code, 201);
    }
    let alice = capstan.client_of(Identity::of_member(data.path(), "alice", &["dev"]));
    let begun = std::time::Instant::now();
    let mut refused = alice.once("POST", "/api/v1/namespaces", &namespace("team")).await.unwrap();
    while !refused.text().contains("keystoneprojects") {
        assert!(begun.elapsed() < PATIENCE, "{}", refused.text());
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        refused = alice.once("POST", "/api/v1/namespaces", &namespace("team")).await.unwrap();
    }
    assert!(refused.code == 403 && refused.text().contains("cannot assign resource"), "{}", refused.text());

    assert_eq!(admin.once("POST", "/api/v1/namespaces", &namespace("team")).await.unwrap().code, 201);
    while user.get(&machines("team"), &token).await.0 != 200 {
        assert!(begun.elapsed() < PATIENCE, "{:?}", user.get(&machines("team"), &token).await);
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    let metrics = admin.get("/metrics").await.unwrap().text();
    let by_project = "decisions_total{type=\"Keystone\",name=\"keystone\",decision=\"allowed\"} 1\n";
    assert!(metrics.contains(by_project), "{metrics}");
    assert_eq!(user.get(&machines("default"), &token).await.0, 403, "another project's namespace");
    let relabel = r#"{"metadata": {"labels": {"capstan.dev/keystone-project": null}}}"#;
    let path = "/api/v1/namespaces/team";
    let refused = alice.once("PATCH", path, relabel).await.unwrap();
    assert_eq!(refused.code, 403, "{}", refused.text());
    let taken = admin.once("PATCH", path, relabel).await.unwrap();
    assert_eq!(taken.code, 200, "{}", taken.text());
    while user.get(&machines("team"), &token).await.0 != 403 {
        assert!(begun.elapsed() < PATIENCE, "the namespace is the project's no more");
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn iz_01_an_authorization_file_can_have_the_roles_of_projects_without_those_of_bindings() {
    let simulator = Simulator::start(SimulatorOptions::default()).await.unwrap();
    let data = tempfile::tempdir().unwrap();
    let authorizers = data.path().join("authorizers.yaml");
    let text = "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthorizationConfiguration\nauthorizers:\n\
        - {type: System, name: system}\n- {type: Keystone, name: keystone}\n";
    std::fs::write(&authorizers, text).unwrap();
    let setting = format!("authorizationConfigFile: {}\n", authorizers.display());
    let (capstan, token) = with_settings(&simulator, data.path(), &setting).await;
    let user = TokenClient::new(&capstan, data.path());
    let (_, identity) = user.review("Authorization", &format!("Bearer {token}")).await;
    let project = identity.pointer("/extra/alpha.kubernetes.io~1identity~1project~1id/0");
    let project = project.and_then(Value::as_str).unwrap().to_owned();
    let admin = capstan.client();
    let create = async |path: &str, object: Value| {
        let answer = admin.once("POST", path, &object.to_string()).await.unwrap();
        assert_eq!(answer.code, 201, "{path}: {}", answer.text());
    };
    let labels = json!({"capstan.dev/keystone-project": project});
    // The binding comes first: when the role of the project counts, it has been read, too.
    create("/api/v1/namespaces", json!({"metadata": {"name": "team"}})).await;
    let binding = json!({"metadata": {"name": "alice"}, "roleRef": {"kind": "ClusterRole", "name": "edit"},
        "subjects": [{"kind": "User", "name": "alice"}]});
    create("/apis/rbac.authorization.k8s.io/v1/namespaces/team/rolebindings", binding).await;
    let labelled = json!({"metadata": {"labels": labels}}).to_string();
    assert_eq!(admin.once("PATCH", "/api/v1/namespaces/team", &labelled).await.unwrap().code, 200);
    let machines = "/apis/cluster.x-k8s.io/v1beta2/namespaces/team/machines";
    let begun = std::time::Instant::now();
    while user.get(machines, &token).await.0 != 200 {
        assert!(begun.elapsed() < PATIENCE, "{:?}", user.get(machines, &token).await);
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    let alice = capstan.client_of(Identity::of_member(data.path(), "alice", &["dev"]));
    let refused = alice.get(machines).await.unwrap();
    assert_eq!(refused.code, 403, "the file has no type RBAC: {}", refused.text());
}

/// Returns a token of a new application credential of a user of the simulator, which has these access rules.
async fn restricted(simulator: &Simulator, (token, user): (&str, &str), rules: &Value) -> String {
    let url = simulator.auth_url().trim_end_matches('/').to_owned();
    let body = json!({"application_credential": {"name": "restricted", "access_rules": rules}});
    let request = reqwest::Client::new().post(format!("{url}/users/{user}/application_credentials"));
    let request = request.header("X-Auth-Token", token).header("Content-Type", "application/json");
    let response = request.body(body.to_string()).send().await.unwrap();
    let made: Value = serde_json::from_slice(&response.bytes().await.unwrap()).unwrap();
    let made = &made["application_credential"];
    let credential = json!({"id": made["id"], "secret": made["secret"]});
    let identity = json!({"methods": ["application_credential"], "application_credential": credential});
    let request = reqwest::Client::new().post(format!("{url}/auth/tokens"));
    let body = json!({"auth": {"identity": identity}}).to_string();
    let response = request.header("Content-Type", "application/json").body(body).send().await.unwrap();
    response.headers()["x-subject-token"].to_str().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn ia_52_access_rules_of_an_application_credential_are_enforced_on_each_request() {
    let simulator = Simulator::start(SimulatorOptions::default()).await.unwrap();
    let data = tempfile::tempdir().unwrap();
    let (capstan, token) = with_keystone(&simulator, data.path()).await;
    let client = TokenClient::new(&capstan, data.path());
    let (_, user) = client.review("Authorization", &format!("Bearer {token}")).await;
    let user = user["uid"].as_str().unwrap();
    let rules = json!([{"service": "container-infra", "method": "GET", "path": "/apis"},
        {"service": "compute", "method": "GET", "path": "/**"}]);
    let restricted = restricted(&simulator, (&token, user), &rules).await;
    // The second pass has the token in the cache.
    for _ in 0..2 {
        assert_eq!(client.get("/apis", &restricted).await.0, 200);
        for path in ["/api", "/version", "/apis/cluster.x-k8s.io/v1beta2/namespaces/default/machines"] {
            let (code, answer) = client.get(path, &restricted).await;
            let words = "no access rule of its application credential has the service \"container-infra\"";
            let message = answer["message"].as_str().unwrap_or_default();
            assert!(code == 403 && message.contains(words), "{path}: {code} {answer}");
        }
        assert_eq!(client.get("/api", &token).await.0, 200, "a token without access rules");
    }
    // Another program would not enforce the rules.
    let admin = capstan.client();
    for (token, expected) in [(&restricted, None), (&token, Some(true))] {
        let review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview",
            "spec": {"token": token}});
        let path = "/apis/authentication.k8s.io/v1/tokenreviews";
        let answer = admin.once("POST", path, &review.to_string()).await.unwrap();
        let answer: Value = serde_json::from_str(&answer.text()).unwrap();
        let found = answer.pointer("/status/authenticated").and_then(Value::as_bool);
        assert_eq!(found, expected, "{answer}");
    }
}
