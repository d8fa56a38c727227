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

/// Request of the user `alice` in the group `dev`.
const ALICE: &str = "-----BEGIN CERTIFICATE REQUEST-----
MIHYMIGAAgEAMB4xDjAMBgNVBAMMBWFsaWNlMQwwCgYDVQQKDANkZXYwWTATBgcq
hkjOPQIBBggqhkjOPQMBBwNCAARvpXcg/SflE8UnAtwzjVTIkkhmMcGYW1+LPdhW
xgf/oa4Oww2TxpCaDBrrPa5M1D3Cfa97pvP05OqEOGcO5KAQoAAwCgYIKoZIzj0E
AwIDRwAwRAIgSXfhLJ6gmvTawoJw+ZfN2A2dcX0nk5ClrrbY5/Owd+gCIFlPETw7
P9WHNotVHrhsmeWaa+9V5b9/WKqt4oMM6tkE
-----END CERTIFICATE REQUEST-----
";

/// The same in the group `system:masters`.
const MASTER: &str = "-----BEGIN CERTIFICATE REQUEST-----
MIHlMIGLAgEAMCkxDjAMBgNVBAMMBWFsaWNlMRcwFQYDVQQKDA5zeXN0ZW06bWFz
dGVyczBZMBMGByqGSM49AgEGCCqGSM49AwEHA0IABF9RBD1bb4mrV0nI88KqVGvB
2Zg+3LlryuoK+ZLK9ARDyLGdTZllMPufbGH51nsgMUJWSYIsII5/NciFusBiLXCg
ADAKBggqhkjOPQQDAgNJADBGAiEAju/AJRhSCiPK9/GTMOziUL0IHGPRiiDFuDf7
ejd4jQYCIQDFdvR/6zZYpxXuEjFHRF1AwOtXUO3PKWFcmvdyrRb0LQ==
-----END CERTIFICATE REQUEST-----
";

fn request(name: &str) -> Value {
    request_of(name, ALICE)
}

fn request_of(name: &str, pem: &str) -> Value {
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

#[tokio::test]
async fn a_text_that_is_no_request_and_a_request_for_all_permissions_are_refused_at_once() {
    let server = Server::start().await;
    let no_request = "-----BEGIN CERTIFICATE REQUEST-----\nAA==\n-----END CERTIFICATE REQUEST-----\n";
    let (code, refused) = server.admin("POST", REQUESTS, &request_of("r", no_request)).await;
    assert_eq!((code, &refused["reason"]), (422, &json!("Invalid")), "{refused}");
    assert_eq!(refused["details"]["causes"][0]["field"], "spec.request", "{refused}");

    let mut master = request_of("r", MASTER);
    master["spec"]["signerName"] = json!("kubernetes.io/kube-apiserver-client");
    let (code, refused) = server.admin("POST", REQUESTS, &master).await;
    assert_eq!((code, &refused["reason"]), (403, &json!("Forbidden")), "{refused}");
    let message = "certificatesigningrequests.certificates.k8s.io \"r\" is forbidden: use of \
                   kubernetes.io/kube-apiserver-client signer with system:masters group is not allowed";
    assert!(refused["message"].as_str().unwrap().starts_with(message), "{refused}");

    // Another signer decides itself, and the client signer takes other groups.
    assert_eq!(server.admin("POST", REQUESTS, &request_of("other", MASTER)).await.0, 201);
    let mut client = request("client");
    client["spec"]["signerName"] = json!("kubernetes.io/kube-apiserver-client");
    assert_eq!(server.admin("POST", REQUESTS, &client).await.0, 201);
}
