//! Certificates of machines: an administrator approves a request for the signer `capstan.dev/machine`, as kubectl does.

use std::time::Instant;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair};
use serde_json::{Value, json};

use crate::caller::Caller;
use crate::host::TEAM;
use crate::server::{PATIENCE, PAUSE, Server};

const REQUESTS: &str = "/apis/certificates.k8s.io/v1/certificatesigningrequests";

/// Returns a CertificateSigningRequest of a Machine of the team, with a new key.
pub(crate) fn request(name: &str, machine: &str) -> (Value, KeyPair) {
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, format!("system:machine:{TEAM}:{machine}"));
    params.distinguished_name.push(DnType::OrganizationName, "system:machines");
    let pem = params.serialize_request(&key).unwrap().pem().unwrap();
    let request = json!({"apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest",
        "metadata": {"name": name}, "spec": {"request": STANDARD.encode(pem), "usages": ["client auth"],
            "signerName": "capstan.dev/machine", "expirationSeconds": 3600}});
    (request, key)
}

/// Returns a caller with a certificate of a Machine of the team. `name` is that of the request for it.
pub(crate) async fn of_machine(server: &Server, admin: &Caller, machine: &str, name: &str) -> Caller {
    let (request, key) = request(name, machine);
    let (code, mut created) = admin.json("POST", REQUESTS, &request).await;
    assert_eq!(code, 201, "{created}");
    let path = format!("{REQUESTS}/{name}");
    created["status"] = json!({"conditions": [{"type": "Approved", "status": "True", "reason": "Test"}]});
    let (code, answer) = admin.json("PUT", &format!("{path}/approval"), &created).await;
    assert_eq!(code, 200, "{answer}");
    let begun = Instant::now();
    loop {
        let (_, found) = admin.json("GET", &path, &json!({})).await;
        if let Some(certificate) = found["status"]["certificate"].as_str() {
            let pem = String::from_utf8(STANDARD.decode(certificate).unwrap()).unwrap();
            return server.with_certificate(&pem, &key);
        }
        let is_refused = found["status"]["conditions"].to_string().contains("Failed");
        assert!(!is_refused && begun.elapsed() < PATIENCE, "{found}");
        tokio::time::sleep(PAUSE).await;
    }
}
