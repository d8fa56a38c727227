//! Users of Keystone: they log in with the plug-in for kubectl, and the server knows their projects.

use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};
use tests_openstack_simulator::{Simulator, SimulatorOptions};

use crate::process::Capstan;

const SELF: &str = "/apis/authentication.k8s.io/v1/selfsubjectreviews";

/// Runs `capstan login keystone`. Returns its exit code, its standard output and its standard error.
fn log_in(directory: &Path, arguments: &[&str]) -> (i32, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_capstan"));
    command.args(["login", "keystone"]).args(arguments).current_dir(directory).env("NO_COLOR", "1");
    command.env("OS_CLIENT_CONFIG_FILE", "clouds.yaml").env_remove("OS_CLOUD");
    let output = command.output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code().unwrap_or(-1), text(&output.stdout), text(&output.stderr))
}

/// Client without a certificate, as kubectl with the plug-in.
pub(crate) struct TokenClient {
    http: reqwest::Client,
    url: String,
}

impl TokenClient {
    pub(crate) fn new(capstan: &Capstan, data: &Path) -> Self {
        let ca = std::fs::read(data.join("pki/ca.crt")).unwrap();
        let ca = reqwest::Certificate::from_pem(&ca).unwrap();
        let http = reqwest::Client::builder().tls_certs_only([ca]).build().unwrap();
        Self { http, url: format!("https://127.0.0.1:{}", capstan.port) }
    }

    /// Returns the code of a request without credentials.
    pub(crate) async fn get(&self, path: &str) -> u16 {
        self.http.get(format!("{}{path}", self.url)).send().await.unwrap().status().as_u16()
    }

    /// Returns the code, and the user that the server sees or its error.
    pub(crate) async fn review(&self, header: &str, value: &str) -> (u16, Value) {
        let body = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"});
        let request = self.http.post(format!("{}{SELF}", self.url)).header(header, value);
        let request = request.header("Content-Type", "application/json").body(body.to_string());
        let response = request.send().await.unwrap();
        let code = response.status().as_u16();
        let body: Value = serde_json::from_slice(&response.bytes().await.unwrap()).unwrap();
        (code, body.pointer("/status/userInfo").or_else(|| body.get("message")).cloned().unwrap_or_default())
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_user_of_keystone_logs_in_with_the_plug_in_and_has_the_groups_of_its_project() {
    let simulator = Simulator::start(SimulatorOptions::default()).await.unwrap();
    let data = tempfile::tempdir().unwrap();
    let config = data.path().join("config.yaml");
    let text = format!(
        "apiVersion: capstan.dev/v1alpha1\nkind: ServerConfiguration\nkeystone: {{authURL: '{}', allowInsecureHTTP: true}}\n",
        simulator.auth_url()
    );
    std::fs::write(&config, text).unwrap();
    let capstan = Capstan::start(data.path(), &["--config", config.to_str().unwrap()]);
    capstan.ready().await;
    std::fs::write(data.path().join("clouds.yaml"), simulator.clouds_yaml("demo")).unwrap();

    let (code, stdout, stderr) = log_in(data.path(), &["--cloud", "openstack"]);
    assert_eq!(code, 0, "{stderr}");
    let credential: Value = serde_json::from_str(&stdout).unwrap();
    let token = credential.pointer("/status/token").and_then(Value::as_str).unwrap();
    let client = TokenClient::new(&capstan, data.path());
    for (header, value) in [("Authorization", format!("Bearer {token}")), ("X-Auth-Token", token.to_owned())]
    {
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
