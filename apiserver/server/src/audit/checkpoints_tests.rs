//! Tests of the checkpoints in the store.

use storage_embedded::EmbeddedStore;

use super::*;

fn open(directory: &tempfile::TempDir) -> Arc<dyn Store> {
    Arc::new(EmbeddedStore::open(&directory.path().join("store.redb")).unwrap())
}

fn link(number: u64) -> ChainLink {
    ChainLink { number, code: [5; 32] }
}

async fn read(store: &Arc<dyn Store>, key: &AuditKey, replica: &str) -> StoredLinks {
    let mut stored = StoredLinks::default();
    stored.read(store.as_ref(), key, replica, 0).await.unwrap();
    stored
}

fn numbers(stored: &StoredLinks) -> Vec<u64> {
    stored.links.keys().copied().collect()
}

#[tokio::test]
async fn am_12_a_checkpoint_is_stored_once_and_counts_only_with_its_signature_at_its_key() {
    let directory = tempfile::tempdir().unwrap();
    let (store, key) = (open(&directory), AuditKey::new(&[1; 32]));
    let checkpoints = Checkpoints::new(Arc::clone(&store), key.clone());
    checkpoints.store_newest().await.unwrap();
    assert_eq!(replicas(store.as_ref(), &key).await.unwrap(), Vec::<String>::new());
    for number in [7, 7, 1_000] {
        checkpoints.sink().offer(link(number));
        checkpoints.store_newest().await.unwrap();
    }
    let replica = checkpoints.replica.to_string();
    assert_eq!(replicas(store.as_ref(), &key).await.unwrap(), [replica.as_str()]);
    let stored = read(&store, &key, &replica).await;
    assert_eq!((numbers(&stored), stored.forged.len()), (vec![7, 1_000], 0));
    assert_eq!(stored.newest(), Some(link(1_000)));
    assert_eq!(checkpoints.newest_after(7).await, Some(link(1_000)));
    assert_eq!(checkpoints.newest_after(1_000).await, None);
    let other = AuditKey::new(&[2; 32]);
    assert_eq!(replicas(store.as_ref(), &other).await.unwrap(), Vec::<String>::new());
    let stored = read(&store, &other, &replica).await;
    assert_eq!((stored.links.len(), stored.forged.len()), (0, 2));
    // A copy at the key of another line, and at that of another replica.
    let copy = store.get(&key_of(&replica, 7).unwrap()).await.unwrap().unwrap().value;
    store.create(&key_of(&replica, 8).unwrap(), copy.clone()).await.unwrap();
    store.create(&key_of("b_00000000", 7).unwrap(), copy).await.unwrap();
    let stored = read(&store, &key, &replica).await;
    assert_eq!(numbers(&stored), [7, 1_000]);
    assert_eq!(stored.forged, [format!("/capstan/audit/{replica}/00000000000000000008")]);
    assert_eq!(read(&store, &key, "b_00000000").await.forged.len(), 1);
}

#[tokio::test]
async fn am_12_a_checkpoint_of_other_lines_is_not_replaced_and_old_ones_are_removed() {
    let directory = tempfile::tempdir().unwrap();
    let (store, key) = (open(&directory), AuditKey::new(&[1; 32]));
    let checkpoints = Checkpoints::new(Arc::clone(&store), key.clone());
    for number in 1..=5 {
        checkpoints.sink().offer(link(number));
        checkpoints.store_newest().await.unwrap();
    }
    // After a restart, the file had fewer lines.
    let later = Checkpoints::new(Arc::clone(&store), key.clone());
    later.sink().offer(ChainLink { number: 4, code: [6; 32] });
    later.store_newest().await.unwrap();
    let stored = read(&store, &key, &later.replica).await;
    assert_eq!(stored.links[&4].0, link(4));
    later.prune(2).await.unwrap();
    assert_eq!(numbers(&read(&store, &key, &later.replica).await), [4, 5]);
}

#[tokio::test]
async fn am_12_nothing_is_stored_before_the_store_has_its_authorities_and_the_last_lines_are() {
    let directory = tempfile::tempdir().unwrap();
    let (store, key) = (open(&directory), AuditKey::new(&[1; 32]));
    let checkpoints = Checkpoints::new(Arc::clone(&store), key.clone());
    let replica = checkpoints.replica.to_string();
    checkpoints.sink().offer(link(1));
    checkpoints.finish().await;
    assert_eq!(numbers(&read(&store, &key, &replica).await), Vec::<u64>::new());
    let (shutdown, (begin, begun)) = (CancellationToken::new(), tokio::sync::oneshot::channel());
    let begun = async move {
        let _: Result<(), _> = begun.await;
    };
    let following = checkpoints.clone().follow(begun, shutdown.clone());
    let observing = async {
        begin.send(()).unwrap();
        while numbers(&read(&store, &key, &replica).await) != [1] {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        shutdown.cancel();
    };
    tokio::join!(following, observing);
    checkpoints.sink().offer(link(2));
    checkpoints.finish().await;
    assert_eq!(numbers(&read(&store, &key, &replica).await), [1, 2]);
}
