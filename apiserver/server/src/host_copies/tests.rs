//! Tests of the copies in the store.

use apiserver_host::{
    Bounds, CopyRecord, CopyRecords, Disagreement, HostHealth, HostMirror, HostNamespaces, HostPin, KeptKeys,
    SecretCopies,
};
use apiserver_machinery::encryption::{Provider, Rules};
use bytes::Bytes;
use k8s_openapi::api::core::v1::Secret;
use serde_json::json;
use storage_contract::Key;
use storage_embedded::EmbeddedStore;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::mirror::TOKEN_KEYS;
use super::*;
use crate::replicas::Replica;

const MARKER: &str = "hunter2";

fn encryption(key: u8) -> Arc<Encryption> {
    let provider = Provider::aes_gcm(&format!("k{key}"), &[key; 32]).unwrap();
    Arc::new(Encryption::new(Rules::from([("secrets".to_owned(), vec![provider])])))
}

fn copies() -> (tempfile::TempDir, HostCopies) {
    let directory = tempfile::tempdir().unwrap();
    let store = EmbeddedStore::open(&directory.path().join("store")).unwrap();
    (directory, HostCopies::new(Arc::new(store), encryption(1)))
}

fn secret(name: &str) -> Secret {
    serde_json::from_value(json!({"metadata": {"name": name, "namespace": "n"}, "stringData": {"a": MARKER}}))
        .unwrap()
}

fn client() -> kube::Client {
    let service = tower::service_fn(|_: http::Request<kube::client::Body>| async {
        std::future::pending::<Result<http::Response<kube::client::Body>, std::convert::Infallible>>().await
    });
    kube::Client::new(service, "default")
}

/// Returns the originals of a host that is up, and the sender of its front proxy.
fn originals(uid: &str, accepted: Option<&str>) -> (Originals, watch::Sender<FrontProxy>) {
    let proxy = watch::Sender::new(FrontProxy {
        ca: "PEM".to_owned(),
        client_ca: "PEM of users".to_owned(),
        headers: RequestHeaders::default(),
    });
    let namespaces = HostNamespaces::new(client());
    namespaces.restore(HashMap::from([("team".to_owned(), json!({"metadata": {"name": "team"}}))]));
    let pin = HostPin::new(accepted);
    pin.restore(uid.to_owned());
    let health = HostHealth::default();
    (Originals { health, namespaces, proxy: proxy.subscribe(), pin, mirror: None, admission: None }, proxy)
}

