//! Tests of certificate signing requests: who may decide about them, and what a decision changes.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod server;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use server::Server;

const REQUESTS: &str = "/apis/certificates.k8s.io/v1/certificatesigningrequests";
const APPROVAL: &str = "/apis/certificates.k8s.io/v1/certificatesigningrequests/r/approval";
const STATUS: &str = "/apis/certificates.k8s.io/v1/certificatesigningrequests/r/status";

fn request(name: &str) -> Value {
    let pem = "-----BEGIN CERTIFICATE REQUEST-----\nAA==\n-----END CERTIFICATE REQUEST-----\n";
    json!({"apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest", "metadata": {"name": name},
        "spec": {"request": STANDARD.encode(pem), "signerName": "example.com/signer", "usages": ["client auth"],
            "username": "forged", "groups": ["system:masters"]}})
}

fn with_condition(request: &Value, kind: &str) -> Value {
    let mut decided = request.clone();
    decided["status"] = json!({"conditions": [{"type": kind, "status": "True", "reason": "Test"}]});
    decided
}

#[tokio::test]
async fn a_decision_needs_the_permission_on_the_signer_and_the_server_records_the_user() {
    let server = Server::start().await;
    let (code, created) =
        server.with(&["create certificatesigningrequests"], "POST", REQUESTS, &request("r")).await;
    assert_eq!(code, 201, "{created}");
    assert_eq!(created["spec"]["username"], "bob");
    assert!(!created["spec"]["groups"].to_string().contains("masters"), "{created}");
    let approved = with_condition(&created, "Approved");
    let update = "update certificatesigningrequests/approval";
    assert_eq!(server.with(&[], "PUT", APPROVAL, &approved).await.0, 403);
    let (code, refused) = server.with(&[update], "PUT", APPROVAL, &approved).await;
    let message = "certificatesigningrequests.certificates.k8s.io \"r\" is forbidden: user not permitted to approve \
                   requests with signerName \"example.com/signer\"";
    assert_eq!((code, refused["message"].as_str()), (403, Some(message)));

    // The main resource and the status do not decide.
    let (_, updated) = server.admin("PUT", &format!("{REQUESTS}/r"), &approved).await;
    assert_eq!(updated["status"].get("conditions"), None, "{updated}");
    let (_, updated) = server.admin("PUT", STATUS, &with_condition(&updated, "Approved")).await;
    assert_eq!(updated["status"].get("conditions"), None, "{updated}");

    let mut more = with_condition(&updated, "Approved");
    more["status"]["certificate"] = json!("AAAA");
    more["spec"]["signerName"] = json!("example.com/other");
    let (code, decided) = server.with(&[update, "approve signers"], "PUT", APPROVAL, &more).await;
    assert_eq!(code, 200, "{decided}");
    assert_eq!(decided["status"]["conditions"][0]["type"], "Approved");
    assert!(decided["status"]["conditions"][0]["lastUpdateTime"].is_string(), "{decided}");
    assert_eq!(decided["status"].get("certificate"), None, "an approval issues nothing");
    assert_eq!(decided["spec"]["signerName"], "example.com/signer");

    let mut issued = decided.clone();
    issued["status"]["certificate"] = json!("AAAA");
    issued["status"]["conditions"] = json!([]);
    let update = "update certificatesigningrequests/status";
    assert_eq!(server.with(&[update], "PUT", STATUS, &issued).await.0, 403, "only signers issue");
    let (code, issued) = server.with(&[update, "sign signers"], "PUT", STATUS, &issued).await;
    assert_eq!((code, &issued["status"]["certificate"]), (200, &json!("AAAA")), "{issued}");
    assert_eq!(issued["status"]["conditions"][0]["type"], "Approved", "the decision stays");
    let mut other = issued.clone();
    other["status"]["certificate"] = json!("BBBB");
    assert_eq!(server.admin("PUT", STATUS, &other).await.0, 422);
    let (code, _) = server.admin("PUT", APPROVAL, &with_condition(&issued, "Denied")).await;
    assert_eq!(code, 422, "a decision is not taken back");
}
