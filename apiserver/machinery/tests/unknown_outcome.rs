//! Tests of unknown outcomes: the store loses one answer, with or without the write, while another client writes.
//!
//! An update whose outcome was unknown used to be applied again on the object of the other client: a JSON patch
//! appended its element twice.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::sync::{Arc, Mutex};
use std::time::Duration;

use apiserver_machinery::admission::{Action, Caller, Creation, GrantedRule, Permissions, Uncovered};
use apiserver_machinery::encryption::Encryption;
use apiserver_machinery::patch::Patch;
use apiserver_machinery::resource::Registry;
use apiserver_machinery::status::{ApiError, ApiResult};
use apiserver_machinery::store::{
    Configuration, DeleteOptions, Deletion, FieldValidation, Kind, Method, ObjectStore, OwnNamespaces,
    Propagation, Replacement, Target, WriteOptions, Written,
};
use async_trait::async_trait;
use bytes::Bytes;
use serde_json::{Value, json};
use storage_contract::{
    Entry, Key, KeyRange, ListOptions, Page, Revision, Store, StoreError, StoreResult, Unchanged, WatchStream,
};
use storage_embedded::EmbeddedStore;
use tokio_util::sync::CancellationToken;

/// Change of another client after the write whose answer is lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Other {
    None,
    Updates,
    Deletes,
    Recreates,
}

/// One lost answer.
#[derive(Debug, Clone, Copy)]
struct Loss {
    /// True if the write happens.
    happens: bool,
    other: Other,
}

/// A store that loses the answer of one write.
#[derive(Debug)]
struct LossyStore {
    store: EmbeddedStore,
    loss: Mutex<Option<Loss>>,
}

impl LossyStore {
    /// The loss of a write that the store would carry out. A write from a stale cache is refused, as it is anywhere.
    async fn next_loss(&self, key: &Key, expected: Revision) -> Option<Loss> {
        let found = self.store.get(key).await.unwrap().map_or(Revision::NONE, |entry| entry.modified);
        (found == expected).then(|| self.loss.lock().unwrap().take()).flatten()
    }

    async fn lose(
        &self,
        key: &Key,
        loss: Loss,
        write: impl Future<Output = StoreResult<Revision>>,
    ) -> StoreError {
        if loss.happens {
            write.await.unwrap();
        }
        self.write_as_other(key, loss.other).await;
        StoreError::Unknown { operation: "write", key: key.clone(), source: "the connection was lost".into() }
    }

    async fn write_as_other(&self, key: &Key, other: Other) {
        let found = self.store.get(key).await.unwrap();
        let json = |entry: &Entry| serde_json::from_slice::<Value>(&entry.value).unwrap();
        let bytes = |object: &Value| Bytes::from(object.to_string());
        match (other, found) {
            (Other::None, _) | (_, None) => {}
            (Other::Updates, Some(entry)) => {
                let mut object = json(&entry);
                object["spec"]["note"] = json!("other");
                self.store.update(key, entry.modified, bytes(&object)).await.unwrap();
            }
            (Other::Deletes, Some(entry)) => {
                self.store.delete(key, entry.modified).await.unwrap();
            }
            (Other::Recreates, Some(entry)) => {
                self.store.delete(key, entry.modified).await.unwrap();
                let mut object = json(&entry);
                object["metadata"]["uid"] = json!("other");
                object["spec"] = json!({"note": "other"});
                object.as_object_mut().unwrap().remove("status");
                self.store.create(key, bytes(&object)).await.unwrap();
            }
        }
    }
}

#[async_trait]
impl Store for LossyStore {
    async fn create_while(
        &self,
        key: &Key,
        value: Bytes,
        unchanged: Option<&Unchanged>,
    ) -> StoreResult<Revision> {
        let write = self.store.create_while(key, value, unchanged);
        match self.next_loss(key, Revision::NONE).await {
            Some(loss) => Err(self.lose(key, loss, write).await),
            None => write.await,
        }
    }

    async fn update(&self, key: &Key, expected: Revision, value: Bytes) -> StoreResult<Revision> {
        let write = self.store.update(key, expected, value);
        match self.next_loss(key, expected).await {
            Some(loss) => Err(self.lose(key, loss, write).await),
            None => write.await,
        }
    }

