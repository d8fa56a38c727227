//! Older data in etcd under a running server, and between two runs of a server.

#![allow(clippy::disallowed_methods, reason = "a test awaits its tasks, or ends with them")]

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use http_body_util::BodyExt;
use serde_json::Value;
use tokio::task::JoinHandle;

use crate::client::{Answer, Client};
use crate::etcd::Etcd;
use crate::process::{Capstan, PATIENCE, command};

const NAMESPACES: &str = "/api/v1/namespaces";

/// More revisions than a test needs, and fewer than lie between two incarnations of the store.
const FAR: u64 = 1_000_000;

/// Time after which a write is in etcd's database, and not only in its write-ahead log.
const IN_DATABASE: Duration = Duration::from_millis(500);

/// Answers of a server during a replacement.
#[derive(Debug, Default)]
struct Observed {
    /// Revision and names of each consistent list, in order.
    lists: Vec<(u64, Vec<String>)>,
    was_unready: bool,
}

fn revision(value: &Value) -> u64 {
    value.pointer("/metadata/resourceVersion").unwrap().as_str().unwrap().parse().unwrap()
}

fn parsed(answer: &Answer) -> Value {
    serde_json::from_slice(&answer.body).unwrap()
}

fn names(list: &Value) -> Vec<String> {
    let items = list["items"].as_array().unwrap().iter();
    items.map(|item| item["metadata"]["name"].as_str().unwrap().to_owned()).collect()
}

