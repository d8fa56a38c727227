//! Periodic compaction of the store's history, so that the store does not grow without limit.
//!
//! All servers on one store share a compaction record: a key whose value is the store's revision when the record was
//! written. A server that has observed the same record for one interval tries to replace it, guarded by the record's
//! revision. One server succeeds. It compacts the history before the old record, which is then at least one interval
//! old. So the store is compacted once per interval, however many servers there are. No server compares its clock with
//! the clock of another server.

use std::sync::Arc;
use std::time::Duration;

use apiserver_machinery::resource::ROOT;
use bytes::Bytes;
use storage_contract::{Entry, Key, Revision, Store, StoreError, StoreResult};
use tokio_util::sync::CancellationToken;

/// Interval between compactions. History reaches back at least this long, and usually at most twice as long. Clients
/// are promised that a watch or a paged list can continue after five minutes of silence.
const INTERVAL: Duration = Duration::from_secs(5 * 60);

/// Name of the compaction record. Its key is below the prefix that the watch cache follows, so a write to it reports
/// the store's progress to the watch cache even if there are no other writes.
const RECORD: &str = "compaction";

/// Takes part in the compaction until `shutdown`.
pub(crate) async fn run(store: Arc<dyn Store>, shutdown: CancellationToken) {
    let Ok(key) = Key::new(format!("{ROOT}{RECORD}")) else { return };
    let (mut observed, mut is_refused) = (None, false);
    loop {
        observed = match iteration(store.as_ref(), &key, observed).await {
            Ok(record) => record,
            // A role for the store's keys alone does not permit it. That stays so until a person changes the role.
            Err(StoreError::Refused { reason, .. }) => {
                if !std::mem::replace(&mut is_refused, true) {
                    tracing::warn!(
                        reason,
                        "the store refuses compaction. Let etcd compact its history itself: set its \
                         --auto-compaction-retention to at least 10m"
                    );
                }
                None
            }
            Err(error) => {
                tracing::warn!(%error, "compaction failed; retrying after the interval");
                None
            }
        };
        tokio::select! {
            () = shutdown.cancelled() => return,
            () = tokio::time::sleep(INTERVAL) => {}
        }
    }
}

/// Runs one iteration: compacts the history before the record if the store still has the record that was `observed` an
/// interval ago. Returns the record that the store has now.
async fn iteration(store: &dyn Store, key: &Key, observed: Option<Entry>) -> StoreResult<Option<Entry>> {
    let value = Bytes::from(store.current_revision().await?.to_string());
    let Some(old) = observed else {
        return match store.get(key).await? {
            Some(record) => Ok(Some(record)),
            None => written(store.create(key, value.clone()).await, key, value),
        };
    };
    let result = store.update(key, old.modified, value.clone()).await;
    if result.is_ok() {
        compact_before(store, &old).await?;
    }
    match written(result, key, value)? {
        Some(record) => Ok(Some(record)),
        None => store.get(key).await,
    }
}

