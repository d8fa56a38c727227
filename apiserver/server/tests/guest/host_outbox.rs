//! Secrets and Events that the host cluster is owed after an outage in which the leader was killed.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::host_down::{FrontProxy, host_reading, kubeconfig, until_in_state};
use crate::process::{Capstan, PATIENCE};

const CLUSTERS: &str = "/apis/cluster.x-k8s.io/v1beta2/namespaces/team/clusters";

const SECRETS: &str = "/api/v1/namespaces/team/secrets";

const EVENTS: &str = "/api/v1/namespaces/team/events";

/// Secrets and Events of the host, by name, and the number of writes of each.
type Objects = Arc<Mutex<HashMap<String, (Value, usize)>>>;

/// Answers requests for Secrets and Events as a host with these objects does.
fn stored(objects: &Objects) -> impl Fn(&str, &str) -> Option<(u16, Value)> + Send + Sync + use<> {
    let objects = Arc::clone(objects);
    move |line, body| {
        let (method, path) = line.split_once(' ')?;
        let name = [SECRETS, EVENTS]
            .into_iter()
            .find_map(|prefix| path.strip_prefix(prefix))?
            .trim_start_matches('/');
        let mut objects = objects.lock().unwrap();
        let body: Value = serde_json::from_str(body).unwrap_or_default();
        let missing = json!({"kind": "Status", "status": "Failure", "reason": "NotFound", "code": 404,
            "details": {"kind": "secrets"}});
        let exists = json!({"kind": "Status", "status": "Failure", "reason": "AlreadyExists", "code": 409});
        let known = objects.get(name).map(|(object, _)| object.clone());
        Some(match (method, known) {
            ("POST", _) => {
                let name = body["metadata"]["name"].as_str()?.to_owned();
                if objects.contains_key(&name) {
                    return Some((409, exists));
                }
                let mut object = body;
                (object["metadata"]["uid"], object["metadata"]["resourceVersion"]) =
                    (json!(name), json!("1"));
                objects.insert(name, (object.clone(), 1));
                (201, object)
            }
            (_, None) => (404, missing),
            ("GET", Some(object)) => (200, object),
            ("DELETE", Some(object)) if body["preconditions"]["uid"] == object["metadata"]["uid"] => {
                objects.remove(name);
                (200, object)
            }
            (_, Some(object)) => {
                objects.entry(name.to_owned()).and_modify(|(_, writes)| *writes += 1);
                (200, object)
            }
        })
    }
}

pub(crate) async fn send(capstan: &Capstan, method: &str, path: &str, body: &str) {
    let answer = capstan.client().once(method, path, body).await.unwrap();
    assert!(answer.code < 300, "{method} {path}: {}", answer.text());
}

/// Creates a Cluster, which no controller touches, and its CA.
async fn create(capstan: &Capstan, name: &str) {
    let cluster = json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster",
        "metadata": {"name": name}, "spec": {"paused": true}});
    send(capstan, "POST", CLUSTERS, &cluster.to_string()).await;
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "type": "cluster.x-k8s.io/secret",
        "metadata": {"name": format!("{name}-ca"), "labels": {"cluster.x-k8s.io/cluster-name": name}},
        "stringData": {"tls.crt": name}});
    send(capstan, "POST", SECRETS, &secret.to_string()).await;
}

pub(crate) async fn until(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !is_so().await {
        assert!(Instant::now() < end, "{what}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

async fn has_condition(capstan: &Capstan, cluster: &str, kind: &str) -> bool {
    let found = capstan.client().get(&format!("{CLUSTERS}/{cluster}")).await.unwrap();
    let found: Value = serde_json::from_str(&found.text()).unwrap();
    let conditions = found["status"]["conditions"].as_array().cloned().unwrap_or_default();
    conditions.iter().any(|it| it["type"] == kind && it["status"] == "True")
}

#[tokio::test(flavor = "multi_thread")]
async fn the_next_leader_gives_the_host_what_the_killed_one_owed_it() {
    let data = tempfile::tempdir().unwrap();
    let (is_down, objects) = (Arc::new(AtomicBool::new(false)), Objects::default());
    let foreign = json!({"apiVersion": "v1", "kind": "Secret", "type": "Opaque", "data": {"a": "Yg=="},
        "metadata": {"name": "foreign-ca", "namespace": "team", "uid": "theirs", "resourceVersion": "1"}});
    objects.lock().unwrap().insert("foreign-ca".to_owned(), (foreign.clone(), 0));
    let port = host_reading(&FrontProxy::new().ca, &is_down, stored(&objects));
    let has = |name: &str| objects.lock().unwrap().contains_key(name);
    let file = data.path().join("host.kubeconfig");
    std::fs::write(&file, kubeconfig(&format!("http://127.0.0.1:{port}"))).unwrap();
    let arguments = ["--host-kubeconfig", file.to_str().unwrap()];
    let capstan = Capstan::start(data.path(), &arguments);
    capstan.ready().await;
    until_in_state(&capstan, "up").await;
    for cluster in ["gone", "stays", "foreign"] {
        create(&capstan, cluster).await;
    }
    until("the copies are in the host", async || has("gone-ca") && has("stays-ca")).await;
    let refused = "WriteBackRefused";
    until("the Cluster shows the refusal", async || has_condition(&capstan, "foreign", refused).await).await;
    assert!(!has_condition(&capstan, "stays", refused).await);

    is_down.store(true, Ordering::SeqCst);
    until_in_state(&capstan, "down").await;
    for cluster in ["gone", "foreign"] {
        send(&capstan, "DELETE", &format!("{CLUSTERS}/{cluster}"), "").await;
        send(&capstan, "DELETE", &format!("{SECRETS}/{cluster}-ca"), "").await;
    }
    // As old as if the outage had begun long ago. Without a hold, the next leader would expire it at its start.
    let time = (Timestamp::now() - Duration::from_secs(5 * 3600)).to_string();
    let event = json!({"apiVersion": "v1", "kind": "Event", "metadata": {"name": "old"}, "message": "m", "count": 2,
        "reason": "R", "type": "Normal", "firstTimestamp": time, "lastTimestamp": time,
        "involvedObject": {"kind": "Cluster", "name": "gone", "namespace": "team"}});
    send(&capstan, "POST", EVENTS, &event.to_string()).await;
    capstan.signal("KILL");
    drop(capstan);

    let capstan = Capstan::start(data.path(), &arguments);
    capstan.ready().await;
    until_in_state(&capstan, "down").await;
    is_down.store(false, Ordering::SeqCst);
    until_in_state(&capstan, "up").await;
    until("the copy of the deleted Cluster is removed", async || !has("gone-ca")).await;
    until("the Event is in the host", async || has("old")).await;
    let found = objects.lock().unwrap();
    assert_eq!(found["old"].0["count"], 2);
    assert!(found.contains_key("stays-ca"));
    assert_eq!(found["foreign-ca"], (foreign, 0), "it is the Secret of another owner");
}
