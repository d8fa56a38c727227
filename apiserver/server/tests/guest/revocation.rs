//! Client certificates that are revoked while their connection is open.

use std::time::{Duration, Instant};

use crate::client::Identity;
use crate::process::{Capstan, PATIENCE};

const REVOCATIONS: &str = "/apis/capstan.dev/v1alpha1/certificaterevocations";
const MACHINES: &str = "/apis/cluster.x-k8s.io/v1beta2/machines";

/// Longest time from the write of a revocation to its effect.
const EFFECT: Duration = Duration::from_secs(1);

fn revocation(name: &str, spec: &str) -> String {
    format!(
        r#"{{"apiVersion": "capstan.dev/v1alpha1", "kind": "CertificateRevocation", "metadata": {{"name": "{name}"}}, "spec": {spec}}}"#
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn a_revoked_certificate_gets_401_on_its_open_connection_within_a_second() {
    let data = tempfile::tempdir().unwrap();
    let capstan = Capstan::start(data.path(), &[]);
    capstan.ready().await;
    let (admin, alice) = (capstan.client(), capstan.client_of(Identity::of_user(data.path(), "alice")));
    assert_eq!(alice.get(MACHINES).await.unwrap().code, 200);

    let both = revocation("both", r#"{"user": "alice", "group": "ops"}"#);
    let refused = admin.once("POST", REVOCATIONS, &both).await.unwrap();
    assert_eq!(refused.code, 422, "{}", refused.text());
    let spec = r#"{"user": "alice", "issuedBefore": "2100-01-01T00:00:00Z", "reason": "left the team"}"#;
    let created = admin.once("POST", REVOCATIONS, &revocation("alice", spec)).await.unwrap();
    assert_eq!(created.code, 201, "{}", created.text());
    let begun = Instant::now();
    while alice.get(MACHINES).await.map_or(0, |answer| answer.code) != 401 {
        assert!(begun.elapsed() < PATIENCE, "the certificate is still accepted");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert!(begun.elapsed() < EFFECT, "{:?}", begun.elapsed());
    assert_eq!(admin.get(MACHINES).await.unwrap().code, 200);

    let deleted = admin.once("DELETE", &format!("{REVOCATIONS}/alice"), "").await.unwrap();
    assert_eq!(deleted.code, 200, "{}", deleted.text());
    let begun = Instant::now();
    while alice.get(MACHINES).await.map_or(0, |answer| answer.code) != 200 {
        assert!(begun.elapsed() < PATIENCE, "the certificate is not accepted again");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}
