//! Tests of storage that is absent at startup, or fails later.

#![allow(clippy::disallowed_methods, reason = "a test awaits its tasks, or ends with them")]

use std::time::{Duration, Instant};

use crate::client::Client;
use crate::etcd::Etcd;
use crate::process::{Capstan, PATIENCE};

const MACHINES: &str = "/apis/cluster.x-k8s.io/v1beta2/machines";
const NAMESPACE: &str = r#"{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "x"}}"#;

/// Documents that a host must get from memory.
const DOCUMENTS: [&str; 6] = [
    "/apis",
    "/apis/cluster.x-k8s.io/v1beta2",
    "/openapi/v3",
    "/openapi/v3/apis/cluster.x-k8s.io/v1beta2",
    "/livez",
    "/readyz",
];

#[tokio::test(flavor = "multi_thread")]
async fn requests_before_the_store_is_open_get_503_and_not_404() {
    let mut etcd = Etcd::prepared();
    let data = tempfile::tempdir().unwrap();
    // A server without a CA makes none before it has read the store.
    let mut create = std::process::Command::new(env!("CARGO_BIN_EXE_capstan"));
    assert!(create.args(["ca", "create", "--data-dir"]).arg(data.path()).status().unwrap().success());
    let capstan = Capstan::start(data.path(), &["--etcd-endpoints", &etcd.url()]);
    capstan.listening().await;
    let client = capstan.client();
    let paths =
        [MACHINES, "/api/v1/namespaces/default", "/apis/cluster.x-k8s.io/v1beta2/namespaces/d/clusters/c"];
    for path in paths {
        let answer = client.get(path).await.unwrap();
        assert_eq!(answer.code, 503, "{path}: {}", answer.text());
        assert_eq!(answer.header("retry-after"), "5");
        let status: serde_json::Value = serde_json::from_slice(&answer.body).unwrap();
        assert_eq!(
            status["message"],
            "the request has been made before all known HTTP paths have been installed, please try again"
        );
        assert_eq!(
            (&status["reason"], &status["details"]["retryAfterSeconds"]),
            (&"ServiceUnavailable".into(), &5.into())
        );
    }
    for path in ["/apis", "/openapi/v3", "/livez", "/version"] {
        assert_eq!(client.get(path).await.unwrap().code, 200, "{path}");
    }
    let ready = client.get("/readyz").await.unwrap();
    assert_eq!(ready.code, 500);
    for name in ["etcd", "etcd-readiness", "informer-sync", "poststarthook/capstan-namespaces"] {
        let line = format!("[-]{name} failed: reason withheld\n");
        assert!(ready.text().contains(&line), "{}", ready.text());
    }
    assert!(ready.text().ends_with("readyz check failed\n"), "{}", ready.text());
    let seen = tokio::spawn(codes_until_ready(client.clone()));
    etcd.start();
    let seen = seen.await.unwrap();
    assert!(seen.iter().all(|code| matches!(code, 200 | 503)), "{seen:?}");
    assert_eq!(client.get("/readyz").await.unwrap().text(), "ok");
    assert_eq!(client.get("/api/v1/namespaces/default").await.unwrap().code, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_first_start_long_before_its_etcd_makes_the_ca_before_anything_else_writes() {
    let mut etcd = Etcd::prepared();
    let url = etcd.url();
    let late = std::thread::spawn(move || {
        // By then the start hooks, the election and the controllers wait for the store, too.
        std::thread::sleep(Duration::from_secs(8));
        etcd.start();
        etcd
    });
    let data = tempfile::tempdir().unwrap();
    let flags = ["--etcd-endpoints".to_owned(), url];
    let start = move || (Capstan::start(data.path(), &[&flags[0], &flags[1]]), data);
    let (capstan, _data) = tokio::task::spawn_blocking(start).await.unwrap();
    capstan.ready().await;
    assert_eq!(capstan.client().get("/api/v1/namespaces/capstan-system").await.unwrap().code, 200);
    drop(late.join().unwrap());
}

/// Every code that a served path answered until the server was ready.
async fn codes_until_ready(client: Client) -> Vec<u16> {
    let (mut seen, end) = (Vec::new(), Instant::now() + PATIENCE);
    loop {
        seen.push(client.get(MACHINES).await.unwrap().code);
        if client.get("/readyz").await.unwrap().code == 200 {
            seen.push(client.get(MACHINES).await.unwrap().code);
            assert_eq!(seen.last(), Some(&200));
            return seen;
        }
        assert!(Instant::now() < end, "not ready");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn during_a_store_outage_documents_stay_fast_and_other_requests_fail_early() {
    let etcd = Etcd::started();
    let data = tempfile::tempdir().unwrap();
    let capstan = Capstan::start(data.path(), &["--etcd-endpoints", &etcd.url()]);
    capstan.ready().await;
    let client = capstan.client();
    let usual = quick(&client).await;
    etcd.signal("STOP");
    let stopped = Instant::now();
    let first = client.once("POST", "/api/v1/namespaces", NAMESPACE);
    let (first, took) = tokio::join!(first, quick(&client));
    let first = first.unwrap();
    assert!(first.code >= 500, "{}", first.text());
    assert!(first.took < Duration::from_secs(15), "{:?}", first.took);
    // On a busy machine everything takes its time, but no more of it than before.
    let bound = Duration::from_millis(10).max(usual * 2);
    assert!(took < bound, "99 of 100 within {took:?}, when storage answers within {usual:?}");
    // The outage is known now, so no request waits any more.
    tokio::time::sleep(Duration::from_secs(10).saturating_sub(stopped.elapsed())).await;
    for (method, path, body) in [("POST", "/api/v1/namespaces", NAMESPACE), ("GET", MACHINES, "")] {
        let answer = client.once(method, path, body).await.unwrap();
        assert_eq!(answer.code, 503, "{method} {path}: {}", answer.text());
        assert_eq!(answer.header("retry-after"), "1");
        assert!(answer.took < Duration::from_millis(500), "{method} {path}: {:?}", answer.took);
    }
    let ready = client.get("/readyz").await.unwrap();
    assert!(ready.code == 500 && ready.text().contains("[-]etcd failed"), "{}", ready.text());
    assert_eq!(client.get("/livez").await.unwrap().code, 200, "that is no reason to start anew");
    let from_memory = client.get(&format!("{MACHINES}?resourceVersion=0")).await.unwrap();
    assert_eq!(from_memory.code, 200, "{}", from_memory.text());
    etcd.signal("CONT");
    capstan.ready().await;
    let created = client.with_retries("POST", "/api/v1/namespaces", NAMESPACE).await.unwrap();
    assert!(matches!(created.code, 201 | 409), "{}", created.text());
}

/// Within how long 99 of 100 requests for documents were answered.
async fn quick(client: &Client) -> Duration {
    let mut took = Vec::new();
    for _ in 0..100 {
        for path in DOCUMENTS {
            let answer = client.get(path).await.unwrap();
            assert!(answer.code == 200 || path == "/readyz", "{path}: {}", answer.code);
            took.push(answer.took);
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    took.sort();
    took[took.len() * 99 / 100]
}
