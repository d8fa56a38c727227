//! Tests of the host's Secrets and their copies.

mod ages;
mod keeping;

use std::collections::HashMap;

use async_trait::async_trait;
use serde_json::json;
use tokio::time::Instant;

use super::cache::{LIFETIME, PAUSE, REFUSED};
use super::copies::BOOTSTRAP_DATA;
use super::*;
use crate::fake::{Fake, status};
use crate::health::HostState;
use crate::write_back::CopyRecord;

fn secret(version: &str) -> (u16, serde_json::Value) {
    let metadata = json!({"name": "s", "namespace": "n", "resourceVersion": version});
    (200, json!({"apiVersion": "v1", "kind": "Secret", "metadata": metadata}))
}

fn version(found: Result<Option<Secret>, kube::Error>) -> Option<String> {
    found.unwrap().and_then(|secret| secret.metadata.resource_version)
}

fn world() -> (Fake, Fake, HostSecrets) {
    let (host, own) = (Fake::new(status(404)), Fake::new(status(404)));
    let secrets = HostSecrets::new(host.client(), HostHealth::default(), own.client());
    (host, own, secrets)
}

async fn later() {
    tokio::time::sleep(LIFETIME.max(PAUSE)).await;
}

#[tokio::test(start_paused = true)]
async fn a_secret_of_the_host_is_cached() {
    let (host, own, secrets) = world();
    host.answer(secret("1"));
    let many = (0..50).map(|_| secrets.secret("n", "s"));
    for found in futures::future::join_all(many).await {
        assert_eq!(version(found).as_deref(), Some("1"));
    }
    assert!(host.requests().len() <= AT_ONCE, "{:?}", host.requests());
    assert!(own.requests().iter().all(|request| request.starts_with("GET ")), "{:?}", own.requests());
    let before = host.requests().len();
    host.answer(secret("2"));
    assert_eq!(version(secrets.secret("n", "s").await).as_deref(), Some("1"));
    later().await;
    assert_eq!(version(secrets.secret("n", "s").await).as_deref(), Some("2"));
    assert_eq!(host.requests().len(), before + 1);
    assert_eq!(host.requests().last().unwrap(), "GET /api/v1/namespaces/n/secrets/s");
}

#[tokio::test(start_paused = true)]
async fn a_secret_that_the_host_lacks_is_read_from_the_store() {
    let (_host, own, secrets) = world();
    assert_eq!(version(secrets.secret("n", "s").await), None);
    own.answer(secret("own"));
    assert_eq!(version(secrets.secret("n", "s").await).as_deref(), Some("own"));
}

fn of_cluster(version: &str, uid: &str) -> (u16, serde_json::Value) {
    let (code, mut secret) = secret(version);
    secret["type"] = json!(CLUSTER_SECRET);
    secret["metadata"]["uid"] = json!(uid);
    (code, secret)
}

#[tokio::test(start_paused = true)]
async fn a_secret_that_controllers_have_made_needs_no_host() {
    let (host, own, secrets) = world();
    host.answer(of_cluster("copy", "h"));
    own.answer(of_cluster("1", "o"));
    assert_eq!(version(secrets.secret("n", "s").await).as_deref(), Some("1"));
    let read = secrets.secret("n", "s").await.unwrap().unwrap();
    secrets.create(&read).await.unwrap();
    secrets.replace(&read).await.unwrap();
    assert_eq!(host.requests(), Vec::<String>::new());
    let writes =
        own.requests().into_iter().filter(|request| !request.starts_with("GET ")).collect::<Vec<_>>();
    assert_eq!(writes, ["POST /api/v1/namespaces/n/secrets", "PUT /api/v1/namespaces/n/secrets/s"]);
}

#[tokio::test(start_paused = true)]
async fn a_secret_is_replaced_where_it_was_read() {
    let (host, own, secrets) = world();
    host.answer(of_cluster("1", "h"));
    let read = secrets.secret("n", "s").await.unwrap().unwrap();
    // Another one of the same name was made in the own store since.
    own.answer(of_cluster("2", "o"));
    secrets.replace(&read).await.unwrap();
    assert_eq!(host.requests().last().unwrap(), "PUT /api/v1/namespaces/n/secrets/s");
}

#[tokio::test(start_paused = true)]
async fn a_cached_copy_is_used_while_the_host_is_down() {
    let (host, _own, secrets) = world();
    host.answer(secret("1"));
    secrets.secret("n", "s").await.unwrap();
    for code in [503, 429] {
        later().await;
        host.answer(status(code));
        assert_eq!(version(secrets.secret("n", "s").await).as_deref(), Some("1"), "{code}");
    }
    later().await;
    host.hang();
    assert_eq!(version(secrets.secret("n", "s").await).as_deref(), Some("1"));
    let asked = host.requests().len();
    for other in ["a", "b", "c"] {
        assert!(secrets.secret("n", other).await.unwrap_err().to_string().contains("does not answer"));
    }
    assert_eq!(host.requests().len(), asked, "a host that is down is left alone");
    later().await;
    host.answer(status(404));
    assert_eq!(version(secrets.secret("n", "s").await), None, "gone is gone");
}