/// Keeps the copies for a moment.
async fn keep_once(copies: &HostCopies, originals: Originals) {
    let end = CancellationToken::new();
    let keeping = keep(Arc::new(copies.clone()), originals, end.clone());
    let waiting = async {
        while copies.restore().await.unwrap().contact.is_none() {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        end.cancel();
    };
    tokio::join!(keeping, waiting);
}

#[tokio::test]
async fn the_next_process_knows_the_front_proxy_and_the_namespaces() {
    let (_directory, copies) = copies();
    assert!(copies.restore().await.unwrap().proxy.is_none());
    let (originals, proxy) = originals("u1", None);
    keep_once(&copies, originals).await;
    let restored = copies.restore().await.unwrap();
    assert_eq!(restored.proxy.as_ref(), Some(&*proxy.borrow()));
    assert_eq!(restored.namespaces.keys().collect::<Vec<_>>(), ["team"]);
    assert_eq!(restored.uid.as_deref(), Some("u1"));
    let age = Timestamp::now().duration_since(restored.contact.unwrap());
    assert!(age.as_secs() < 60, "{age}");
}

#[tokio::test]
async fn a_secret_of_the_host_is_a_copy_only_if_the_record_has_its_uid() {
    let (_directory, copies) = copies();
    let secrets = StoredSecrets::new(copies.clone());
    let found = |uid: &str| -> Secret {
        let labels = json!({"capstan.dev/owner-uid": "u"});
        let metadata = json!({"name": "c-ca", "namespace": "n", "uid": uid, "labels": labels});
        serde_json::from_value(json!({"metadata": metadata})).unwrap()
    };
    assert_eq!(secrets.is_written_back(&found("first")).await, Some(false), "there is no record");
    let [namespace, name, cluster, owner, host] = ["n", "c-ca", "c", "u", "h"].map(str::to_owned);
    let record = CopyRecord { namespace, name, cluster, owner, host, uid: Some("first".to_owned()) };
    assert!(StoredOutbox::new(copies).write(&record).await);
    for (uid, expected) in [("first", true), ("moved", false)] {
        assert_eq!(secrets.is_written_back(&found(uid)).await, Some(expected), "{uid}");
    }
}

#[tokio::test]
async fn nothing_of_another_host_is_copied_until_it_is_accepted() {
    let (_directory, copies) = copies();
    keep_once(&copies, originals("u1", None).0).await;
    StoredSecrets::new(copies.clone()).write(&secret("s")).await;
    let (other, _proxy) = originals("u2", None);
    other.namespaces.restore(HashMap::from([("new".to_owned(), json!({}))]));
    keep_once(&copies, other.clone()).await;
    assert_eq!(copies.restore().await.unwrap().namespaces.len(), 1);
    assert_eq!(other.pin.uid().as_deref(), Some("u1"), "the prober compares the host with the stored pin");
    let (accepted, _proxy) = originals("u2", Some("u2"));
    keep_once(&copies, accepted).await;
    assert_eq!(copies.restore().await.unwrap().uid.as_deref(), Some("u2"));
    assert!(StoredSecrets::new(copies.clone()).names().await.is_empty(), "they are of the old host");
}

#[tokio::test]
async fn ho_03_nothing_of_the_old_host_is_used_once_another_one_is_accepted() {
    let (_directory, copies) = copies();
    let (old, _proxy) = originals("u1", None);
    old.pin.restore_version(HostVersion { version: 900, hash: "h".to_owned() });
    old.namespaces.restore(HashMap::from([("old".to_owned(), json!({}))]));
    keep_once(&copies, old).await;
    StoredSecrets::new(copies.clone()).write(&secret("s")).await;
    let (user, class, question) = ("alice".to_owned(), "read".to_owned(), "q".to_owned());
    let found = Disagreement { user, class, question, at: Timestamp::now().as_second() };
    copies.keep_disagreement(&found).await;
    let accepting = copies.clone().accepting(Some("u2"));
    let restored = accepting.restore().await.unwrap();
    assert!(restored.is_replaced && restored.proxy.is_none() && restored.contact.is_none());
    assert!(restored.namespaces.is_empty() && restored.version.is_none());
    assert_eq!(restored.uid.as_deref(), Some("u1"), "the pin stays until the new host is up");
    assert!(StoredSecrets::new(accepting.clone()).read("n", "s").await.is_none());
    assert!(accepting.restore_mirror().await.unwrap().disagreements.is_empty());
    assert!(
        accepting.disagreements().await.is_empty() && accepting.restore_admission().await.unwrap().is_empty()
    );
    assert!(
        StoredSecrets::new(copies.clone()).read("n", "s").await.is_some(),
        "without the setting it is used"
    );
    let (new, proxy) = originals("u2", Some("u2"));
    keep_once(&accepting, new).await;
    let restored = accepting.restore().await.unwrap();
    assert_eq!((restored.is_replaced, restored.uid.as_deref()), (false, Some("u2")));
    assert_eq!(restored.proxy.as_ref(), Some(&*proxy.borrow()));
    assert_eq!(restored.namespaces.keys().collect::<Vec<_>>(), ["team"]);
    assert!(restored.version.is_none(), "it is the version of the old host");
    assert!(copies.disagreements().await.is_empty());
}

#[tokio::test]
async fn ho_03_the_next_process_knows_the_version_of_the_host() {
    let (_directory, copies) = copies();
    let version = |version: u64| HostVersion { version, hash: version.to_string() };
    let (first, _proxy) = originals("u1", None);
    first.pin.restore_version(version(900));
    keep_once(&copies, first).await;
    assert_eq!(copies.restore().await.unwrap().version, Some(version(900)));
    let (next, _proxy) = originals("u1", None);
    keep_once(&copies, next.clone()).await;
    assert_eq!(next.pin.version(), Some(version(900)), "a leader that has not seen it learns it");
}

#[tokio::test]
async fn a_secret_is_sealed_in_the_store_and_read_by_another_replica() {
    let (_directory, copies) = copies();
    let first = StoredSecrets::new(copies.clone());
    first.write(&secret("s")).await;
    let key = copies.values.key(SECRETS, "n/s").unwrap();
    let stored = copies.values.store.get(&key).await.unwrap().unwrap().value;
    assert!(stored.starts_with(b"k8s:enc:aesgcm:"), "{stored:?}");
    assert!(!stored.windows(MARKER.len()).any(|window| window == MARKER.as_bytes()));
    let second = StoredSecrets::new(copies.clone());
    let (found, age) = second.read("n", "s").await.unwrap();
    assert_eq!((found, age.as_secs() < 60), (secret("s"), true));
    assert_eq!(second.names().await, [("n".to_owned(), "s".to_owned())]);
    let rotated = HostCopies::new(Arc::clone(&copies.values.store), encryption(2));
    assert!(StoredSecrets::new(rotated).read("n", "s").await.is_none(), "its key is gone");
    second.remove("n", "s").await;
    assert!(first.read("n", "s").await.is_none());
}

#[tokio::test]
async fn tm_25_a_clock_that_was_set_back_makes_no_copy_younger() {
    let (_directory, copies) = copies();
    keep_once(&copies, originals("u1", None).0).await;
    let keys = KeptKeys { issuer: String::new(), document: String::new(), at: Timestamp::now().as_second() };
    copies.values.write(TOKEN_KEYS, ONLY, &keys).await.unwrap();
    StoredSecrets::new(copies.clone()).write(&secret("s")).await;
    let ages = async || {
        let now = Timestamp::now();
        let contact = copies.restore().await.unwrap().contact.unwrap();
        let keys = copies.restore_mirror().await.unwrap().keys.unwrap();
        let (_, secret) = StoredSecrets::new(copies.clone()).read("n", "s").await.unwrap();
        let secret = i64::try_from(secret.as_secs()).unwrap();
        [now.duration_since(contact).as_secs(), now.as_second() - keys.at, secret]
    };
    // The clock of another replica is ahead: first within the limits of NTP, and then by an hour.
    for (id, ahead, expected) in [("a", 60, 0..60), ("b", 3600, 3590..3660)] {
        let mut replica = Replica::of_this_process(String::new());
        replica.renewed = Timestamp::now() + jiff::SignedDuration::from_secs(ahead);
        let key = Key::new(format!("/capstan/replicas/{id}")).unwrap();
        let value = Bytes::from(serde_json::to_vec(&replica).unwrap());
        copies.values.store.create(&key, value).await.unwrap();
        let found = ages().await;
        assert!(found.iter().all(|age| expected.contains(age)), "{ahead}: {found:?}");
    }
    // No replica has a record, as after an orderly end of all of them.
    for id in ["a", "b"] {
        let key = Key::new(format!("/capstan/replicas/{id}")).unwrap();
        let known = copies.values.store.get(&key).await.unwrap().unwrap();
        copies.values.store.delete(&key, known.modified).await.unwrap();
    }
    assert!(ages().await.iter().all(|age| (0..60).contains(age)));
    copies.time.record(Timestamp::now() + jiff::SignedDuration::from_secs(3600)).await.unwrap();
    let found = ages().await;
    assert!(found.iter().all(|age| (3590..3660).contains(age)), "{found:?}");
}

#[tokio::test]
async fn tm_25_a_copy_from_the_future_is_of_any_age() {
    let (_directory, copies) = copies();
    let now = Timestamp::now().as_second();
    for (name, at) in [("ahead", now + 60), ("wrong", now + 3600), ("old", now - 3600)] {
        let stored = json!({"at": at, "secret": secret(name)});
        copies.values.write(SECRETS, &format!("n/{name}"), &stored).await.unwrap();
    }
    let secrets = StoredSecrets::new(copies.clone());
    let age = async |name: &str| secrets.read("n", name).await.unwrap().1;
    assert!(age("ahead").await.as_secs() < 60, "the clocks of two replicas differ");
    assert_eq!(age("wrong").await, std::time::Duration::MAX);
    assert!((3600..3700).contains(&age("old").await.as_secs()));
}

#[tokio::test]
async fn the_copies_have_a_bounded_size() {
    let (_directory, copies) = copies();
    let secrets = StoredSecrets::of_at_most(copies.clone(), 300);
    for name in ["a", "b", "c"] {
        secrets.write(&secret(name)).await;
    }
    let names = secrets.names().await;
    assert!(!names.is_empty() && names.len() < 3, "{names:?}");
    let (namespace, name) = &names[0];
    secrets.write(&secret(name)).await;
    assert!(secrets.read(namespace, name).await.is_some(), "a change takes no additional room");
}

#[tokio::test]
async fn disagreements_that_close_nothing_any_more_are_removed_from_the_store() {
    let (_directory, copies) = copies();
    let now = Timestamp::now().as_second();
    for (question, age) in [("new", 3600), ("old", 25 * 3600)] {
        let (user, class) = ("alice".to_owned(), "read".to_owned());
        let found = Disagreement { user, class, question: question.to_owned(), at: now - age };
        copies.keep_disagreement(&found).await;
    }
    let mirror = HostMirror::new(HostHealth::default(), Bounds::default(), Timestamp::UNIX_EPOCH);
    copies.remove_expired(&mirror).await.unwrap();
    let kept: Vec<_> = copies.disagreements().await.into_iter().map(|found| found.question).collect();
    assert_eq!(kept, ["new"]);
}
