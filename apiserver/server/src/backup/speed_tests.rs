//! Measured backup of many objects, of a store to which others write.
//!
//! By default, the program is not optimized and shares the machine with other tests. `CAPSTAN_BACKUP_OBJECTS=100000` with
//! `cargo test --release` is the measurement that counts. `cargo xtask bench --only backups` measures running servers.

use std::sync::Arc;
use std::time::{Duration, Instant};

use apiserver_executor::spawn_joined;
use bytes::Bytes;
use serde_json::json;
use storage_backup::copy_in;
use storage_contract::{Entry, Key, Revision, Store};
use storage_embedded::EmbeddedStore;
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;

use super::location::Source;
use super::{background, file, key_file};
use crate::config::ServerConfiguration;

/// Variable with the number of objects. With it, the bound is that of an optimized program.
const VARIABLE: &str = "CAPSTAN_BACKUP_OBJECTS";

/// Number of objects without the variable, and the longest time for them. The thread of a backup has a low priority, and gets
/// little time while other tests keep the processors busy.
const OBJECTS: (u64, Duration) = (10_000, Duration::from_secs(180));

/// Longest time for up to 100,000 objects.
const BOUND: Duration = Duration::from_secs(20);

fn key(number: u64) -> Key {
    Key::new(format!("/capstan/cluster.x-k8s.io/machines/team/m{number:06}")).unwrap()
}

/// Returns a value that is as long as a Machine, and compresses as well.
fn value(number: u64) -> Bytes {
    let condition = |kind: &str| {
        json!({"type": kind, "status": "True", "reason": "Available", "observedGeneration": number,
            "lastTransitionTime": "2026-11-02T00:30:00Z", "message": ""})
    };
    let conditions = ["Ready", "Available", "InfrastructureReady", "NodeReady", "UpToDate"].map(condition);
    let object = json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Machine",
        "metadata": {"name": format!("m{number}"), "namespace": "team", "uid": uuid::Uuid::new_v4().to_string(),
            "labels": {"cluster.x-k8s.io/cluster-name": format!("c{}", number / 10)}},
        "spec": {"clusterName": format!("c{}", number / 10), "version": "v1.33.1",
            "providerID": format!("openstack:///{}", uuid::Uuid::new_v4())},
        "status": {"phase": "Running", "conditions": conditions}});
    Bytes::from(object.to_string())
}

async fn fill(store: &dyn Store, objects: u64) {
    let mut numbers = 0..objects;
    let next = async || {
        let entry = |number| Entry {
            key: key(number),
            value: value(number),
            modified: Revision::NONE,
            created: Revision::NONE,
        };
        Ok(numbers.next().map(entry))
    };
    assert_eq!(copy_in(store, next).await.unwrap().written, objects);
}

/// Writes to the last object until the end. Returns the number of writes.
async fn write(store: Arc<dyn Store>, last: Key, end: CancellationToken) -> u64 {
    let mut modified = store.get(&last).await.unwrap().unwrap().modified;
    let mut count = 0;
    while !end.is_cancelled() {
        modified = store.update(&last, modified, value(count)).await.unwrap();
        count += 1;
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    count
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bk_01_many_objects_are_backed_up_at_one_revision_in_a_bounded_time_while_others_write() {
    let wanted = std::env::var(VARIABLE).ok().and_then(|text| text.parse().ok());
    let (objects, bound) = wanted.map_or(OBJECTS, |objects| (objects, BOUND));
    let directory = tempfile::tempdir().unwrap();
    let (path, key_path) = (directory.path().join("backup"), directory.path().join("backup.key"));
    let store: Arc<dyn Store> = Arc::new(EmbeddedStore::open(&directory.path().join("store.redb")).unwrap());
    fill(store.as_ref(), objects).await;
    key_file::create(&key_path).unwrap();
    let backup_key = key_file::read(&key_path).unwrap();

    let end = CancellationToken::new();
    let writing = spawn_joined(write(Arc::clone(&store), key(objects - 1), end.clone()));
    let (begun, handle) = (Instant::now(), Handle::current());
    let (target, sealing) = (path.clone(), backup_key.clone());
    let taking = background::run(move || {
        handle.block_on(async {
            let configuration = ServerConfiguration::default();
            let (store, key) = (store.as_ref(), &sealing);
            let source = Source { store, configuration: &configuration, key, encryption: None, keys: None };
            file::take(&source, &target, &|| false).await
        })
    });
    let taken = taking.await.unwrap().unwrap();
    let elapsed = begun.elapsed();
    end.cancel();
    let writes = writing.await.unwrap();
    eprintln!("{objects} objects, {} bytes, in {elapsed:?}, beside {writes} writes", taken.size);

    assert!(elapsed <= bound, "{elapsed:?} for {objects} objects; at most {bound:?}");
    assert!(taken.summary.entries == objects && taken.values.count == objects && writes > 0);
    let revision = taken.header.revision;
    let check = |entry: &Entry| assert!(entry.created <= entry.modified && entry.modified <= revision);
    let (_, summary) = file::open(&path, &backup_key).unwrap().verify(check).unwrap();
    assert_eq!(summary, taken.summary);
}
