//! Tests of objects whose plug-in is down.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use apiserver_http::Supervisor;
use apiserver_machinery::encryption::{
    Encryption, KmsPlugin, KmsProvider, KmsSeeds, OpenError, Provider, Rules, SEED, SealedSeed,
};
use apiserver_machinery::status::ApiResult;
use apiserver_machinery::store::{Freshness, ObjectStore, OwnNamespaces, WriteOptions};
use serde_json::{Value, json};
use storage_embedded::EmbeddedStore;
use tokio_util::sync::CancellationToken;

/// Plug-in that is down.
#[derive(Debug)]
struct Down;

impl KmsPlugin for Down {
    fn open(&self, _: &SealedSeed) -> Result<Vec<u8>, OpenError> {
        Err(OpenError::NoAnswer("no answer".to_owned()))
    }

    fn hasten(&self) {}
}

/// Opens a store whose Secrets are sealed with these seeds.
async fn objects(directory: &std::path::Path, seeds: KmsSeeds) -> ObjectStore {
    let provider = KmsProvider::new("vault".to_owned(), Arc::new(Down), seeds);
    let rules = Rules::from([("secrets".to_owned(), vec![Provider::Kms(Arc::new(provider))])]);
    let objects = ObjectStore::open(
        Arc::new(apiserver_registry::registry()),
        Arc::new(EmbeddedStore::open(&directory.join("store.redb")).unwrap()),
        Arc::new(Encryption::new(rules)),
        Arc::new(OwnNamespaces),
        &Supervisor::default(),
        CancellationToken::new(),
    );
    while !objects.is_ready() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    objects
}

async fn create(objects: &ObjectStore, plural: &str, kind: &str, name: &str) -> ApiResult<()> {
    let namespace = if plural == "namespaces" { "" } else { "team" };
    let object = json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": name}});
    let options = WriteOptions { manager: "tester".to_owned(), ..WriteOptions::default() };
    let created = objects.create(objects.kind("", "v1", plural).unwrap(), namespace, object, options).await;
    created.map(drop)
}

async fn read(objects: &ObjectStore, name: &str) -> Value {
    let kind = objects.kind("", "v1", "secrets").unwrap();
    objects.get(kind, "team", name, Freshness::Consistent).await.unwrap().to_value().unwrap()
}

#[tokio::test]
async fn hv_43_three_minutes_after_the_last_good_status_only_writes_of_sealed_kinds_get_503() {
    let (directory, seeds) = (tempfile::tempdir().unwrap(), KmsSeeds::default());
    let sealed = SealedSeed { key_id: "k".to_owned(), ciphertext: vec![1], annotations: BTreeMap::new() };
    let confirmed = |at: Instant| seeds.replace(&[1; SEED], sealed.clone(), at);
    let now = Instant::now();
    confirmed(now);
    let objects = objects(directory.path(), seeds.clone()).await;
    create(&objects, "namespaces", "Namespace", "team").await.unwrap();
    create(&objects, "secrets", "Secret", "before").await.unwrap();
    confirmed(now.checked_sub(Duration::from_secs(180)).unwrap());
    let refused = create(&objects, "secrets", "Secret", "after").await.unwrap_err();
    assert_eq!((refused.code, refused.retry_after()), (503, Some(1)), "{refused}");
    assert!(refused.message.contains("vault") && refused.message.contains("three minutes"), "{refused}");
    assert_eq!(read(&objects, "before").await["metadata"]["name"], "before");
    create(&objects, "configmaps", "ConfigMap", "other").await.unwrap();
}