/// Returns the record that this server wrote, or `None` if another server wrote first.
fn written(result: StoreResult<Revision>, key: &Key, value: Bytes) -> StoreResult<Option<Entry>> {
    match result {
        Ok(modified) => Ok(Some(Entry { key: key.clone(), value, modified, created: modified })),
        Err(StoreError::Exists { .. } | StoreError::Conflict { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Compacts the history before the revision in a record.
async fn compact_before(store: &dyn Store, record: &Entry) -> StoreResult<()> {
    let number = std::str::from_utf8(&record.value).ok().and_then(|text| text.parse().ok());
    let Some(revision) = number.map(Revision::new) else {
        tracing::warn!(key = %record.key, "compaction record held no revision; replaced it");
        return Ok(());
    };
    store.compact(revision).await?;
    tracing::debug!(%revision, "store compacted");
    Ok(())
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "a test awaits its tasks, or ends with them")]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use async_trait::async_trait;
    use storage_contract::{KeyRange, ListOptions, Page, Unchanged, WatchStream};
    use storage_embedded::EmbeddedStore;

    use super::*;

    /// A store that counts how often it is compacted.
    #[derive(Debug)]
    struct Counting(EmbeddedStore, AtomicUsize);

    #[async_trait]
    impl Store for Counting {
        async fn create_while(
            &self,
            key: &Key,
            value: Bytes,
            unchanged: Option<&Unchanged>,
        ) -> StoreResult<Revision> {
            self.0.create_while(key, value, unchanged).await
        }
        async fn update(&self, key: &Key, expected: Revision, value: Bytes) -> StoreResult<Revision> {
            self.0.update(key, expected, value).await
        }
        async fn delete(&self, key: &Key, expected: Revision) -> StoreResult<Revision> {
            self.0.delete(key, expected).await
        }
        async fn get(&self, key: &Key) -> StoreResult<Option<Entry>> {
            self.0.get(key).await
        }
        async fn list(&self, range: &KeyRange, options: &ListOptions) -> StoreResult<Page> {
            self.0.list(range, options).await
        }
        async fn watch(&self, range: &KeyRange, from: Revision) -> StoreResult<WatchStream> {
            self.0.watch(range, from).await
        }
        async fn compact(&self, revision: Revision) -> StoreResult<()> {
            self.1.fetch_add(1, Ordering::Relaxed);
            self.0.compact(revision).await
        }
        async fn current_revision(&self) -> StoreResult<Revision> {
            self.0.current_revision().await
        }
    }

    /// Advances the paused clock by `time`, and then waits for the store. The store works on threads of its own, for
    /// which the paused clock does not wait.
    async fn pass(time: Duration) {
        tokio::time::sleep(time).await;
        for _ in 0..50 {
            tokio::task::yield_now().await;
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn history_is_kept_for_one_interval_and_compacted_once_after_two() {
        let directory = tempfile::tempdir().unwrap();
        let embedded = EmbeddedStore::open(&directory.path().join("s")).unwrap();
        let store = Arc::new(Counting(embedded, AtomicUsize::new(0)));
        let shutdown = CancellationToken::new();
        let key = Key::new("/a").unwrap();
        let first = store.create(&key, Bytes::from("1")).await.unwrap();
        store.update(&key, first, Bytes::from("2")).await.unwrap();
        let servers: Vec<_> = (0..3).map(|_| tokio::spawn(run(store.clone(), shutdown.clone()))).collect();
        let then = ListOptions { limit: 0, revision: Some(first) };
        let range = KeyRange::prefix("/");
        pass(INTERVAL / 2).await;
        assert!(store.list(&range, &then).await.is_ok());
        pass(INTERVAL * 2).await;
        let answer = store.list(&range, &then).await;
        assert!(matches!(answer, Err(StoreError::Compacted { .. })), "{answer:?}");
        let before = store.1.load(Ordering::Relaxed);
        pass(INTERVAL * 10).await;
        let count = store.1.load(Ordering::Relaxed) - before;
        assert!((1..=11).contains(&count), "three servers compacted {count} times in ten intervals");
        shutdown.cancel();
        for server in servers {
            server.await.unwrap();
        }
    }

    #[tokio::test]
    async fn a_server_with_an_outdated_record_neither_updates_it_nor_compacts() {
        let directory = tempfile::tempdir().unwrap();
        let embedded = EmbeddedStore::open(&directory.path().join("s")).unwrap();
        let store = Counting(embedded, AtomicUsize::new(0));
        let key = Key::new("/record").unwrap();
        let first = iteration(&store, &key, None).await.unwrap();
        let also = iteration(&store, &key, None).await.unwrap();
        assert_eq!(first.as_ref().map(|record| record.modified), also.as_ref().map(|record| record.modified));
        let second = iteration(&store, &key, first).await.unwrap().unwrap();
        assert_eq!(store.1.load(Ordering::Relaxed), 1);
        // The other server observed the first record, and finds the second.
        let found = iteration(&store, &key, also).await.unwrap().unwrap();
        assert_eq!((found.modified, store.1.load(Ordering::Relaxed)), (second.modified, 1));
        // A record without a revision is replaced, and nothing is compacted.
        let broken = store.update(&key, found.modified, Bytes::from("x")).await.unwrap();
        let observed = store.get(&key).await.unwrap();
        let repaired = iteration(&store, &key, observed).await.unwrap().unwrap();
        assert!(repaired.modified > broken);
        assert_eq!(store.1.load(Ordering::Relaxed), 1);
    }
}
