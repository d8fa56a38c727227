//! Two servers on one etcd, of which the leader's clock jumps by an hour (TM-25).

use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::client::Client;
use crate::etcd::Etcd;
use crate::process::{Capstan, PATIENCE};
use crate::rolling_restart::share_secrets;
use crate::token_client::TokenClient;

const LEASE: &str = "/apis/coordination.k8s.io/v1/namespaces/capstan-system/leases/capstan-controllers";
const ACCOUNTS: &str = "/api/v1/namespaces/default/serviceaccounts";

/// Sets the difference between the clock of a server and the real one. The library reads the file for each time.
fn set_clock(file: &Path, seconds: i64) {
    std::fs::write(file, format!("{seconds:+}\n")).unwrap();
}

async fn post(client: &Client, path: &str, body: &Value) -> Value {
    let answer = client.once("POST", path, &body.to_string()).await.unwrap();
    assert_eq!(answer.code, 201, "{path}: {}", answer.text());
    serde_json::from_slice(&answer.body).unwrap()
}

/// Returns the term and the holder of the Lease.
async fn leader(client: &Client) -> (Value, Value) {
    let answer = client.get(LEASE).await.unwrap();
    let lease: Value = serde_json::from_slice(&answer.body).unwrap();
    (lease["spec"]["leaseTransitions"].clone(), lease["spec"]["holderIdentity"].clone())
}

/// Waits until a metric of a server fulfils a condition.
async fn metric(server: &Capstan, name: &str, fulfils: impl Fn(f64) -> bool) {
    let end = Instant::now() + PATIENCE;
    loop {
        let text = server.client().get("/metrics").await.unwrap().text();
        let value = text.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok());
        if value.is_some_and(&fulfils) {
            return;
        }
        assert!(Instant::now() < end, "{name} is {value:?}");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn tm_25_a_clock_that_jumps_by_an_hour_is_noticed_and_changes_no_leader() {
    let Some(library) = std::env::var_os("CAPSTAN_FAKETIME") else {
        panic!("`cargo xtask test` unpacks libfaketime and sets CAPSTAN_FAKETIME")
    };
    let etcd = Etcd::started();
    let directories = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let [first_data, second_data] = directories.each_ref().map(tempfile::TempDir::path);
    let url = etcd.url();
    let flags = ["--etcd-endpoints", url.as_str()];
    let file = first_data.join("clock");
    set_clock(&file, 0);
    let environment = [
        ("LD_PRELOAD", library.to_str().unwrap()),
        ("FAKETIME_TIMESTAMP_FILE", file.to_str().unwrap()),
        ("FAKETIME_NO_CACHE", "1"),
        ("FAKETIME_DONT_FAKE_MONOTONIC", "1"),
    ];
    let first = Capstan::start_with(first_data, &flags, &environment);
    first.ready().await;
    metric(&first, "capstan_leader ", |value| value > 0.0).await;
    share_secrets(first_data, second_data);
    let second = Capstan::start(second_data, &flags);
    second.ready().await;
    let admin = second.client();
    let before = leader(&admin).await;

    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "robot"}});
    // The issuer of a token is its server, unless one is configured for all.
    let account_of = first.client();
    post(&account_of, ACCOUNTS, &account).await;
    let spec = json!({"spec": {"expirationSeconds": 600}});
    let token = post(&account_of, &format!("{ACCOUNTS}/robot/token"), &spec).await;
    let token = format!("Bearer {}", token["status"]["token"].as_str().unwrap());
    let client = TokenClient::new(&first, first_data);
    let code = async || client.review("Authorization", &token).await.0;
    assert_eq!(code().await, 201);

    let is_far = |value: f64| value > 3500.0;
    for (jump, jumps, expected) in [(3600, 1.0, 401), (0, 2.0, 201), (-3600, 3.0, 401), (0, 4.0, 201)] {
        set_clock(&file, jump);
        metric(&first, "capstan_clock_jumps_total ", |value| value >= jumps).await;
        if jump != 0 {
            metric(&second, "capstan_clock_difference_seconds ", is_far).await;
        }
        // An hour later the token has ended. An hour earlier it was not issued yet.
        assert_eq!(code().await, expected, "{jump}");
        // The leader still acts, and writes.
        let lease = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
            "metadata": {"name": format!("at-{jumps}")}});
        post(&first.client(), "/apis/coordination.k8s.io/v1/namespaces/default/leases", &lease).await;
        assert_eq!(leader(&admin).await, before, "{jump}");
    }
    metric(&second, "capstan_clock_difference_seconds ", |value| value < 60.0).await;
    let log = std::fs::read_to_string(first_data.join(format!("{}.log", first.port))).unwrap();
    assert!(log.contains("the clock of this machine was set"), "{log}");
}
