//! Tests of revocations, also with some in the store that cannot be read.

#![allow(clippy::disallowed_methods, reason = "a test awaits its tasks, or ends with them")]

use std::path::Path;

use apiserver_access::{Authenticator, Authorizer, Chain};
use apiserver_http::{Identity, Parts, Supervisor};
use apiserver_machinery::encryption::Encryption;
use apiserver_machinery::resource::Registry as Kinds;
use apiserver_machinery::store::OwnNamespaces;
use bytes::Bytes;
use serde_json::{Value, json};
use storage_contract::{Key, Store};
use storage_embedded::EmbeddedStore;
use tokio::sync::watch;

use super::*;
use crate::authorities::Known;
use crate::config::ServerConfiguration;
use crate::pki::Authority;
use crate::tls::Sources;

fn tls(data: &Path) -> Arc<ReloadableTls> {
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    Authority::open(data).unwrap();
    let sources = Sources {
        configuration: ServerConfiguration::default(),
        data: data.to_owned(),
        listen: "127.0.0.1:7443".parse().unwrap(),
        authorities: watch::channel(Known::default()).1,
        front_proxy: None,
    };
    sources.open().unwrap().tls()
}

fn objects(kinds: &Arc<Kinds>, store: &Arc<dyn Store>) -> Arc<ObjectStore> {
    Arc::new(ObjectStore::open(
        Arc::clone(kinds),
        Arc::clone(store),
        Arc::new(Encryption::default()),
        Arc::new(OwnNamespaces),
        &Supervisor::default(),
        CancellationToken::new(),
    ))
}

fn server(objects: Arc<ObjectStore>) -> Arc<ApiServer> {
    let local: Arc<dyn Authorizer> = Arc::new(Chain(vec![Arc::new(crate::controllers::local_policy())]));
    Arc::new(ApiServer::new(Parts {
        objects,
        authenticator: Arc::new(Authenticator::default()),
        authorizer: Arc::clone(&local),
        hosted_authorizer: local,
        identity: Identity { git_version: "v0".to_owned(), address: String::new() },
        checks: Vec::new(),
        supervisor: Supervisor::default(),
    }))
}

fn revocation(name: &str, spec: &Value) -> Bytes {
    let metadata = json!({"name": name, "uid": name, "creationTimestamp": "1970-01-01T00:00:50Z"});
    let object = json!({"apiVersion": "capstan.dev/v1alpha1", "kind": "CertificateRevocation",
        "metadata": metadata, "spec": spec});
    Bytes::from(object.to_string())
}

/// Waits for a condition.
async fn until(is_met: impl Fn() -> bool) {
    let waiting = async {
        while !is_met() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), waiting).await.unwrap();
}

#[tokio::test]
async fn a_revocation_that_cannot_be_decoded_does_not_stop_the_others() {
    let data = tempfile::tempdir().unwrap();
    let store: Arc<dyn Store> = Arc::new(EmbeddedStore::open(&data.path().join("store.redb")).unwrap());
    let kinds = Arc::new(apiserver_registry::registry());
    let kind = kinds.stored().iter().find(|kind| kind.plural == "certificaterevocations").unwrap();
    let key = |name: &str| Key::new(kind.key("", name)).unwrap();
    for (name, value) in [
        ("alice", revocation("alice", &json!({"user": "alice"}))),
        ("damaged", Bytes::from_static(b"{")),
        ("odd", revocation("odd", &json!({"user": "bob", "issuedBefore": 5}))),
    ] {
        store.create(&key(name), value).await.unwrap();
    }
    let objects = objects(&kinds, &store);
    until(|| objects.is_ready()).await;
    let found = stored::all(&objects).await.unwrap();
    let errors: Vec<&str> = found.iter().filter_map(|it| it.error.as_deref()).collect();
    assert!(errors.len() == 2 && errors.iter().any(|error| error.contains("damaged")), "{errors:?}");
    let selections: Vec<Revocation> = found.iter().filter_map(|it| it.selection.clone()).collect();
    let user = |name: &str, issued_before| Revocation::User { name: name.to_owned(), issued_before };
    assert_eq!(selections, [user("alice", 50), user("bob", i64::MAX)]);

    let (tls, metrics, shutdown) = (tls(data.path()), RevocationMetrics::default(), CancellationToken::new());
    let following = follow(server(objects), Arc::clone(&tls), metrics.clone(), shutdown.clone());
    let task = tokio::spawn(following);
    until(|| tls.has_revocations()).await;
    assert_eq!(metrics.unreadable.get(), 2);
    let damaged = store.get(&key("damaged")).await.unwrap().unwrap();
    store.delete(&damaged.key, damaged.modified).await.unwrap();
    until(|| metrics.unreadable.get() == 1).await;
    shutdown.cancel();
    task.await.unwrap();
}

#[test]
fn a_watch_that_may_lack_a_revocation_ends_none() {
    let data = tempfile::tempdir().unwrap();
    let mut in_force = InForce::new(tls(data.path()), RevocationMetrics::default());
    let user = |name: &str| Revocation::User { name: name.to_owned(), issued_before: 50 };
    let stored = |name: &str| StoredRevocation { selection: Some(user(name)), error: None };
    in_force.extend([stored("bob")]);
    assert!(!in_force.tls.has_revocations(), "others may be missing");
    in_force.replace([stored("alice"), StoredRevocation::undecodable("damaged")]);
    in_force.extend([stored("alice"), stored("bob")]);
    assert_eq!(in_force.last, Some(vec![user("alice"), user("bob")]));
    assert_eq!(in_force.metrics.unreadable.get(), 1);
    in_force.replace([stored("bob")]);
    assert_eq!((in_force.last, in_force.metrics.unreadable.get()), (Some(vec![user("bob")]), 0));
}

#[test]
fn the_pause_after_a_failure_never_grows() {
    let pauses: Vec<Duration> = ConstantBackoff.take(20).collect();
    assert!(pauses.len() == 20 && pauses.iter().all(|pause| *pause <= Duration::from_millis(500)));
}
