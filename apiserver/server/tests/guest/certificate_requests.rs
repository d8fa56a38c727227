//! Certificate signing requests, with a real server.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair};
use serde_json::{Value, json};

use crate::client::{Client, Identity};
use crate::process::{Capstan, PATIENCE};

pub(crate) const REQUESTS: &str = "/apis/certificates.k8s.io/v1/certificatesigningrequests";
const SELF: &str = "/apis/authentication.k8s.io/v1/selfsubjectreviews";

pub(crate) async fn send(client: &Client, method: &str, path: &str, body: &Value, expected: u16) -> Value {
    let answer = client.once(method, path, &body.to_string()).await.unwrap();
    assert_eq!(answer.code, expected, "{method} {path}: {}", answer.text());
    serde_json::from_slice(&answer.body).unwrap()
}

/// Creates a request, and approves it as kubectl does. Returns the request with the outcome.
async fn approved(admin: &Client, name: &str, group: &str, key: &KeyPair) -> Value {
    signed_by(admin, (name, "kubernetes.io/kube-apiserver-client"), ("carol", group), key).await
}

/// The same with this signer, for this user and group.
pub(crate) async fn signed_by(
    admin: &Client,
    (name, signer): (&str, &str),
    (user, group): (&str, &str),
    key: &KeyPair,
) -> Value {
    let created = send(admin, "POST", REQUESTS, &request((name, signer), (user, group), key), 201).await;
    assert_eq!(created["spec"]["username"], "capstan-admin");
    approve(admin, name).await;
    outcome(admin, name).await
}

fn request((name, signer): (&str, &str), (user, group): (&str, &str), key: &KeyPair) -> Value {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, user);
    params.distinguished_name.push(DnType::OrganizationName, group);
    let pem = params.serialize_request(key).unwrap().pem().unwrap();
    json!({"apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest",
        "metadata": {"name": name}, "spec": {"request": STANDARD.encode(pem), "usages": ["client auth"],
            "signerName": signer, "expirationSeconds": 3600}})
}

/// Approves a request as kubectl does.
pub(crate) async fn approve(admin: &Client, name: &str) {
    let found = admin.get(&format!("{REQUESTS}/{name}")).await.unwrap();
    let mut request: Value = serde_json::from_slice(&found.body).unwrap();
    request["status"] = json!({"conditions": [{"type": "Approved", "status": "True", "reason": "Test"}]});
    send(admin, "PUT", &format!("{REQUESTS}/{name}/approval"), &request, 200).await;
}