#[tokio::test(start_paused = true)]
async fn without_a_cached_copy_the_store_is_used_while_the_host_is_down() {
    let (host, own, secrets) = world();
    host.hang();
    assert!(secrets.secret("n", "s").await.is_err(), "the host may have one");
    own.answer(secret("own"));
    assert_eq!(version(secrets.secret("n", "s").await).as_deref(), Some("own"));
}

#[tokio::test(start_paused = true)]
async fn a_host_that_is_not_up_removes_no_copy() {
    let (host, own) = (Fake::new(secret("1")), Fake::new(status(404)));
    let health = HostHealth::in_state(HostState::Up);
    let secrets = HostSecrets::new(host.client(), health.clone(), own.client());
    secrets.secret("n", "s").await.unwrap();
    health.set(HostState::Probation);
    for code in [404, 403, 403] {
        tokio::time::sleep(REFUSED).await;
        host.answer(status(code));
        assert_eq!(version(secrets.secret("n", "s").await).as_deref(), Some("1"), "{code}");
    }
    host.answer(status(404));
    assert!(secrets.secret("n", "other").await.is_err(), "it may exist");
    health.set(HostState::Up);
    host.answer(status(403));
    later().await;
    assert_eq!(version(secrets.secret("n", "s").await).as_deref(), Some("1"), "the first one in Up");
    host.answer(status(404));
    later().await;
    assert_eq!(version(secrets.secret("n", "s").await), None);
}

#[tokio::test(start_paused = true)]
async fn a_cached_copy_outlives_an_expired_credential_of_ours() {
    let (host, _own, secrets) = world();
    host.answer(secret("1"));
    secrets.secret("n", "s").await.unwrap();
    for _ in 0..20 {
        later().await;
        host.answer(status(401));
        assert_eq!(version(secrets.secret("n", "s").await).as_deref(), Some("1"));
    }
}

#[tokio::test(start_paused = true)]
async fn a_cached_copy_is_not_used_after_the_host_repeats_that_permission_is_revoked() {
    let (host, own, secrets) = world();
    host.answer(secret("1"));
    secrets.secret("n", "s").await.unwrap();
    later().await;
    host.answer(status(403));
    assert_eq!(
        version(secrets.secret("n", "s").await).as_deref(),
        Some("1"),
        "a host that starts says so, too"
    );
    host.answer(secret("2"));
    later().await;
    assert_eq!(version(secrets.secret("n", "s").await).as_deref(), Some("2"));
    later().await;
    host.answer(status(403));
    secrets.secret("n", "s").await.unwrap();
    tokio::time::sleep(REFUSED).await;
    own.answer(secret("own"));
    assert!(secrets.secret("n", "s").await.is_err(), "forbidden is not absent");
    own.answer(status(404));
    host.hang();
    assert!(secrets.secret("n", "s").await.is_err());
}

/// Copies of a process that has ended, and the record of a Secret that it has written to the host.
#[derive(Debug, Default)]
struct Stored(Mutex<HashMap<Key, (Secret, Instant)>>, Mutex<Option<CopyRecord>>);

#[async_trait]
impl SecretCopies for Stored {
    async fn read(&self, namespace: &str, name: &str) -> Option<(Secret, Duration)> {
        let key = (namespace.to_owned(), name.to_owned());
        let found = self.0.lock().unwrap().get(&key).cloned();
        found.map(|(secret, at)| (secret, at.elapsed()))
    }

    async fn write(&self, secret: &Secret) {
        let key = (secret.namespace().unwrap(), secret.name_any());
        self.0.lock().unwrap().insert(key, (secret.clone(), Instant::now()));
    }

    async fn remove(&self, namespace: &str, name: &str) {
        self.0.lock().unwrap().remove(&(namespace.to_owned(), name.to_owned()));
    }

    async fn names(&self) -> Vec<Key> {
        self.0.lock().unwrap().keys().cloned().collect()
    }

    async fn is_written_back(&self, secret: &Secret) -> Option<bool> {
        let record = self.1.lock().unwrap().clone();
        Some(record.is_some_and(|record| record.is_of(secret)))
    }
}

/// World in which each call of the function is the next leader.
fn leaders() -> (Fake, HostHealth, Arc<Stored>, impl Fn() -> HostSecrets) {
    let (host, own) = (Fake::new(secret("1")), Fake::new(status(404)));
    let (health, stored) = (HostHealth::in_state(HostState::Up), Arc::new(Stored::default()));
    let parts = (host.clone(), health.clone(), Arc::clone(&stored));
    let next = move || {
        let (host, health, stored) = &parts;
        let copies: Arc<dyn SecretCopies> = Arc::<Stored>::clone(stored);
        let namespaces = HostNamespaces::new(host.client()).with_health(health.clone());
        HostSecrets::with_copies(namespaces, own.client(), copies)
    };
    (host, health, stored, next)
}

