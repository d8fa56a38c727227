//! Clocks that are wrong (TM-25): that of a leader, which jumps by an hour, and one that was set back while no server ran.

use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::client::Client;
use crate::etcd::{Etcd, free_port};
use crate::process::{Capstan, PATIENCE};
use crate::rolling_restart::share_secrets;
use crate::token_client::TokenClient;

const LEASE: &str = "/apis/coordination.k8s.io/v1/namespaces/capstan-system/leases/capstan-controllers";
const ACCOUNTS: &str = "/api/v1/namespaces/default/serviceaccounts";
const TOKENS: &str = "/api/v1/namespaces/default/serviceaccounts/robot/token";

/// Sets the difference between the clock of a server and the real one. The library reads the file for each time.
fn set_clock(file: &Path, seconds: i64) {
    std::fs::write(file, format!("{seconds:+}\n")).unwrap();
}

/// Returns the path of the library that fakes the time.
fn library() -> String {
    let Some(library) = std::env::var_os("CAPSTAN_FAKETIME") else {
        panic!("`cargo xtask test` unpacks libfaketime and sets CAPSTAN_FAKETIME")
    };
    library.into_string().unwrap()
}

/// Returns the variables of a server whose clock differs by the content of a file.
fn environment<'a>(library: &'a str, file: &'a Path) -> [(&'static str, &'a str); 4] {
    [
        ("LD_PRELOAD", library),
        ("FAKETIME_TIMESTAMP_FILE", file.to_str().unwrap()),
        ("FAKETIME_NO_CACHE", "1"),
        ("FAKETIME_DONT_FAKE_MONOTONIC", "1"),
    ]
}

async fn post(client: &Client, path: &str, body: &Value) -> Value {
    let answer = client.once("POST", path, &body.to_string()).await.unwrap();
    assert_eq!(answer.code, 201, "{path}: {}", answer.text());
    serde_json::from_slice(&answer.body).unwrap()
}

/// Creates a service account. Returns the header with its token, which ends after ten minutes.
async fn new_token(client: &Client) -> String {
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "robot"}});
    post(client, ACCOUNTS, &account).await;
    let token = post(client, TOKENS, &lifetime()).await;
    format!("Bearer {}", token["status"]["token"].as_str().unwrap())
}

fn lifetime() -> Value {
    json!({"spec": {"expirationSeconds": 600}})
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
    let library = library();
    let etcd = Etcd::started();
    let directories = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let [first_data, second_data] = directories.each_ref().map(tempfile::TempDir::path);
    let url = etcd.url();
    let flags = ["--etcd-endpoints", url.as_str()];
    let file = first_data.join("clock");
    set_clock(&file, 0);
    let first = Capstan::start_with(first_data, &flags, &environment(&library, &file));
    first.ready().await;
    metric(&first, "capstan_leader ", |value| value > 0.0).await;
    share_secrets(first_data, second_data);
    let second = Capstan::start(second_data, &flags);
    second.ready().await;
    let admin = second.client();
    let before = leader(&admin).await;

    // The issuer of a token is its server, unless one is configured for all.
    let token = new_token(&first.client()).await;
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

#[tokio::test(flavor = "multi_thread")]
async fn tm_25_a_clock_that_was_set_back_while_no_server_ran_lengthens_no_token_until_it_is_accepted() {
    let library = library();
    let directory = tempfile::tempdir().unwrap();
    let (data, port) = (directory.path(), free_port());
    let file = data.join("clock");
    let start = async |seconds: i64, arguments: &[&str]| {
        set_clock(&file, seconds);
        let server = Capstan::start_in(port, data, arguments, &environment(&library, &file));
        server.ready().await;
        // The record of the replica is written.
        let replicas = format!("capstan_replicas{{version=\"{}\"}} ", env!("CARGO_PKG_VERSION"));
        metric(&server, &replicas, |value| value > 0.0).await;
        server
    };
    let first = start(0, &[]).await;
    let token = new_token(&first.client()).await;
    let code =
        async |server: &Capstan| TokenClient::new(server, data).review("Authorization", &token).await.0;
    assert_eq!(code(&first).await, 201);
    first.signal("KILL");
    drop(first);

    let second = start(1200, &[]).await;
    assert_eq!(code(&second).await, 401, "the token has ended");
    metric(&second, "capstan_clock_behind_seconds ", |value| value == 0.0).await;
    second.signal("KILL");
    drop(second);

    let third = start(0, &[]).await;
    metric(&third, "capstan_clock_behind_seconds ", |value| value > 1000.0).await;
    assert_eq!(code(&third).await, 401, "it stays ended");
    let refused = third.client().once("POST", TOKENS, &lifetime().to_string()).await.unwrap();
    assert_eq!(refused.code, 503, "{}", refused.text());
    assert!(refused.text().contains("clock.acceptedAt"), "{}", refused.text());
    set_clock(&file, 1200);
    metric(&third, "capstan_clock_behind_seconds ", |value| value == 0.0).await;
    post(&third.client(), TOKENS, &lifetime()).await;
    third.signal("KILL");
    drop(third);

    let accepted = jiff::Timestamp::now().to_string();
    let config = data.join("config.yaml");
    let head = "apiVersion: capstan.dev/v1alpha1\nkind: ServerConfiguration\n";
    std::fs::write(&config, format!("{head}clock: {{acceptedAt: \"{accepted}\"}}\n")).unwrap();
    let fourth = start(0, &["--config", config.to_str().unwrap()]).await;
    metric(&fourth, "capstan_clock_behind_seconds ", |value| value == 0.0).await;
    assert_eq!(code(&fourth).await, 201, "the clock was ahead before, says the operator");
}