/// Returns a request with its certificate, or with the reason why it gets none.
pub(crate) async fn outcome(admin: &Client, name: &str) -> Value {
    let begun = Instant::now();
    loop {
        let found: Value =
            serde_json::from_slice(&admin.get(&format!("{REQUESTS}/{name}")).await.unwrap().body).unwrap();
        let is_failed = found["status"]["conditions"].to_string().contains("Failed");
        if is_failed || found["status"]["certificate"].is_string() {
            return found;
        }
        assert!(begun.elapsed() < PATIENCE, "{found}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Returns a client with this certificate.
pub(crate) fn client(capstan: &Capstan, data: &Path, certificate: &str, key: &KeyPair) -> Client {
    capstan.client_of(Identity::of_certificate(data, certificate, &key.serialize_pem()))
}

/// Returns the command with which eve logs in by a certificate. The first of its servers does not answer.
fn plug_in(capstan: &Capstan, data: &Path) -> Command {
    let kubeconfig = capstan.kubeconfig(data, "capstan:admins");
    let servers = format!("https://127.0.0.1:1,https://127.0.0.1:{}", capstan.port);
    let mut command = Command::new(env!("CARGO_BIN_EXE_capstan"));
    command.args(["login", "cert", "--before-outage", "7d", "--timeout", "60s", "--kubeconfig", &kubeconfig]);
    command.args(["--server", &servers, "--certificate-authority"]).arg(data.join("pki/ca.crt"));
    command.env("XDG_STATE_HOME", data).env("NO_COLOR", "1").env_remove("KUBERNETES_EXEC_INFO");
    command
}

/// Returns the credential that the command prints for kubectl.
fn credential(command: &mut Command) -> Value {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let printed: Value = serde_json::from_slice(&output.stdout).unwrap();
    printed["status"].clone()
}

/// Returns the names of the requests of logins.
async fn logins(admin: &Client) -> Vec<String> {
    let found: Value = serde_json::from_slice(&admin.get(REQUESTS).await.unwrap().body).unwrap();
    let names = found["items"].as_array().unwrap().iter().map(|it| it["metadata"]["name"].as_str().unwrap());
    names.filter(|name| name.starts_with("login-")).map(str::to_owned).collect()
}

/// Logs in by a certificate that an administrator approves, and keeps it for an outage.
async fn logs_in(capstan: &Capstan, admin: &Client, data: &Path) {
    let mut command = plug_in(capstan, data);
    let login = tokio::task::spawn_blocking(move || (credential(&mut command), command));
    let begun = Instant::now();
    let name = loop {
        if let Some(name) = logins(admin).await.pop() {
            break name;
        }
        assert!(begun.elapsed() < PATIENCE && !login.is_finished(), "no request of the login");
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    approve(admin, &name).await;
    let (status, mut command) = login.await.unwrap();
    let end: jiff::Timestamp = status["expirationTimestamp"].as_str().unwrap().parse().unwrap();
    let left = end.as_second() - jiff::Timestamp::now().as_second();
    assert!((6 * 86_400..7 * 86_400).contains(&left), "{left}");
    let [certificate, key] =
        ["clientCertificateData", "clientKeyData"].map(|field| status[field].as_str().unwrap());
    let eve = capstan.client_of(Identity::of_certificate(data, certificate, key));
    let me = send(&eve, "POST", SELF, &json!({}), 201).await;
    let user = &me["status"]["userInfo"];
    assert_eq!((&user["username"], &user["groups"][0]), (&json!("eve"), &json!("capstan:admins")));
    command.env("KUBERNETES_EXEC_INFO", json!({"apiVersion": "client.authentication.k8s.io/v1"}).to_string());
    assert_eq!(credential(&mut command), status, "the certificate is kept");
    assert_eq!(logins(admin).await, [name]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_approved_request_gets_a_certificate_that_the_server_accepts() {
    let data = tempfile::tempdir().unwrap();
    let capstan = Capstan::start(data.path(), &[]);
    capstan.ready().await;
    let (admin, key) = (capstan.client(), KeyPair::generate().unwrap());
    let issued = approved(&admin, "good", "dev", &key).await;
    let pem = STANDARD.decode(issued["status"]["certificate"].as_str().unwrap()).unwrap();
    let pem = String::from_utf8(pem).unwrap();
    let carol = client(&capstan, data.path(), &pem, &key);
    let me = send(&carol, "POST", SELF, &json!({}), 201).await;
    let user = &me["status"]["userInfo"];
    assert_eq!((&user["username"], &user["groups"][0]), (&json!("carol"), &json!("dev")));

    let master = request(("bad", "kubernetes.io/kube-apiserver-client"), ("carol", "system:masters"), &key);
    let refused = send(&admin, "POST", REQUESTS, &master, 403).await;
    assert!(refused["message"].as_str().unwrap().contains("--break-glass"), "{refused}");
    let refused = signed_by(&admin, ("bad", "capstan.dev/machine"), ("carol", "system:masters"), &key).await;
    assert_eq!(refused["status"].get("certificate"), None);
    assert!(
        refused["status"]["conditions"][1]["message"].as_str().unwrap().contains("--break-glass"),
        "{refused}"
    );
    logs_in(&capstan, &admin, data.path()).await;
}