#[tokio::test(start_paused = true)]
async fn a_copy_of_our_own_is_not_read_and_a_secret_that_clusterctl_has_moved_here_is() {
    let (host, _health, stored, next) = leaders();
    let (code, mut moved) = of_cluster("1", "moved");
    moved["metadata"]["labels"] = json!({OWNER: "u"});
    host.answer((code, moved));
    assert_eq!(version(next().secret("n", "s").await).as_deref(), Some("1"), "no record has it");
    let of = |uid: &str| {
        let [namespace, name, cluster, owner, host] = ["n", "s", "c", "u", "h"].map(str::to_owned);
        CopyRecord { namespace, name, cluster, owner, host, uid: Some(uid.to_owned()) }
    };
    for (uid, expected) in [("moved", None), ("before the move", Some("1"))] {
        *stored.1.lock().unwrap() = Some(of(uid));
        assert_eq!(version(next().secret("n", "s").await).as_deref(), expected, "{uid}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_next_leader_knows_the_secrets_while_the_host_is_down() {
    let (host, health, stored, next) = leaders();
    next().secret("n", "s").await.unwrap();
    assert_eq!(stored.names().await.len(), 1);
    host.hang();
    health.set(HostState::Down);
    let second = next();
    assert_eq!(version(second.secret("n", "s").await).as_deref(), Some("1"));
    assert!(second.secret("n", "other").await.is_err());
    health.set(HostState::Probation);
    host.answer(status(404));
    later().await;
    assert_eq!(version(next().secret("n", "s").await).as_deref(), Some("1"), "it may have been restored");
    host.answer(status(401));
    assert_eq!(version(next().secret("n", "s").await).as_deref(), Some("1"));
    health.set(HostState::Up);
    host.answer(status(403));
    let third = next();
    assert_eq!(version(third.secret("n", "s").await).as_deref(), Some("1"), "refused once");
    tokio::time::sleep(REFUSED).await;
    assert!(third.secret("n", "s").await.is_err());
    assert!(stored.names().await.is_empty(), "the permission was withdrawn");
}

#[tokio::test(start_paused = true)]
async fn a_secret_that_a_host_in_up_does_not_have_leaves_no_copy() {
    let (host, _health, stored, next) = leaders();
    next().secret("n", "s").await.unwrap();
    host.answer(status(404));
    assert_eq!(version(next().secret("n", "s").await), None);
    assert!(stored.names().await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn an_unchanged_secret_is_stored_again_every_ten_minutes() {
    let (_host, _health, stored, next) = leaders();
    let secrets = next();
    let mut ages = Vec::new();
    for _ in 0..4 {
        secrets.secret("n", "s").await.unwrap();
        ages.push(stored.read("n", "s").await.unwrap().1.as_secs());
        tokio::time::sleep(Duration::from_secs(301)).await;
    }
    assert_eq!(ages, [0, 301, 0, 301]);
}

#[tokio::test(start_paused = true)]
async fn bootstrap_data_is_used_for_a_day_and_credentials_for_ever() {
    let (host, health, _stored, next) = leaders();
    let metadata = json!({"name": "s", "namespace": "n", "resourceVersion": "1"});
    let bootstrap = json!({"apiVersion": "v1", "kind": "Secret", "metadata": metadata,
        "type": "cluster.x-k8s.io/secret", "data": {"value": "eA==", "format": "eA=="}});
    host.responds(move |line, _| {
        Some(if line.ends_with("/boot") { (200, bootstrap.clone()) } else { secret("1") })
    });
    let first = next();
    for name in ["boot", "s"] {
        first.secret("n", name).await.unwrap();
    }
    host.hang();
    health.set(HostState::Down);
    later().await;
    assert!(first.secret("n", "boot").await.unwrap().is_some());
    tokio::time::sleep(BOOTSTRAP_DATA).await;
    let error = first.secret("n", "boot").await.unwrap_err();
    assert!(error.to_string().contains("HostSecretStale"), "{error}");
    assert!(first.secret("n", "s").await.unwrap().is_some());
}

#[tokio::test(start_paused = true)]
async fn the_labels_of_a_known_namespace_are_known_while_the_host_is_down() {
    let health = HostHealth::in_state(HostState::Up);
    let namespaces = HostNamespaces::new(Fake::new(status(404)).client()).with_health(health.clone());
    let object = json!({"metadata": {"name": "n", "labels": {"a": "b"}, "deletionTimestamp": null}});
    namespaces.restore(HashMap::from([("n".to_owned(), object)]));
    health.set(HostState::Down);
    let secrets = HostSecrets::with_copies(namespaces, Fake::new(status(404)).client(), Arc::new(NoCopies));
    assert_eq!(secrets.namespace("n").await.unwrap().unwrap().labels()["a"], "b");
    assert!(secrets.namespace("other").await.is_err());
}
