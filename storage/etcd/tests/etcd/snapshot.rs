//! Snapshots that `etcdutl snapshot restore` puts in place of newer data, with their revisions or with larger ones.

use std::sync::Arc;

use bytes::Bytes;
use storage_contract::{KeyRange, ListOptions, Revision, Store, StoreError};
use storage_etcd::{EtcdConfiguration, EtcdStore, ReplacementNote, Seen};

use crate::history::{assert_new_history, connect, create, end_of, key, settled};
use crate::server::{Release, Server};

/// Flags with which all revisions after the restore are larger than those before it.
const LARGER: [&str; 2] = ["--bump-revision=1000000000", "--mark-compacted"];

/// Flag with which the restored cluster has another id.
const OTHER_CLUSTER: &str = "--initial-cluster-token=another";

/// Store after a restore of a snapshot.
struct Restored {
    server: Server,
    store: EtcdStore,
    snapshot: tempfile::NamedTempFile,
    /// Revision of the key `kept`, which the snapshot has.
    kept: Revision,
    /// State before the restore. The key `lost` is the newest one, and is not in the snapshot.
    before: Seen,
    /// Error with which a watch ended.
    error: StoreError,
}

async fn restored(flags: &[&str]) -> Restored {
    let server = Server::start(Release::Current);
    let store = connect(&server, None).await;
    let kept = create(&store, "kept").await;
    let snapshot = server.snapshot().await;
    for index in 0..20 {
        create(&store, &format!("more{index}")).await;
    }
    let newest = create(&store, "lost").await;
    let before = store.seen();
    assert_eq!(before.revision, newest);
    let mut watch = store.watch(&KeyRange::prefix("/capstan/"), newest.next()).await.unwrap();
    server.restore_snapshot(snapshot.path(), flags);
    let error = end_of(&mut watch).await;
    settled(&store).await;
    Restored { server, store, snapshot, kept, before, error }
}

/// Restores the same snapshot again while no store is open, and asserts that the next one notices it.
async fn restored_again_between_two_runs(restored: Restored, flags: &[&str]) {
    let Restored { server, store, snapshot, .. } = restored;
    let seen = store.seen();
    drop(store);
    server.restore_snapshot(snapshot.path(), flags);
    let store = connect(&server, Some(seen.clone())).await;
    assert!(settled(&store).await > seen.revision, "{flags:?}");
    assert_ne!(store.seen().incarnation, seen.incarnation, "{flags:?}");
    assert!(create(&store, "again").await > seen.revision, "{flags:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn df_09_a_snapshot_with_its_revisions_or_another_cluster_id_begins_a_new_incarnation() {
    let cases: [(Vec<&str>, &str); 3] = [
        (Vec::new(), "etcd is at revision"),
        (vec![OTHER_CLUSTER], "the etcd cluster id changed"),
        (LARGER.into_iter().chain([OTHER_CLUSTER]).collect(), "the etcd cluster id changed"),
    ];
    for (flags, why) in cases {
        let restored = Box::pin(restored(&flags)).await;
        let Restored { server, store, kept, before, error, .. } = &restored;
        assert!(matches!(error, StoreError::Rewound { .. }), "{flags:?}: {error:?}");
        assert!(error.to_string().contains(why), "{flags:?}: {error}");
        assert_new_history(store, *kept, before.revision).await;
        // A server that was stopped during the restore.
        let other = connect(server, Some(before.clone())).await;
        assert_eq!(other.seen().incarnation, store.seen().incarnation, "{flags:?}");
        Box::pin(restored_again_between_two_runs(restored, &flags)).await;
    }
}

/// The incarnation goes on: all its revisions from now on are larger. The history before is compacted, so that each watch
/// ends, and its reader lists again.
#[tokio::test(flavor = "multi_thread")]
async fn df_09_a_snapshot_with_larger_revisions_continues_the_incarnation_and_ends_all_watches() {
    let restored = Box::pin(restored(&LARGER)).await;
    let Restored { server, store, kept, before, error, .. } = &restored;
    let newest = before.revision;
    assert!(matches!(error, StoreError::Compacted { .. }), "{error:?}");
    assert!(settled(store).await > newest);
    assert_eq!((store.history(), store.is_rewound()), (0, false));
    assert_eq!(store.seen().incarnation, before.incarnation);
    assert_eq!(store.get(&key("lost")).await.unwrap(), None);
    let entry = store.get(&key("kept")).await.unwrap().unwrap();
    assert_eq!((entry.modified, entry.created), (*kept, *kept), "etcd keeps them, too");

    let all = KeyRange::prefix("/capstan/");
    for at in [*kept, newest] {
        let list = store.list(&all, &ListOptions { limit: 0, revision: Some(at) }).await;
        assert!(matches!(list, Err(StoreError::Compacted { requested, .. }) if requested == at), "{list:?}");
        let mut watch = store.watch(&all, at.next()).await.unwrap();
        let error = end_of(&mut watch).await;
        assert!(matches!(error, StoreError::Compacted { .. }), "{error:?}");
    }
    let old = store.update(&key("kept"), newest, "2".into()).await;
    assert!(matches!(old, Err(StoreError::Conflict { .. })), "{old:?}");
    assert!(store.update(&key("kept"), entry.modified, "2".into()).await.unwrap() > newest);
    assert!(create(store, "lost").await > newest, "it can be created again");
    // A server that was stopped during the restore.
    let other = connect(server, Some(before.clone())).await;
    assert_eq!(other.seen().incarnation, before.incarnation);
    // The second time, its revisions are smaller than those that were seen.
    Box::pin(restored_again_between_two_runs(restored, &LARGER)).await;
}

/// Opens the store as a server with this name, which notes that the data were replaced.
async fn noting(server: &Server, name: &'static str) -> EtcdStore {
    let value = move || Bytes::from_static(name.as_bytes());
    let note = Some(ReplacementNote { key: key("note"), value: Arc::new(value) });
    let endpoints = vec![server.endpoint()];
    let configuration = EtcdConfiguration { endpoints, note, ..EtcdConfiguration::default() };
    EtcdStore::connect(configuration).await.unwrap()
}

async fn note(store: &EtcdStore) -> Option<Bytes> {
    settled(store).await;
    store.get(&key("note")).await.unwrap().map(|entry| entry.value)
}

#[tokio::test(flavor = "multi_thread")]
async fn hv_35_the_server_that_finds_older_data_notes_it_and_no_other_one_does() {
    let server = Server::start(Release::Current);
    connect(&server, None).await;
    let first = noting(&server, "first").await;
    let snapshot = server.snapshot().await;
    let newest = create(&first, "lost").await;
    assert_eq!(note(&first).await, None, "nothing was replaced");

    server.restore_snapshot(snapshot.path(), &[]);
    assert_eq!(note(&first).await, Some(Bytes::from_static(b"first")));
    let entry = first.get(&key("note")).await.unwrap().unwrap();
    assert!(entry.modified > newest, "{entry:?}");
    // It finds the new incarnation.
    let second = noting(&server, "second").await;
    assert_eq!(note(&second).await, Some(Bytes::from_static(b"first")));
}

/// Larger revisions contradict nothing that the server has seen.
#[tokio::test(flavor = "multi_thread")]
async fn hv_35_a_snapshot_with_larger_revisions_is_not_noted() {
    let server = Server::start(Release::Current);
    connect(&server, None).await;
    let store = noting(&server, "first").await;
    let snapshot = server.snapshot().await;
    let newest = create(&store, "lost").await;
    server.restore_snapshot(snapshot.path(), &LARGER);
    assert_eq!(note(&store).await, None);
    assert!(settled(&store).await > newest);
}
