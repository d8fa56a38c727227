//! Tests of the rewrite of all values.

use apiserver_machinery::encryption::{Encryption, Provider, Rules};
use bytes::Bytes;
use storage_contract::Key;
use storage_embedded::EmbeddedStore;

use super::*;

fn encryption(keys: &[u8]) -> Arc<Encryption> {
    let key = |byte: &u8| Provider::aes_gcm(&format!("k{byte}"), &[*byte; 32]).unwrap();
    Arc::new(Encryption::new(Rules::from([("secrets".to_owned(), keys.iter().map(key).collect())])))
}

fn rewriter(store: &Arc<dyn Store>, encryption: &Arc<Encryption>) -> Rewriter {
    Rewriter::new(Arc::clone(store), Arc::clone(encryption), None, RewriteMetrics::default()).at_full_speed()
}

async fn stored(store: &Arc<dyn Store>, key: &str) -> Bytes {
    store.get(&Key::new(key).unwrap()).await.unwrap().unwrap().value
}

/// Creates a store with Secrets, a value of the server itself and one that is not sealed.
async fn filled(directory: &tempfile::TempDir, old: &Encryption, secrets: usize) -> Arc<dyn Store> {
    let store: Arc<dyn Store> = Arc::new(EmbeddedStore::open(&directory.path().join("store.redb")).unwrap());
    let mut keys: Vec<String> =
        (0..secrets).map(|number| format!("/capstan/core/secrets/team/s{number:04}")).collect();
    keys.push("/capstan/pki/serving/1".to_owned());
    for key in &keys {
        let sealed = old.seal("secrets", key, Bytes::from_static(b"{}")).unwrap();
        store.create(&Key::new(key.clone()).unwrap(), sealed).await.unwrap();
    }
    let plain = Key::new("/capstan/core/configmaps/team/c").unwrap();
    store.create(&plain, Bytes::from_static(b"{}")).await.unwrap();
    store
}

#[tokio::test]
async fn a_leader_goes_on_where_the_last_one_stopped_and_rewrites_each_value_once() {
    let directory = tempfile::tempdir().unwrap();
    let store = filled(&directory, &encryption(&[1]), 450).await;
    let both = encryption(&[2, 1]);
    let begun = begin(store.as_ref(), Reason::Reencrypt).await.unwrap();
    // The first leader handles one page, and ends before the next one.
    let first = load(store.as_ref()).await.unwrap().unwrap();
    let page = rewriter(&store, &both).page(first.job.clone()).await.unwrap();
    assert!(page.is_running() && page.total().rewritten < 450, "{page:?}");
    let done = page.total().rewritten;
    save(store.as_ref(), page, Some(&first.entry)).await.unwrap().unwrap();
    rewriter(&store, &both).pass().await.unwrap();
    let job = load(store.as_ref()).await.unwrap().unwrap().job;
    assert_eq!((&job.id, job.is_running()), (&begun.id, false));
    assert_eq!((job.kinds["secrets"].rewritten, job.total().failed), (451, 0), "{done} by the first");
    let new = encryption(&[2]);
    for key in
        ["/capstan/core/secrets/team/s0000", "/capstan/core/secrets/team/s0449", "/capstan/pki/serving/1"]
    {
        assert!(new.open("secrets", key, &stored(&store, key).await).is_ok(), "{key}");
    }
    assert_eq!(stored(&store, "/capstan/core/configmaps/team/c").await, "{}");
    // A second one changes nothing.
    begin(store.as_ref(), Reason::Reencrypt).await.unwrap();
    rewriter(&store, &both).pass().await.unwrap();
    assert_eq!(load(store.as_ref()).await.unwrap().unwrap().job.total().rewritten, 0);
}

#[tokio::test]
async fn a_value_that_cannot_be_opened_is_named_and_left_as_it_is() {
    let directory = tempfile::tempdir().unwrap();
    let store = filled(&directory, &encryption(&[1]), 1).await;
    let before = stored(&store, "/capstan/pki/serving/1").await;
    begin(store.as_ref(), Reason::Migrate).await.unwrap();
    rewriter(&store, &encryption(&[2])).pass().await.unwrap();
    let job = load(store.as_ref()).await.unwrap().unwrap().job;
    assert_eq!(job.total().failed, 2);
    assert!(
        job.errors[0].contains("/capstan/core/secrets/team/s0000: sealed with a key"),
        "{:?}",
        job.errors
    );
    assert_eq!(stored(&store, "/capstan/pki/serving/1").await, before);
    assert!(command::report(&job).contains("sealed with a key"));
}

#[tokio::test]
async fn two_rewrites_at_a_time_are_refused_and_the_same_one_goes_on() {
    let directory = tempfile::tempdir().unwrap();
    let store = filled(&directory, &encryption(&[1]), 1).await;
    let begun = begin(store.as_ref(), Reason::Reencrypt).await.unwrap();
    assert_eq!(begin(store.as_ref(), Reason::Reencrypt).await.unwrap().id, begun.id);
    let refused = begin(store.as_ref(), Reason::Migrate).await.unwrap_err().to_string();
    assert!(refused.contains("`capstan encryption reencrypt` has not ended"), "{refused}");
}

#[tokio::test]
async fn at_most_two_hundred_values_are_written_per_second() {
    let directory = tempfile::tempdir().unwrap();
    let store = filled(&directory, &encryption(&[1]), 60).await;
    begin(store.as_ref(), Reason::Reencrypt).await.unwrap();
    let limited = Rewriter::new(Arc::clone(&store), encryption(&[2, 1]), None, RewriteMetrics::default());
    let started = std::time::Instant::now();
    limited.pass().await.unwrap();
    assert!(started.elapsed() >= PAUSE * 60, "{:?}", started.elapsed());
}
