//! Tests of documents that make no node.

use std::time::Duration;

use crate::cloud::Cloud;
use crate::documents::{Pki, TOKEN};
use tests_hollow_cluster::BootStep;

/// Creates a server, waits until it has failed, and checks the reason in the console log.
async fn refused(cloud: &Cloud, name: &str, first: bool, document: &str, reason: &str) {
    let id = cloud.create(name, first, document).await;
    let error = cloud.until_refused(name).await;
    assert!(error.contains(reason), "{name}: {error}");
    let console = cloud.console(&id).await;
    assert!(console.contains(reason), "{name}: {console}");
    assert!(cloud.node(name).is_none());
}

#[tokio::test]
async fn joins_with_wrong_credentials_are_refused() {
    let cloud = Cloud::start().await;
    cloud.init().await;
    let join = cloud.pki.join(cloud.endpoint);
    let wrong = join.replace(TOKEN, "abcdef.0123456789abcdee");
    refused(&cloud, "secret", false, &wrong, "failed to verify JWS signature").await;
    let unknown = join.replace(TOKEN, "zbcdef.0123456789abcdef");
    refused(&cloud, "id", false, &unknown, "could not find a JWS signature").await;
    let pin = join.replace(&cloud.pki.ca.pin(), &Pki::generate().ca.pin());
    refused(&cloud, "pin", false, &pin, "are pinned").await;
    let elsewhere = join.replace(&cloud.endpoint.to_string(), "127.0.0.1:1");
    refused(&cloud, "endpoint", false, &elsewhere, "connection refused").await;
    let control_plane = Pki::generate();
    let other = control_plane
        .join_control_plane(cloud.endpoint)
        .replace(&control_plane.ca.pin(), &cloud.pki.ca.pin());
    refused(&cloud, "keys", false, &other, "is not that of the cluster").await;
}

#[tokio::test]
async fn documents_with_errors_are_refused() {
    let cloud = Cloud::start().await;
    let init = cloud.pki.init(cloud.endpoint);
    let cases = [
        ("field", init.replace("clusterName: blue", "clusterTitle: blue"), "unknown field \"clusterTitle\""),
        ("type", init.replace("clusterName: blue", "clusterName: 1"), "cannot unmarshal"),
        ("old", init.replace("v1beta4", "v1beta2"), "no kind"),
        (
            "key",
            init.replace("/pki/etcd/ca.key", "/pki/etcd/other.key"),
            "/etc/kubernetes/pki/etcd/ca.key: no such file",
        ),
        (
            "format",
            init.replace("EC PRIVATE KEY", "PRIVATE KEY"),
            "not a private key in PKCS#1 or SEC1 format",
        ),
        ("pair", init.replace(&lines(&cloud.pki.ca.key), &lines(&cloud.pki.etcd.key)), "do not match"),
        ("version", init.replace("v1.33.0", "v1.31.0"), "only supports deploying clusters"),
        ("braces", init.replace("{{ local_hostname }}", "{{ v1.nothing }}"), "Invalid value"),
        ("yaml", init.replace("runcmd:", "runcmd"), "Invalid format"),
    ];
    for (name, document, reason) in cases {
        refused(&cloud, name, false, &document, reason).await;
    }
    refused(&cloud, "route", false, &init, "no route leads").await;
}

/// Returns the lines of a key as they are in a document.
fn lines(pem: &str) -> String {
    let inner: Vec<String> = pem.lines().map(|line| format!("    {line}\n")).collect();
    inner.concat()
}

#[tokio::test]
async fn injected_faults_stop_boots_and_joins() {
    let cloud = Cloud::start().await;
    cloud.hollow.boot_failure("sick", BootStep::Preflight);
    refused(&cloud, "sick-0", false, &cloud.pki.init(cloud.endpoint), "[ERROR Injected]").await;
    cloud.hollow.boot_delay(Duration::from_millis(1));
    cloud.init().await;
    cloud.hollow.refuse_joins(true);
    refused(&cloud, "late", false, &cloud.pki.join(cloud.endpoint), "TLS handshake timeout").await;
}