    async fn delete(&self, key: &Key, expected: Revision) -> StoreResult<Revision> {
        let write = self.store.delete(key, expected);
        match self.next_loss(key, expected).await {
            Some(loss) => Err(self.lose(key, loss, write).await),
            None => write.await,
        }
    }

    async fn get(&self, key: &Key) -> StoreResult<Option<Entry>> {
        self.store.get(key).await
    }

    async fn list(&self, range: &KeyRange, options: &ListOptions) -> StoreResult<Page> {
        self.store.list(range, options).await
    }

    async fn watch(&self, range: &KeyRange, from: Revision) -> StoreResult<WatchStream> {
        self.store.watch(range, from).await
    }

    async fn compact(&self, revision: Revision) -> StoreResult<()> {
        self.store.compact(revision).await
    }

    async fn current_revision(&self) -> StoreResult<Revision> {
        self.store.current_revision().await
    }
}

#[derive(Debug)]
struct AllowAll;

#[async_trait]
impl Permissions for AllowAll {
    async fn require(&self, _: Action<'_>) -> ApiResult<()> {
        Ok(())
    }

    fn caller(&self) -> Caller {
        Caller::default()
    }

    fn requested_name(&self) -> &str {
        ""
    }

    async fn uncovered(&self, _: &str, _: &[GrantedRule]) -> Uncovered {
        Uncovered::default()
    }
}

/// Objects in a store whose answers can be lost.
struct Lab {
    objects: ObjectStore,
    store: Arc<LossyStore>,
    _directory: tempfile::TempDir,
}

fn options() -> WriteOptions {
    WriteOptions { manager: "tester".to_owned(), ..WriteOptions::default() }
}

fn widget(name: &str) -> Value {
    json!({"apiVersion": "lab.example.io/v1", "kind": "Widget", "metadata": {"name": name},
        "spec": {"atomicList": ["a"], "replicas": 1}})
}

impl Lab {
    async fn open() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let store = EmbeddedStore::open(&directory.path().join("store")).unwrap();
        let store = Arc::new(LossyStore { store, loss: Mutex::default() });
        let objects = ObjectStore::open(
            Arc::new(Registry::new(tests_widget::resources().unwrap())),
            store.clone(),
            Arc::new(Encryption::default()),
            Arc::new(OwnNamespaces),
            &apiserver_executor::Supervisor::default(),
            CancellationToken::new(),
        );
        while !objects.is_ready() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        Self { objects, store, _directory: directory }
    }

    fn kind(&self) -> Kind<'_> {
        self.objects.kind("lab.example.io", "v1", "widgets").unwrap()
    }

    async fn create(&self, name: &str) -> ApiResult<Written> {
        self.objects.create(self.kind(), "default", widget(name), options()).await
    }

    /// The object as it is stored, with its revision.
    async fn stored(&self, name: &str) -> Value {
        let key = Key::new(self.kind().resource.key("default", name)).unwrap();
        let Some(entry) = self.store.get(&key).await.unwrap() else { return Value::Null };
        let mut object: Value = serde_json::from_slice(&entry.value).unwrap();
        object["metadata"]["resourceVersion"] = json!(entry.modified.to_string());
        object
    }

    fn lose(&self, happens: bool, other: Other) {
        *self.store.loss.lock().unwrap() = Some(Loss { happens, other });
    }

    async fn json_patch(&self, name: &str, patch: Value, target: Target) -> ApiResult<Written> {
        let patch = Patch::json(patch, &[], FieldValidation::Warn);
        self.objects.patch(self.kind(), "default", name, &patch, target, options()).await
    }

    async fn apply(&self, name: &str, fields: Value) -> ApiResult<Written> {
        let configuration = Configuration { fields, force: true, duplicates: Vec::new() };
        let creation = Creation { namespace: "default", caller: Caller::default(), permissions: &AllowAll };
        let (kind, target) = (self.kind(), Target::Object);
        let applied = self.objects.apply(kind, name, &configuration, target, &options(), &creation).await?;
        Ok(applied.written)
    }

    /// Changes the object in one of the ways there are, each so that one more change would show.
    async fn change(&self, way: &str, name: &str) -> ApiResult<Written> {
        let append = json!([{"op": "add", "path": "/spec/atomicList/-", "value": "b"}]);
        match way {
            "update" => {
                let mut object = self.stored(name).await;
                object["spec"]["atomicList"] = json!(["a", "b"]);
                let again = || Ok(object.clone());
                let sent = Replacement { object: object.clone(), again: &again };
                self.objects.update(self.kind(), "default", name, sent, Target::Object, options()).await
            }
            "patch" => self.json_patch(name, append, Target::Object).await,
            "apply" => {
                let mut fields = widget(name);
                fields["spec"] = json!({"atomicList": ["a", "b"]});
                self.apply(name, fields).await
            }
            "status" => {
                let append = json!([{"op": "add", "path": "/status/conditions/-", "value": {"type": "b"}}]);
                self.json_patch(name, append, Target::Status).await
            }
            "scale" => {
                let scale = self.kind().resource.scale.clone().unwrap();
                let increment = |old: &Value| {
                    let mut new = old.clone();
                    let replicas = new["spec"]["replicas"].as_i64().unwrap();
                    new["spec"]["replicas"] = json!(replicas + 1);
                    Ok(new)
                };
                let how = (options(), Method::Patch);
                self.objects.scale(self.kind(), &scale, "default", name, how, increment).await
            }
            other => panic!("{other}"),
        }
    }

    /// Number of times that the change is in the stored object.
    async fn times(&self, way: &str, name: &str) -> i64 {
        let object = self.stored(name).await;
        let count = |items: &Value, wanted: Value| {
            let items = items.as_array().into_iter().flatten();
            i64::try_from(items.filter(|item| **item == wanted).count()).unwrap()
        };
        match way {
            "scale" => object["spec"]["replicas"].as_i64().unwrap() - 1,
            "status" => count(&object["status"]["conditions"], json!({"type": "b"})),
            _ => count(&object["spec"]["atomicList"], json!("b")),
        }
    }

    /// An object that any of the changes can be made to.
    async fn ready(&self, name: &str) {
        self.create(name).await.unwrap();
        let status = json!([{"op": "add", "path": "/status", "value": {"conditions": [{"type": "a"}]}}]);
        self.json_patch(name, status, Target::Status).await.unwrap();
    }
}

