//! Forgetting old history, so that the store does not grow for ever.
//!
//! Servers on one store share a mark: a key whose value is the store's revision when it was
//! written. Whoever has seen the mark unchanged for one interval tries to write it anew, guarded by
//! what it saw; one succeeds, and forgets the history before the old mark, which is then at least
//! one interval old. So history is forgotten once per interval however many servers there are, and
//! nobody's clock is compared with another's.

use std::sync::Arc;
use std::time::Duration;

use apiserver_machinery::resource::ROOT;
use bytes::Bytes;
use storage_contract::{Entry, Key, Revision, Store, StoreError, StoreResult};
use tokio_util::sync::CancellationToken;

/// History reaches back at least this long and usually at most twice as long, which is what clients
/// are promised: a watch or a page can go on after five minutes of silence.
const EVERY: Duration = Duration::from_secs(5 * 60);

/// Where the mark is: below the prefix that is followed, so that writing it tells the watch cache
/// how far it is even when nobody else writes.
const MARK: &str = "compaction";

/// Takes part in the forgetting until `shutdown`.
pub(crate) async fn run(store: Arc<dyn Store>, shutdown: CancellationToken) {
    let Ok(key) = Key::new(format!("{ROOT}{MARK}")) else { return };
    let mut seen = None;
    loop {
        seen = match turn(store.as_ref(), &key, seen).await {
            Ok(mark) => mark,
            Err(error) => {
                tracing::warn!(%error, "the store was not compacted; trying again later");
                None
            }
        };
        tokio::select! {
            () = shutdown.cancelled() => return,
            () = tokio::time::sleep(EVERY) => {}
        }
    }
}

/// One turn: forgets what is before the mark if it is still the one `seen` an interval ago.
/// Answers the mark as it is now.
async fn turn(store: &dyn Store, key: &Key, seen: Option<Entry>) -> StoreResult<Option<Entry>> {
    let value = Bytes::from(store.current_revision().await?.to_string());
    let Some(old) = seen else {
        return match store.get(key).await? {
            Some(mark) => Ok(Some(mark)),
            None => written(store.create(key, value.clone()).await, key, value),
        };
    };
    let result = store.update(key, old.modified, value.clone()).await;
    if result.is_ok() {
        forget(store, &old).await?;
    }
    match written(result, key, value)? {
        Some(mark) => Ok(Some(mark)),
        None => store.get(key).await,
    }
}

/// The mark that was written; `None` when somebody else was faster.
fn written(result: StoreResult<Revision>, key: &Key, value: Bytes) -> StoreResult<Option<Entry>> {
    match result {
        Ok(modified) => Ok(Some(Entry { key: key.clone(), value, modified, created: modified })),
        Err(StoreError::Exists { .. } | StoreError::Conflict { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

async fn forget(store: &dyn Store, mark: &Entry) -> StoreResult<()> {
    let number = std::str::from_utf8(&mark.value).ok().and_then(|text| text.parse().ok());
    let Some(revision) = number.map(Revision::new) else {
        tracing::warn!(key = %mark.key, "the mark of the last compaction was not a revision; it is now");
        return Ok(());
    };
    store.compact(revision).await?;
    tracing::debug!(%revision, "history before this is forgotten");
    Ok(())
}

#[cfg(test)]
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

    /// Time is paused and runs on when nobody has anything to do, but the store works on threads of
    /// its own; this gives it the time to.
    async fn pass(time: Duration) {
        tokio::time::sleep(time).await;
        for _ in 0..50 {
            tokio::task::yield_now().await;
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn history_is_kept_for_one_interval_and_forgotten_once_after_two() {
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
        pass(EVERY / 2).await;
        assert!(store.list(&range, &then).await.is_ok());
        pass(EVERY * 2).await;
        let answer = store.list(&range, &then).await;
        assert!(matches!(answer, Err(StoreError::Compacted { .. })), "{answer:?}");
        let before = store.1.load(Ordering::Relaxed);
        pass(EVERY * 10).await;
        let count = store.1.load(Ordering::Relaxed) - before;
        assert!((1..=11).contains(&count), "three servers compacted {count} times in ten intervals");
        shutdown.cancel();
        for server in servers {
            server.await.unwrap();
        }
    }

    #[tokio::test]
    async fn whoever_is_late_leaves_the_mark_and_the_history_alone() {
        let directory = tempfile::tempdir().unwrap();
        let embedded = EmbeddedStore::open(&directory.path().join("s")).unwrap();
        let store = Counting(embedded, AtomicUsize::new(0));
        let key = Key::new("/mark").unwrap();
        let first = turn(&store, &key, None).await.unwrap();
        let also = turn(&store, &key, None).await.unwrap();
        assert_eq!(first.as_ref().map(|mark| mark.modified), also.as_ref().map(|mark| mark.modified));
        let second = turn(&store, &key, first).await.unwrap().unwrap();
        assert_eq!(store.1.load(Ordering::Relaxed), 1);
        // The other saw the first mark, and finds the second.
        let found = turn(&store, &key, also).await.unwrap().unwrap();
        assert_eq!((found.modified, store.1.load(Ordering::Relaxed)), (second.modified, 1));
        // A mark that is none is replaced, and nothing is forgotten for its sake.
        let broken = store.update(&key, found.modified, Bytes::from("x")).await.unwrap();
        let seen = store.get(&key).await.unwrap();
        let mended = turn(&store, &key, seen).await.unwrap().unwrap();
        assert!(mended.modified > broken);
        assert_eq!(store.1.load(Ordering::Relaxed), 1);
    }
}
