//! HostStatus of a server whose host cluster is up, is down, is another one, or does not exist.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::client::Identity;
use crate::etcd::free_port;
use crate::host_down::{FrontProxy, host_with, kubeconfig, until_in_state};
use crate::process::{Capstan, PATIENCE};

const LIST: &str = "/apis/capstan.dev/v1alpha1/hoststatuses";

const ONE: &str = "/apis/capstan.dev/v1alpha1/hoststatuses/host";

fn start(data: &Path, port: u16) -> Capstan {
    let file = data.join("host.kubeconfig");
    std::fs::write(&file, kubeconfig(&format!("http://127.0.0.1:{port}"))).unwrap();
    Capstan::start(data, &["--host-kubeconfig", file.to_str().unwrap()])
}

async fn get(capstan: &Capstan, path: &str) -> Value {
    let answer = capstan.client().get(path).await.unwrap();
    assert_eq!(answer.code, 200, "{}", answer.text());
    serde_json::from_str(&answer.text()).unwrap()
}

/// Returns status and reason of a condition.
fn condition(object: &Value, kind: &str) -> (String, String) {
    let all = object["status"]["conditions"].as_array().unwrap();
    let found = all.iter().find(|it| it["type"] == kind).unwrap();
    let text = |field: &str| found[field].as_str().unwrap().to_owned();
    (text("status"), text("reason"))
}

/// Waits until a condition has this reason. Returns the object.
async fn until(capstan: &Capstan, kind: &str, reason: &str) -> Value {
    let end = Instant::now() + PATIENCE;
    loop {
        let object = get(capstan, ONE).await;
        if condition(&object, kind).1 == reason {
            return object;
        }
        assert!(Instant::now() < end, "{kind} is not {reason}: {object}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_object_follows_a_host_that_is_up_goes_down_and_is_replaced() {
    let data = tempfile::tempdir().unwrap();
    let [is_down, is_other] = [false, false].map(|flag| Arc::new(AtomicBool::new(flag)));
    let other = Arc::clone(&is_other);
    let port = host_with(&FrontProxy::new().ca, &is_down, move |path| {
        let replaced = path == "GET /api/v1/namespaces/kube-system" && other.load(Ordering::SeqCst);
        replaced.then(|| {
            let metadata = json!({"name": "kube-system", "uid": "another", "resourceVersion": "1"});
            (200, json!({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}))
        })
    });
    let capstan = start(data.path(), port);
    capstan.ready().await;
    until_in_state(&capstan, "up").await;
    // The leader writes to the host, and this is the only server.
    let up = until(&capstan, "WriteBackCaughtUp", "CaughtUp").await;
    let status = &up["status"];
    assert_eq!(status["state"], "Up");
    assert_eq!(status["pinnedUID"], "uid-kube-system");
    assert!(!status["replica"].as_str().unwrap().is_empty());
    assert!(status["lastContactTime"].is_string() && up["metadata"]["uid"].is_string(), "{up}");
    assert_eq!(condition(&up, "Reachable"), ("True".to_owned(), "Up".to_owned()));
    assert_eq!(condition(&up, "CredentialRefused").0, "False");
    assert_eq!(condition(&up, "MirrorFresh"), ("True".to_owned(), "Followed".to_owned()));
    let namespaces = status["mirrors"].as_array().unwrap().iter().find(|it| it["name"] == "namespaces");
    assert_eq!(namespaces.unwrap()["objects"], 2, "{status}");
    is_down.store(true, Ordering::SeqCst);
    let down = until(&capstan, "Reachable", "Down").await;
    assert_eq!(down["status"]["state"], "Down");
    assert_eq!(condition(&down, "CredentialRefused").0, "Unknown");
    assert_eq!(condition(&down, "MirrorFresh"), ("True".to_owned(), "WithinBounds".to_owned()));
    is_other.store(true, Ordering::SeqCst);
    is_down.store(false, Ordering::SeqCst);
    let other = until(&capstan, "Reachable", "OtherCluster").await;
    assert_eq!(other["status"]["state"], "Other");
    assert_eq!(other["status"]["pinnedUID"], "uid-kube-system", "the pin stays");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_object_is_read_only_and_says_that_a_host_was_never_seen() {
    let data = tempfile::tempdir().unwrap();
    let capstan = start(data.path(), free_port());
    capstan.ready().await;
    let object = until(&capstan, "Reachable", "NeverSeen").await;
    assert_eq!(condition(&object, "MirrorFresh"), ("False".to_owned(), "NeverRead".to_owned()));
    assert!(object["status"].get("pinnedUID").is_none(), "{object}");
    assert_eq!(get(&capstan, LIST).await["items"].as_array().unwrap().len(), 1);
    for (method, path) in
        [("POST", LIST), ("DELETE", LIST), ("PUT", ONE), ("PATCH", ONE), ("DELETE", ONE), ("GET", "/x")]
    {
        let answer = capstan.client().once(method, path, &object.to_string()).await.unwrap();
        assert_eq!(answer.code, if path == "/x" { 404 } else { 405 }, "{method} {path}: {}", answer.text());
    }
    let stranger = capstan.client_of(Identity::of_member(data.path(), "stranger", &["strangers"]));
    assert_eq!(stranger.get(ONE).await.unwrap().code, 403);
}

#[tokio::test(flavor = "multi_thread")]
async fn there_is_no_object_without_a_host() {
    let data = tempfile::tempdir().unwrap();
    let capstan = Capstan::start(data.path(), &[]);
    capstan.ready().await;
    assert_eq!(get(&capstan, LIST).await["items"], json!([]));
    let answer = capstan.client().get(ONE).await.unwrap();
    assert_eq!(answer.code, 404, "{}", answer.text());
}
