//! Tokens of service accounts, with a real server.

use std::path::Path;
use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};

use crate::client::Client;
use crate::etcd::Etcd;
use crate::process::{Capstan, PATIENCE};
use crate::rolling_restart::share_secrets;
use crate::token_client::TokenClient;

const ACCOUNTS: &str = "/api/v1/namespaces/default/serviceaccounts";

/// Longest time until the end of a service account counts on another replica.
const EFFECT: Duration = Duration::from_secs(1);

async fn send(client: &Client, method: &str, path: &str, body: &Value, expected: u16) -> Value {
    let body = if body.is_null() { String::new() } else { body.to_string() };
    let answer = client.once(method, path, &body).await.unwrap();
    assert_eq!(answer.code, expected, "{method} {path}: {}", answer.text());
    serde_json::from_slice(&answer.body).unwrap()
}

async fn create(admin: &Client, name: &str) {
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}});
    send(admin, "POST", ACCOUNTS, &account, 201).await;
}

/// Issues a token of the account `robot`. Returns it, and the response.
async fn issue(admin: &Client, spec: Value) -> (String, Value) {
    let answer = send(admin, "POST", &format!("{ACCOUNTS}/robot/token"), &json!({"spec": spec}), 201).await;
    (answer["status"]["token"].as_str().unwrap().to_owned(), answer)
}

/// Reviews the token for another program, which needs the role `system:auth-delegator`.
async fn delegated(admin: &Client, client: &TokenClient, token: &str, claims: &Value) {
    const REVIEWS: &str = "/apis/authentication.k8s.io/v1/tokenreviews";
    let ours = &claims["iss"];
    let review = async |token: &str, audiences: Value| {
        let body = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview",
            "spec": {"token": token, "audiences": audiences}});
        send(admin, "POST", REVIEWS, &body, 201).await["status"].clone()
    };
    let status = review(token, json!([])).await;
    assert_eq!((&status["authenticated"], &status["audiences"]), (&json!(true), &json!([ours])), "{status}");
    assert_eq!(status["user"]["username"], claims["sub"]);
    assert_eq!(status["user"]["extra"]["capstan.dev/realm"], json!(["own"]));
    assert_eq!(review(token, json!([ours, "other"])).await["audiences"], json!([ours]));
    assert_eq!(review(token, json!(["other"])).await["authenticated"], Value::Null, "another audience");
    assert_eq!(review("nonsense", json!([])).await["authenticated"], Value::Null);
    let (foreign, _) = issue(admin, json!({"audiences": ["dashboard", "other"]})).await;
    let status = review(&foreign, json!([ours, "dashboard"])).await;
    assert_eq!((&status["audiences"], &status["user"]["username"]), (&json!(["dashboard"]), &claims["sub"]));
    assert_eq!(review(&foreign, json!([])).await["authenticated"], Value::Null, "it is not for this server");
    assert_eq!(code(client, &foreign).await, 401, "nor does it log in");
    send(admin, "POST", REVIEWS, &json!({"spec": {}}), 400).await;
    assert_eq!(client.post(REVIEWS, token, &json!({"spec": {"token": token}})).await, 403, "it has no role");
    let binding = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
        "metadata": {"name": "delegator"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "system:auth-delegator"},
        "subjects": [{"kind": "ServiceAccount", "namespace": "default", "name": "robot"}]});
    let bindings = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings";
    send(admin, "POST", bindings, &binding, 201).await;
    let begun = Instant::now();
    while client.post(REVIEWS, token, &json!({"spec": {"token": token}})).await != 201 {
        assert!(begun.elapsed() < PATIENCE, "the binding has no effect");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    send(admin, "DELETE", &format!("{bindings}/delegator"), &Value::Null, 200).await;
}

fn claims(token: &str) -> Value {
    let part = token.split('.').nth(1).unwrap();
    serde_json::from_slice(&URL_SAFE_NO_PAD.decode(part).unwrap()).unwrap()
}