/// Every way to change an object.
const WAYS: [&str; 5] = ["update", "patch", "apply", "status", "scale"];

fn assert_unknown(result: &ApiResult<impl std::fmt::Debug>, case: &str) {
    let Err(ApiError { code, message, .. }) = result else { panic!("{case}: {result:?}") };
    assert_eq!(*code, 504, "{case}: {message}");
    assert!(message.contains("is unknown") && message.contains("read the object"), "{case}: {message}");
    assert_eq!(result.as_ref().unwrap_err().retry_after(), None, "{case}: clients would send it again");
}

#[tokio::test]
async fn a_change_is_made_once_if_no_other_client_writes() {
    let lab = Lab::open().await;
    for way in WAYS {
        for happens in [true, false] {
            let case = format!("{way}-{happens}");
            lab.ready(&case).await;
            lab.lose(happens, Other::None);
            let written = lab.change(way, &case).await.unwrap();
            assert_eq!(lab.times(way, &case).await, 1, "{case}");
            let stored = lab.stored(&case).await;
            let written = written.object.into_value().unwrap();
            assert_eq!(
                written["metadata"]["resourceVersion"], stored["metadata"]["resourceVersion"],
                "{case}"
            );
        }
    }
}

#[tokio::test]
async fn a_change_is_never_made_twice_whatever_another_client_writes_after_it() {
    let lab = Lab::open().await;
    for way in WAYS {
        for (happens, other, expected) in [
            (true, Other::Updates, 1),
            (false, Other::Updates, 0),
            (true, Other::Deletes, 0),
            (false, Other::Deletes, 0),
        ] {
            let case = format!("{way}-{happens}-{other:?}").to_lowercase();
            lab.ready(&case).await;
            lab.lose(happens, other);
            assert_unknown(&lab.change(way, &case).await, &case);
            match other {
                Other::Deletes => assert_eq!(lab.stored(&case).await, Value::Null, "{case}"),
                _ => {
                    assert_eq!(lab.times(way, &case).await, expected, "{case}");
                    assert_eq!(lab.stored(&case).await["spec"]["note"], json!("other"), "{case}");
                }
            }
        }
    }
}

