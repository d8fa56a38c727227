//! Tests of the copies of clusters' Secrets.

use serde_json::{Value, json};

use super::*;
use crate::fake::{Fake, status};
use crate::health::HostState;

/// Reports so far.
#[derive(Default)]
struct Reports(Mutex<Vec<(&'static str, String)>>);

#[async_trait]
impl WriteBackReport for Reports {
    async fn refused(&self, _: &DynamicObject, reason: &'static str, message: &str) {
        self.0.lock().unwrap().push((reason, message.to_owned()));
    }
}

fn secret(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Secret", "type": "cluster.x-k8s.io/secret",
        "metadata": {"name": name, "namespace": "n", "uid": "s", "resourceVersion": "1",
            "labels": {CLUSTER_NAME: "c"},
            "ownerReferences": [{"apiVersion": "v1", "kind": "Cluster", "name": "c", "uid": "u",
                "blockOwnerDeletion": true}]},
        "data": {"value": "YQ=="}})
}

fn cluster(policy: Option<&str>) -> Value {
    let annotations = policy.map(|policy| json!({decide::POLICY: policy}));
    json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster",
        "metadata": {"name": "c", "namespace": "n", "uid": "u", "annotations": annotations}})
}

/// Own store with one Secret and one Cluster.
fn own(name: &'static str, policy: Option<&'static str>) -> Fake {
    let own = Fake::new(status(404));
    own.responds(move |request, _| {
        Some(match request {
            _ if request.contains("/clusters/c") => (200, cluster(policy)),
            _ if request.starts_with("WATCH") => return None,
            _ if request.contains("/secrets/") => (200, secret(name)),
            _ => (
                200,
                json!({"apiVersion": "v1", "kind": "SecretList",
                "metadata": {"resourceVersion": "1"}, "items": [secret(name)]}),
            ),
        })
    });
    own
}

/// Runs the writer for a while.
async fn run(own: &Fake, host: &Fake, health: &HostHealth, time: Duration) -> Vec<(&'static str, String)> {
    let reports = Arc::new(Reports::default());
    let writer = SecretWriteBack::new(own.client(), host.client(), health.clone(), reports.clone());
    let _ = tokio::time::timeout(time, writer.run(CancellationToken::new())).await;
    let reports = reports.0.lock().unwrap();
    reports.clone()
}

fn writes(host: &Fake) -> Vec<String> {
    host.requests().into_iter().filter(|request| !request.starts_with("GET ")).collect()
}

const SECOND: Duration = Duration::from_secs(1);

const A_WHILE: Duration = Duration::from_secs(6);

#[tokio::test(start_paused = true)]
async fn ho_30_the_policy_of_the_cluster_selects_the_copies() {
    for (name, policy, is_copied) in [
        ("c-kubeconfig", None, true),
        ("c-ca", None, true),
        ("c-ca", Some("all"), true),
        ("c-kubeconfig", Some("kubeconfig"), true),
        ("c-ca", Some("kubeconfig"), false),
        ("c-kubeconfig", Some("none"), false),
        ("machine-1", None, false),
    ] {
        let (own, host) = (own(name, policy), Fake::new(status(404)));
        host.responds(|request, body| {
            Some(if request.starts_with("POST") { (201, body.clone()) } else { status(404) })
        });
        run(&own, &host, &HostHealth::in_state(HostState::Up), A_WHILE).await;
        assert_eq!(writes(&host).len(), usize::from(is_copied), "{name} {policy:?}: {:?}", host.requests());
        assert!(
            is_copied || host.requests().is_empty(),
            "one that is not copied costs no call: {name} {policy:?}"
        );
        if is_copied {
            let copy = host.bodies().into_iter().rfind(|body| !body.is_null()).unwrap();
            assert_eq!(copy["data"], secret(name)["data"]);
            assert_eq!(copy["metadata"]["labels"]["capstan.dev/owner-uid"], "u");
            assert_eq!(copy["metadata"]["ownerReferences"][0]["uid"], "u");
            assert_eq!(copy["metadata"]["ownerReferences"][0]["blockOwnerDeletion"], Value::Null);
            assert_eq!(copy["metadata"]["resourceVersion"], Value::Null);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn ho_32_nothing_is_sent_while_the_host_is_not_up_and_all_afterwards() {
    let (own, host) = (own("c-ca", None), Fake::new(status(404)));
    host.responds(|request, body| {
        Some(if request.starts_with("POST") { (201, body.clone()) } else { status(404) })
    });
    let health = HostHealth::in_state(HostState::Down);
    let backlog = || health.metrics().outbox(Outbox::Secrets);
    run(&own, &host, &health, REPORT_INTERVAL * 3 - SECOND).await;
    assert_eq!(host.requests(), Vec::<String>::new());
    assert_eq!(backlog(), (1, 10), "one Secret waits for ten seconds");
    // The next leader knows what is owed, because the Secret is in the store.
    health.set(HostState::Up);
    run(&own, &host, &health, A_WHILE).await;
    assert_eq!(writes(&host), ["POST /api/v1/namespaces/n/secrets"]);
    assert_eq!(backlog(), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn ho_32_a_changed_copy_is_restored_and_a_foreign_secret_is_reported_once() {
    for (labels, expected) in
        [(json!({"capstan.dev/owner-uid": "u"}), None), (json!({}), Some("WriteBackRefused"))]
    {
        let (own, host) = (own("c-ca", None), Fake::new(status(404)));
        let mut copy = secret("c-ca");
        (copy["metadata"]["labels"], copy["data"]) = (labels, json!({"value": "Yg=="}));
        copy["metadata"]["resourceVersion"] = json!("77");
        host.responds(move |request, body| {
            if request.starts_with("PUT") {
                copy = body.clone();
            }
            Some((200, copy.clone()))
        });
        let time = COMPARE * 3;
        let reports = run(&own, &host, &HostHealth::in_state(HostState::Up), time).await;
        match expected {
            None => {
                assert_eq!(writes(&host), ["PUT /api/v1/namespaces/n/secrets/c-ca"]);
                let written = host.bodies().into_iter().rfind(|body| !body.is_null()).unwrap();
                assert_eq!(written["metadata"]["resourceVersion"], "77", "the write is guarded");
            }
            Some(reason) => {
                assert_eq!(writes(&host), Vec::<String>::new());
                assert_eq!(reports.len(), 1, "{reports:?}");
                assert!(reports[0].0 == reason && reports[0].1.contains("Secret n/c-ca"), "{reports:?}");
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn ho_34_a_missing_permission_is_reported_once_and_tried_again() {
    let (own, host) = (own("c-ca", None), Fake::new(status(403)));
    let reports = run(&own, &host, &HostHealth::in_state(HostState::Up), COMPARE * 3).await;
    assert_eq!(reports.len(), 1, "{reports:?}");
    assert!(reports[0].0 == "WriteBackForbidden" && reports[0].1.contains("capstan host manifests"));
    assert!(host.requests().len() >= 3, "{:?}", host.requests());
}