async fn code(client: &TokenClient, token: &str) -> u16 {
    client.review("Authorization", &format!("Bearer {token}")).await.0
}

fn start(data: &Path) -> Capstan {
    Capstan::start(data, &[])
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_names_its_service_account_and_ends_with_it() {
    let data = tempfile::tempdir().unwrap();
    let mut capstan = start(data.path());
    capstan.ready().await;
    let admin = capstan.client();
    create(&admin, "robot").await;
    let (token, answer) = issue(&admin, json!({})).await;
    let claims = claims(&token);
    assert_eq!(claims["sub"], "system:serviceaccount:default:robot");
    assert_eq!((&claims["aud"], &answer["spec"]["audiences"]), (&json!([claims["iss"]]), &claims["aud"]));
    assert_eq!(claims["exp"].as_i64().unwrap() - claims["iat"].as_i64().unwrap(), 3600);

    let client = TokenClient::new(&capstan, data.path());
    let (code_of_review, user) = client.review("Authorization", &format!("Bearer {token}")).await;
    assert_eq!(code_of_review, 201, "{user}");
    assert_eq!(user["username"], "system:serviceaccount:default:robot");
    let groups = ["system:serviceaccounts", "system:serviceaccounts:default", "system:authenticated"];
    assert_eq!(user["groups"], json!(groups));
    assert_eq!(user["uid"], claims["kubernetes.io"]["serviceaccount"]["uid"]);
    let id = format!("JTI={}", claims["jti"].as_str().unwrap());
    assert_eq!(user["extra"]["authentication.kubernetes.io/credential-id"], json!([id]));

    delegated(&admin, &client, &token, &claims).await;
    // Its group may read the keys, by which another program verifies the token.
    let (status, keys) = client.get("/openid/v1/jwks", &token).await;
    assert_eq!((status, keys["keys"].as_array().map(Vec::len)), (200, Some(1)), "{keys}");
    let (_, configuration) = client.get("/.well-known/openid-configuration", &token).await;
    assert_eq!(configuration["issuer"], claims["iss"]);
    assert_eq!(client.get("/api/v1/secrets", &token).await.0, 403, "it has no permission yet");

    // The keys are in the store: a restart changes nothing.
    capstan.signal("TERM");
    capstan.ended().await;
    let log = std::fs::read_to_string(data.path().join("audit/audit.log")).unwrap();
    let issued = format!("\"authentication.kubernetes.io/issued-credential-id\":\"{id}\"");
    assert!(log.contains(&issued), "no audit event has the id of the token");
    capstan = Capstan::start_on(capstan.port, data.path(), &[]);
    capstan.ready().await;
    let client = TokenClient::new(&capstan, data.path());
    assert_eq!(code(&client, &token).await, 201);
    let admin = capstan.client();
    send(&admin, "DELETE", &format!("{ACCOUNTS}/robot"), &Value::Null, 200).await;
    assert_eq!(code(&client, &token).await, 401);
    create(&admin, "robot").await;
    assert_eq!(code(&client, &token).await, 401, "an account of the same name is another one");
}

#[tokio::test(flavor = "multi_thread")]
async fn tm_07_a_token_ends_with_its_account_on_another_replica_within_a_second() {
    let etcd = Etcd::started();
    let directories = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let [first, second] = directories.each_ref().map(tempfile::TempDir::path);
    let config = first.join("capstan.yaml");
    let settings = format!(
        "apiVersion: capstan.dev/v1alpha1\nkind: ServerConfiguration\n\
         serviceAccounts: {{issuer: 'https://capstan.example.org'}}\nstorage: {{etcd: {{endpoints: ['{}']}}}}\n",
        etcd.url()
    );
    std::fs::write(&config, settings).unwrap();
    let flags = ["--config", config.to_str().unwrap()];
    let one = Capstan::start(first, &flags);
    one.ready().await;
    share_secrets(first, second);
    let other = Capstan::start(second, &flags);
    other.ready().await;
    let (admin, client) = (one.client(), TokenClient::new(&other, second));
    create(&admin, "robot").await;
    let (token, _) = issue(&admin, json!({})).await;
    assert_eq!(code(&client, &token).await, 201, "the token is of another replica");
    send(&admin, "DELETE", &format!("{ACCOUNTS}/robot"), &Value::Null, 200).await;
    let begun = Instant::now();
    while code(&client, &token).await != 401 {
        assert!(begun.elapsed() < PATIENCE, "the token is still accepted");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert!(begun.elapsed() < EFFECT, "{:?}", begun.elapsed());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_ends_with_the_object_that_it_is_bound_to_and_changed_tokens_are_refused() {
    let data = tempfile::tempdir().unwrap();
    let capstan = start(data.path());
    capstan.ready().await;
    let admin = capstan.client();
    let client = TokenClient::new(&capstan, data.path());
    create(&admin, "robot").await;
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}});
    let secrets = "/api/v1/namespaces/default/secrets";
    let uid = send(&admin, "POST", secrets, &secret, 201).await["metadata"]["uid"].clone();
    let reference = |uid: &Value| json!({"kind": "Secret", "apiVersion": "v1", "name": "s", "uid": uid});
    let path = format!("{ACCOUNTS}/robot/token");
    let wrong = json!({"spec": {"boundObjectRef": reference(&json!("another"))}});
    let refused = send(&admin, "POST", &path, &wrong, 409).await;
    assert!(refused["message"].as_str().unwrap().contains("deleted and created again"), "{refused}");
    let (token, _) = issue(&admin, json!({"boundObjectRef": reference(&uid)})).await;
    assert_eq!(code(&client, &token).await, 201);
    send(&admin, "DELETE", &format!("{secrets}/s"), &Value::Null, 200).await;
    assert_eq!(code(&client, &token).await, 401);

    for (spec, status, expected) in [
        (json!({"expirationSeconds": 599}), 422, "spec.expirationSeconds: Invalid value: 599"),
        (json!({"expirationSeconds": (1_u64 << 32) + 1}), 422, "larger than 2^32 seconds"),
        (json!({"boundObjectRef": {"kind": "Pod", "apiVersion": "v1", "name": "p"}}), 400, "not to v1 Pod"),
        (json!({"boundObjectRef": {"kind": "Machine", "name": "m"}}), 404, "\"m\" not found"),
        (json!({"audience": ["a"]}), 400, "unknown field \"spec.audience\""),
    ] {
        let refused = send(&admin, "POST", &path, &json!({"spec": spec}), status).await;
        assert!(refused["message"].as_str().unwrap().contains(expected), "{refused}");
    }

    let (other, answer) = issue(&admin, json!({"audiences": ["vault"], "expirationSeconds": 999_999})).await;
    assert_eq!(answer["spec"]["expirationSeconds"], 86_400, "the server's limit");
    assert_eq!(code(&client, &other).await, 401, "it is for another program");
    let (good, _) = issue(&admin, json!({})).await;
    let parts: Vec<&str> = good.split('.').collect();
    let mut changed = claims(&good);
    changed["sub"] = json!("system:serviceaccount:default:other");
    let changed = URL_SAFE_NO_PAD.encode(changed.to_string());
    let unsigned = URL_SAFE_NO_PAD.encode(r#"{"alg":"none"}"#);
    for bad in [
        format!("{}.{changed}.{}", parts[0], parts[2]),
        format!("{unsigned}.{}.", parts[1]),
        format!("{unsigned}.{}.{}", parts[1], parts[2]),
        format!("{}.{}.", parts[0], parts[1]),
    ] {
        assert_eq!(code(&client, &bad).await, 401, "{bad}");
    }
    assert_eq!(code(&client, &good).await, 201);
}
