//! Namespace that a user creates on the direct endpoint while the host cluster is down (HO-35).

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use crate::host_down::{FrontProxy, host_reading, kubeconfig, until_in_state};
use crate::host_outbox::{send, until};
use crate::process::Capstan;

const NAMESPACES: &str = "/api/v1/namespaces";

const FRESH: &str = "/api/v1/namespaces/fresh";

const CLUSTERS: &str = "/apis/cluster.x-k8s.io/v1beta2/namespaces/fresh/clusters";

/// Namespace that Capstan has created in the host.
type Created = Arc<Mutex<Option<Value>>>;

/// Answers requests for the namespace as a host does in which it can be created.
fn stored(created: &Created) -> impl Fn(&str, &str) -> Option<(u16, Value)> + Send + Sync + use<> {
    let created = Arc::clone(created);
    move |line, body| {
        let mut created = created.lock().unwrap();
        match line.split_once(' ')? {
            ("POST", NAMESPACES) => {
                let mut namespace: Value = serde_json::from_str(body).ok()?;
                namespace["metadata"]["uid"] = json!("of-host");
                *created = Some(namespace.clone());
                Some((201, namespace))
            }
            ("GET", FRESH) => {
                let missing =
                    json!({"kind": "Status", "status": "Failure", "reason": "NotFound", "code": 404});
                Some(created.clone().map_or((404, missing), |found| (200, found)))
            }
            _ => None,
        }
    }
}

/// Creates a Cluster in the namespace, which no controller touches.
async fn create_cluster(capstan: &Capstan, name: &str) {
    let cluster = json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster",
        "metadata": {"name": name}, "spec": {"paused": true}});
    send(capstan, "POST", CLUSTERS, &cluster.to_string()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn ho_35_the_host_gets_a_namespace_of_an_outage_and_its_objects_stay() {
    let data = tempfile::tempdir().unwrap();
    let (is_down, created) = (Arc::new(AtomicBool::new(false)), Created::default());
    let port = host_reading(&FrontProxy::new().ca, &is_down, stored(&created));
    let file = data.path().join("host.kubeconfig");
    std::fs::write(&file, kubeconfig(&format!("http://127.0.0.1:{port}"))).unwrap();
    let capstan = Capstan::start(data.path(), &["--host-kubeconfig", file.to_str().unwrap()]);
    capstan.ready().await;
    until_in_state(&capstan, "up").await;

    is_down.store(true, Ordering::SeqCst);
    until_in_state(&capstan, "down").await;
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "fresh"}});
    send(&capstan, "POST", NAMESPACES, &namespace.to_string()).await;
    create_cluster(&capstan, "during").await;
    let found = capstan.client().get(FRESH).await.unwrap().text();
    assert!(found.contains(r#""capstan.dev/provisional":"true""#), "{found}");

    is_down.store(false, Ordering::SeqCst);
    until_in_state(&capstan, "up").await;
    until("the host has the namespace", async || created.lock().unwrap().is_some()).await;
    let is_gone = async || capstan.client().get(FRESH).await.unwrap().code == 404;
    until("Capstan's own Namespace has ended", is_gone).await;
    let kept = capstan.client().get(&format!("{CLUSTERS}/during")).await.unwrap();
    assert_eq!(kept.code, 200, "{}", kept.text());
    assert!(!kept.text().contains("deletionTimestamp"), "{}", kept.text());
    create_cluster(&capstan, "afterwards").await;
}
