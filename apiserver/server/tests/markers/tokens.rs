//! Tokens and passwords: in headers, in the query, in reviews, and of accounts that exist.

use serde_json::{Value, json};

use crate::caller::Caller;
use crate::scan::Markers;

const MACHINES: &str = "/apis/cluster.x-k8s.io/v1beta2/namespaces/default/machines";
const REVIEWS: &str = "/apis/authentication.k8s.io/v1/tokenreviews";
const ACCOUNTS: &str = "/api/v1/namespaces/default/serviceaccounts";
const PROTOCOL: &str = "base64url.bearer.authorization.k8s.io.";

/// Sends unknown credentials in each header and place that takes some, or that some program takes for one.
pub(crate) async fn invented(caller: &Caller, markers: &mut Markers) {
    let mut secret = |place: &str| markers.plant(place);
    let headers: Vec<(&str, String)> = vec![
        ("authorization", format!("Bearer {}", secret("bearer token"))),
        ("authorization", format!("bearer  {}", secret("bearer token in another spelling"))),
        ("authorization", format!("Basic {}", secret("password of Basic"))),
        ("authorization", format!("Bearer gAAAAA{}", secret("token of Keystone as a bearer token"))),
        ("authorization", format!("Bearer eyJhbGciOiJub25lIn0.{}.x", secret("claims of a JWT"))),
        ("authorization", secret("authorization without a scheme")),
        ("x-auth-token", secret("token of Keystone")),
        ("x-auth-token", format!("gAAAAA{}", secret("Fernet token of Keystone"))),
        ("proxy-authorization", format!("Basic {}", secret("password of a proxy"))),
        ("cookie", format!("session={}", secret("cookie"))),
        ("x-api-key", secret("key in another header")),
        ("x-amz-security-token", secret("token of another service")),
    ];
    for (name, value) in headers {
        for (method, path) in
            [("GET", MACHINES), ("POST", MACHINES), ("GET", "/readyz?verbose"), ("GET", "/nope")]
        {
            caller.send_with(method, path, &[(name, &value)], "").await;
        }
    }
    let protocol = secret("token of a web socket");
    let protocol = format!("{PROTOCOL}{},v5.channel.k8s.io", protocol.replace("+/", "xy"));
    let upgrade = [
        ("connection", "Upgrade"),
        ("upgrade", "websocket"),
        ("sec-websocket-version", "13"),
        ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ=="),
        ("sec-websocket-protocol", protocol.as_str()),
    ];
    caller.send_with("GET", &format!("{MACHINES}?watch=true"), &upgrade, "").await;
    let review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview",
        "spec": {"token": secret("token of a review")}});
    for body in [
        review,
        json!({"spec": {"token": [secret("token of a review, in a list")]}}),
        json!({"spec": secret("text instead of the spec of a review")}),
        json!([secret("list instead of a review")]),
    ] {
        caller.send("POST", REVIEWS, "application/json", &body.to_string()).await;
    }
    let join = json!({"id": "00".repeat(8), "secret": secret("secret of a join token"), "node": "b",
        "address": "192.0.2.2", "key": "", "signature": ""});
    caller.send_with("POST", "/capstan/v1/join", &[], &join.to_string()).await;
    caller.send("POST", "/capstan/v1/join", "application/json", &join.to_string()).await;
}

/// Sends secrets in queries. `markers`: those that must be in no output, also not in the audit log.
pub(crate) async fn in_queries(caller: &Caller, markers: &mut Markers) {
    for name in ["token", "access_token", "password"] {
        let secret = markers.plant(&format!("{name} in a query"));
        let secret = percent_encoding::utf8_percent_encode(&secret, percent_encoding::NON_ALPHANUMERIC);
        for path in [MACHINES, "/readyz", "/nope", "/metrics", "/api/v1/namespaces/default/secrets/none"] {
            caller.send("GET", &format!("{path}?{name}={secret}"), "", "").await;
            caller.send_with("GET", &format!("{path}?{name}={secret}"), &[], "").await;
        }
    }
}

/// Creates an account, uses its token, and uses it after its end.
pub(crate) async fn of_an_account(caller: &Caller, markers: &mut Markers) {
    let account = json!({"metadata": {"name": "short"}});
    caller.json("POST", ACCOUNTS, &account, 201).await;
    let path = format!("{ACCOUNTS}/short/token");
    let issued: Value = caller.json("POST", &path, &json!({"spec": {}}), 201).await;
    let token = issued.pointer("/status/token").and_then(Value::as_str).unwrap();
    markers.add("signature of a token of an account", token.rsplit('.').next().unwrap().as_bytes());
    let bearer = format!("Bearer {token}");
    let get = async || caller.send_with("GET", MACHINES, &[("authorization", &bearer)], "").await.0;
    assert_eq!(
        get().await,
        503,
        "the account has no rights, and the webhook that may allow it does not answer"
    );
    let review =
        json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": token}});
    caller.json("POST", REVIEWS, &review, 201).await;
    caller.json("DELETE", &format!("{ACCOUNTS}/short"), &Value::Null, 200).await;
    let end = std::time::Instant::now() + crate::process::PATIENCE;
    while get().await != 401 {
        assert!(std::time::Instant::now() < end, "the token of a deleted account is accepted");
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    let bad = json!({"spec": {"audiences": "x", "expirationSeconds": -1, "boundObjectRef": token}});
    caller.send("POST", &path, "application/json", &bad.to_string()).await;
}
