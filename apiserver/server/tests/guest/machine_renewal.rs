//! Renewal of a machine's certificate, with a real server: a good certificate is enough for the next one of the same
//! Machine, and for nothing else.

use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair, SanType};
use serde_json::{Value, json};

use crate::certificate_requests::{REQUESTS, approve, client, outcome, send};
use crate::client::Client;
use crate::machines::{MACHINES, NAMESPACE, SIGNER, machine, of_machine, without_controllers};
use crate::process::{Capstan, PATIENCE};

/// Creates a request for a user and groups, with a name of a server if there is one.
async fn request(of: &Client, name: &str, (user, groups): (&str, &[&str]), server: &[&str]) -> KeyPair {
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, user);
    for group in groups {
        params.distinguished_name.push(DnType::OrganizationName, *group);
    }
    params.subject_alt_names =
        server.iter().map(|name| SanType::DnsName((*name).try_into().unwrap())).collect();
    let pem = params.serialize_request(&key).unwrap().pem().unwrap();
    let request = json!({"apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest",
        "metadata": {"name": name}, "spec": {"request": STANDARD.encode(pem), "usages": ["client auth"],
            "signerName": SIGNER}});
    send(of, "POST", REQUESTS, &request, 201).await;
    key
}

/// Renews the certificate of Machine `m` with a good one. Returns the new one and its key.
async fn renewed(capstan: &Capstan, of: &Client, name: &str) -> (String, KeyPair) {
    let key = request(of, name, ("system:machine:team:m", &["system:machines"]), &[]).await;
    let issued = outcome(&capstan.client(), name).await;
    assert_eq!(issued["status"]["conditions"][0]["reason"], "AutoApproved", "{issued}");
    let pem = STANDARD.decode(issued["status"]["certificate"].as_str().unwrap()).unwrap();
    (String::from_utf8(pem).unwrap(), key)
}

async fn code(client: &Client, path: &str) -> u16 {
    client.get(path).await.unwrap().code
}

async fn is_pending(admin: &Client, name: &str) -> bool {
    let found = admin.get(&format!("{REQUESTS}/{name}")).await.unwrap();
    let found: Value = serde_json::from_slice(&found.body).unwrap();
    found["spec"].is_object() && found["status"].get("conditions").is_none()
}

#[tokio::test(flavor = "multi_thread")]
async fn iz_30_a_machine_renews_its_own_certificate_with_a_good_one() {
    let data = tempfile::tempdir().unwrap();
    let config = without_controllers(data.path());
    let mut capstan = Capstan::start(data.path(), &["--config", &config]);
    capstan.ready().await;
    let admin = capstan.client();
    send(&admin, "POST", NAMESPACE, &json!({"metadata": {"name": "team"}}), 201).await;
    for name in ["m", "other"] {
        send(&admin, "POST", MACHINES, &machine(name), 201).await;
    }
    let first = of_machine(&capstan, data.path(), "m", "first").await;
    let own = ("system:machine:team:m", &["system:machines"][..]);
    request(&first, "of-another", ("system:machine:team:other", own.1), &[]).await;
    request(&first, "with-groups", (own.0, &["system:machines", "system:masters"]), &[]).await;
    request(&first, "with-names", own, &["api.example.org"]).await;
    request(&admin, "of-an-administrator", own, &[]).await;
    // It comes last, so the others have been looked at when it is signed.
    let (second, key) = renewed(&capstan, &first, "good").await;
    for name in ["of-another", "with-groups", "with-names", "of-an-administrator"] {
        assert!(is_pending(&admin, name).await, "{name}");
    }
    capstan.signal("TERM");
    assert!(capstan.ended().await.success());
    let capstan = Capstan::start(data.path(), &["--config", &config]);
    capstan.ready().await;
    let second = client(&capstan, data.path(), &second, &key);
    let (third, key) = renewed(&capstan, &second, "after-a-restart").await;
    let third = client(&capstan, data.path(), &third, &key);
    assert_eq!(code(&third, &format!("{MACHINES}/m")).await, 200);
    assert!(is_pending(&capstan.client(), "of-another").await);
}

#[tokio::test(flavor = "multi_thread")]
async fn iz_30_no_certificate_is_renewed_for_a_machine_that_is_deleted_or_made_anew() {
    let data = tempfile::tempdir().unwrap();
    let config = without_controllers(data.path());
    let capstan = Capstan::start(data.path(), &["--config", &config]);
    capstan.ready().await;
    let admin = capstan.client();
    send(&admin, "POST", NAMESPACE, &json!({"metadata": {"name": "team"}}), 201).await;
    let mut held = machine("m");
    held["metadata"]["finalizers"] = json!(["example.com/hold"]);
    send(&admin, "POST", MACHINES, &held, 201).await;
    send(&admin, "POST", MACHINES, &machine("other"), 201).await;
    let of_m = of_machine(&capstan, data.path(), "m", "first").await;
    let other = of_machine(&capstan, data.path(), "other", "of-other").await;
    let mine = format!("{MACHINES}/m");
    send(&admin, "DELETE", &mine, &json!({}), 200).await;
    request(&of_m, "late", ("system:machine:team:m", &["system:machines"]), &[]).await;
    let looked_at = async |name: &str| {
        request(&other, name, ("system:machine:team:other", &["system:machines"]), &[]).await;
        outcome(&admin, name).await;
    };
    looked_at("one").await;
    assert!(is_pending(&admin, "late").await, "the Machine is being deleted");

    let mut ending: Value = serde_json::from_slice(&admin.get(&mine).await.unwrap().body).unwrap();
    ending["metadata"]["finalizers"] = json!([]);
    send(&admin, "PUT", &mine, &ending, 200).await;
    let begun = Instant::now();
    while code(&admin, &mine).await != 404 {
        assert!(begun.elapsed() < PATIENCE);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    send(&admin, "POST", MACHINES, &machine("m"), 201).await;
    looked_at("two").await;
    assert!(is_pending(&admin, "late").await, "the Machine is another one");
    // Not even an administrator gives the earlier machine a certificate of the new one.
    approve(&admin, "late").await;
    let refused = outcome(&admin, "late").await;
    assert!(refused["status"]["conditions"].to_string().contains("is another one"), "{refused}");
    assert_eq!(refused["status"].get("certificate"), None);
}