#[tokio::test]
async fn a_create_succeeds_only_if_its_own_object_is_found() {
    let lab = Lab::open().await;
    for (happens, other, is_created) in [
        (true, Other::None, true),
        (true, Other::Updates, true),
        (false, Other::None, false),
        (true, Other::Deletes, false),
        (true, Other::Recreates, false),
    ] {
        for applied in [false, true] {
            let case = format!("{happens}-{other:?}-{applied}").to_lowercase();
            lab.lose(happens, other);
            let created = match applied {
                false => lab.create(&case).await,
                true => lab.apply(&case, widget(&case)).await,
            };
            let stored = lab.stored(&case).await;
            if is_created {
                let object = created.unwrap().object.into_value().unwrap();
                assert_eq!(object["metadata"]["uid"], stored["metadata"]["uid"], "{case}");
                continue;
            }
            assert_unknown(&created, &case);
            let uid = if other == Other::Recreates { json!("other") } else { Value::Null };
            assert_eq!(stored["metadata"]["uid"], uid, "{case}");
        }
    }
}

#[tokio::test]
async fn a_generated_name_is_not_generated_again_after_an_unknown_outcome() {
    let lab = Lab::open().await;
    lab.lose(true, Other::Recreates);
    let mut object = widget("");
    object["metadata"] = json!({"generateName": "a-"});
    assert_unknown(&lab.objects.create(lab.kind(), "default", object, options()).await, "generateName");
    let range = KeyRange::prefix(&lab.kind().resource.prefix());
    let page = lab.store.list(&range, &ListOptions::default()).await.unwrap();
    assert_eq!(page.entries.len(), 1);
}

#[tokio::test]
async fn a_deletion_deletes_the_object_that_was_there_and_no_other() {
    let lab = Lab::open().await;
    for (happens, other) in [
        (true, Other::None),
        (false, Other::None),
        (false, Other::Updates),
        (false, Other::Deletes),
        (false, Other::Recreates),
    ] {
        let case = format!("{happens}-{other:?}").to_lowercase();
        let uid = lab.create(&case).await.unwrap().object.into_value().unwrap()["metadata"]["uid"].clone();
        lab.lose(happens, other);
        let deleted =
            lab.objects.delete(lab.kind(), "default", &case, &DeleteOptions::default(), None).await.unwrap();
        let Deletion::Gone(object) = deleted else { panic!("{case}: {deleted:?}") };
        assert_eq!(object["metadata"]["uid"], uid, "{case}");
        let left = if other == Other::Recreates { json!("other") } else { Value::Null };
        assert_eq!(lab.stored(&case).await["metadata"]["uid"], left, "{case}");
    }
}

#[tokio::test]
async fn a_deletion_that_waits_for_finalizers_is_recorded_once() {
    let lab = Lab::open().await;
    for (happens, other) in
        [(true, Other::None), (false, Other::None), (true, Other::Updates), (true, Other::Deletes)]
    {
        let case = format!("{happens}-{other:?}").to_lowercase();
        lab.create(&case).await.unwrap();
        lab.lose(happens, other);
        let orphan = DeleteOptions { propagation: Some(Propagation::Orphan), ..DeleteOptions::default() };
        let deleted = lab.objects.delete(lab.kind(), "default", &case, &orphan, None).await;
        let stored = lab.stored(&case).await;
        if other == Other::None {
            assert!(matches!(deleted, Ok(Deletion::Pending(_))), "{case}: {deleted:?}");
            assert_eq!(stored["metadata"]["finalizers"], json!(["orphan"]), "{case}");
            assert_eq!(stored["metadata"]["generation"], json!(2), "{case}");
        } else {
            assert_unknown(&deleted, &case);
        }
    }
}

#[tokio::test]
async fn the_last_finalizer_is_removed_once() {
    let lab = Lab::open().await;
    for (happens, other) in
        [(true, Other::None), (false, Other::None), (false, Other::Updates), (false, Other::Recreates)]
    {
        let case = format!("{happens}-{other:?}").to_lowercase();
        lab.create(&case).await.unwrap();
        let orphan = DeleteOptions { propagation: Some(Propagation::Orphan), ..DeleteOptions::default() };
        lab.objects.delete(lab.kind(), "default", &case, &orphan, None).await.unwrap();
        lab.lose(happens, other);
        let removal = json!([{"op": "remove", "path": "/metadata/finalizers"}]);
        lab.json_patch(&case, removal, Target::Object).await.unwrap();
        let left = if other == Other::Recreates { json!("other") } else { Value::Null };
        assert_eq!(lab.stored(&case).await["metadata"]["uid"], left, "{case}");
    }
}