async fn create(client: &Client, name: &str) -> u64 {
    let object = format!(r#"{{"apiVersion": "v1", "kind": "Namespace", "metadata": {{"name": "{name}"}}}}"#);
    let answer = client.with_retries("POST", NAMESPACES, &object).await.unwrap();
    assert_eq!(answer.code, 201, "{}", answer.text());
    revision(&parsed(&answer))
}

/// Lists again and again, until `over`.
fn observe(client: Client, over: Arc<AtomicBool>) -> JoinHandle<Observed> {
    tokio::spawn(async move {
        let mut observed = Observed::default();
        while !over.load(Ordering::SeqCst) {
            observed.was_unready |= client.get("/readyz").await.unwrap().code == 500;
            let answer = client.get(NAMESPACES).await.unwrap();
            if answer.code == 200 {
                let list = parsed(&answer);
                observed.lists.push((revision(&list), names(&list)));
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        observed
    })
}

/// Waits until the server has noticed the replacement, and is ready.
async fn recovered(capstan: &Capstan, rewinds: u64) {
    let (client, end) = (capstan.client(), Instant::now() + PATIENCE);
    let line = format!("\ncapstan_storage_rewinds_total {rewinds}\n");
    while !client.get("/metrics").await.unwrap().text().contains(&line) {
        assert!(Instant::now() < end, "the replacement is not noticed");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    capstan.ready().await;
}

fn log(data: &Path, server: &Capstan) -> String {
    std::fs::read_to_string(data.join(format!("{}.log", server.port))).unwrap()
}

/// Waits until the file of the newest revision has this one or a later one.
async fn saved(data: &Path, newest: u64) {
    let end = Instant::now() + PATIENCE;
    loop {
        let text = std::fs::read(data.join("high-water")).unwrap();
        let found: Value = serde_json::from_slice(&text).unwrap();
        if found["revision"].as_u64().unwrap() >= newest {
            return;
        }
        assert!(Instant::now() < end, "{found}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn df_09_older_data_in_etcd_are_noticed_and_no_revision_goes_back() {
    let mut etcd = Etcd::started();
    let data = tempfile::tempdir().unwrap();
    let url = etcd.url();
    let flags = ["--etcd-endpoints", url.as_str()];
    let capstan = Capstan::start(data.path(), &flags);
    capstan.ready().await;
    let client = capstan.client();
    let kept = create(&client, "kept").await;
    let copy = etcd.copy();
    capstan.ready().await;
    let mut newest = 0;
    for index in 0..20 {
        newest = create(&client, &format!("lost{index}")).await;
    }
    let watch = format!("{NAMESPACES}?watch=true&resourceVersion={newest}");
    let watching = client.send("GET", &watch, "").await.unwrap();
    assert_eq!(watching.status(), 200);

    let over = Arc::<AtomicBool>::default();
    let observing = observe(capstan.client(), Arc::clone(&over));
    etcd.restore(&copy);
    recovered(&capstan, 1).await;
    over.store(true, Ordering::SeqCst);
    let Observed { lists, was_unready } = observing.await.unwrap();
    assert!(was_unready, "it was ready all the time");
    assert!(lists.is_sorted_by_key(|(revision, _)| *revision), "{lists:?}");
    for (revision, names) in &lists {
        let is_old = *revision < newest + FAR;
        assert_eq!(names.iter().any(|name| name.starts_with("lost")), is_old, "{revision}: {names:?}");
        assert!(names.iter().any(|name| name == "kept"), "{revision}: {names:?}");
    }
    assert_new_data(&client, kept, newest).await;
    let done = compared(data.path(), &url).await;
    assert!(done.contains("older or other data in etcd") && done.contains("is done"), "{done}");
    let events = tokio::time::timeout(PATIENCE, watching.into_body().collect()).await.unwrap().unwrap();
    let events = String::from_utf8(events.to_bytes().to_vec()).unwrap();
    assert!(events.contains(r#""code":410"#) && !events.contains("DELETED"), "{events}");
    let log = log(data.path(), &capstan);
    for text in
        ["the data of etcd were replaced", "new incarnation of the store", "giving up the controller lease"]
    {
        assert!(log.contains(text), "{text}: {log}");
    }

    // Between two runs.
    saved(data.path(), newest + FAR).await;
    drop(capstan);
    etcd.restore(&copy);
    let capstan = Capstan::start(data.path(), &flags);
    capstan.ready().await;
    let list = parsed(&capstan.client().get(NAMESPACES).await.unwrap());
    assert!(revision(&list) > lists.last().unwrap().0, "{list}");
}

/// Says that an operator has compared the objects with the clouds. Returns the answer of the command.
async fn compared(data: &Path, url: &str) -> String {
    let data = data.to_str().unwrap();
    let output = command(&["restore", "--done", "--data-dir", data, "--etcd-endpoints", url]).await;
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// Waits until a list has none of the lost objects.
async fn read_again(client: &Client) {
    let end = Instant::now() + PATIENCE;
    loop {
        let answer = client.get(NAMESPACES).await.unwrap();
        let has_lost = |list: &Value| names(list).iter().any(|name| name.starts_with("lost"));
        if answer.code == 200 && !has_lost(&parsed(&answer)) {
            return;
        }
        assert!(Instant::now() < end, "the replacement is not noticed: {}", answer.text());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// The store's incarnation goes on: a restored etcd whose history is compacted, and whose revisions are all larger than
/// before, contradicts nothing.
#[tokio::test(flavor = "multi_thread")]
async fn df_09_a_snapshot_restored_with_larger_revisions_is_read_again_and_no_revision_goes_back() {
    let mut etcd = Etcd::started();
    let data = tempfile::tempdir().unwrap();
    let url = etcd.url();
    let capstan = Capstan::start(data.path(), &["--etcd-endpoints", url.as_str()]);
    capstan.ready().await;
    let client = capstan.client();
    let kept = create(&client, "kept").await;
    tokio::time::sleep(IN_DATABASE).await;
    let copy = etcd.copy();
    capstan.ready().await;
    let mut newest = 0;
    for index in 0..20 {
        newest = create(&client, &format!("lost{index}")).await;
    }
    let watch = format!("{NAMESPACES}?watch=true&resourceVersion={newest}");
    let watching = client.send("GET", &watch, "").await.unwrap();
    assert_eq!(watching.status(), 200);

    let over = Arc::<AtomicBool>::default();
    let observing = observe(capstan.client(), Arc::clone(&over));
    etcd.restore_snapshot(&copy, &["--bump-revision=1000000000", "--mark-compacted"]);
    read_again(&client).await;
    capstan.ready().await;
    over.store(true, Ordering::SeqCst);
    let Observed { lists, .. } = observing.await.unwrap();
    assert!(lists.is_sorted_by_key(|(revision, _)| *revision), "{lists:?}");
    for (revision, names) in &lists {
        let is_old = *revision < newest + FAR;
        assert_eq!(names.iter().any(|name| name.starts_with("lost")), is_old, "{revision}: {names:?}");
        assert!(names.iter().any(|name| name == "kept"), "{revision}: {names:?}");
    }
    let events = tokio::time::timeout(PATIENCE, watching.into_body().collect()).await.unwrap().unwrap();
    let events = String::from_utf8(events.to_bytes().to_vec()).unwrap();
    assert!(!events.contains("DELETED"), "{events}");
    assert_expired(&client, [kept, newest]).await;
    let found = client.get(&format!("{NAMESPACES}/kept")).await.unwrap();
    assert_eq!(revision(&parsed(&found)), kept, "etcd keeps it, too: {}", found.text());
    assert_eq!(client.get(&format!("{NAMESPACES}/lost3")).await.unwrap().code, 404);
    assert!(create(&client, "lost3").await > newest, "it can be created again");
    let metrics = client.get("/metrics").await.unwrap().text();
    assert!(metrics.contains("\ncapstan_storage_rewinds_total 0\n"), "{metrics}");
    assert!(compared(data.path(), &url).await.contains("was not restored"), "nothing went back");
}

/// Asserts that the server has no history from these revisions on.
async fn assert_expired(client: &Client, revisions: [u64; 2]) {
    for old in revisions {
        let exact = format!("{NAMESPACES}?resourceVersion={old}&resourceVersionMatch=Exact");
        assert_eq!(client.get(&exact).await.unwrap().code, 410, "{old}");
        let watch = format!("{NAMESPACES}?watch=true&timeoutSeconds=1&resourceVersion={old}");
        let watch = client.get(&watch).await.unwrap();
        assert!(watch.code == 410 || watch.text().contains(r#""code":410"#), "{old}: {}", watch.text());
    }
}

/// Asserts that the server serves the older data with new revisions.
async fn assert_new_data(client: &Client, kept: u64, newest: u64) {
    for path in [NAMESPACES.to_owned(), format!("{NAMESPACES}?resourceVersion=0")] {
        let list = parsed(&client.get(&path).await.unwrap());
        assert!(revision(&list) > newest + FAR, "{path}: {list}");
        assert!(names(&list).iter().all(|name| !name.starts_with("lost")), "{path}: {list}");
    }
    let found = client.get(&format!("{NAMESPACES}/kept")).await.unwrap();
    assert!(revision(&parsed(&found)) > newest, "{}", found.text());
    assert_eq!(client.get(&format!("{NAMESPACES}/lost3")).await.unwrap().code, 404);
    assert_expired(client, [kept, newest]).await;
    assert!(create(client, "lost3").await > newest, "it can be created again");
}
