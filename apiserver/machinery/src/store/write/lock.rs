//! Locks by name, for decisions that need more than one compare-and-swap: one holder at a time, across all servers on
//! the same store, for the duration of one request.
//!
//! A lock is a key that exists. A holder that dies leaves the key behind. A waiter takes the lock over when the key has
//! been unchanged for [`ABANDONED`] by the clock of the waiter's process. The holder, by its own clock, stops relying on its lock
//! long before that.

use std::time::{Duration, Instant};

use bytes::Bytes;
use storage_contract::{Key, Revision, StoreError};

use crate::lock::{Lock, Validity};
use crate::resource::ROOT;
use crate::status::{ApiError, ApiResult};
use crate::store::ObjectStore;

/// Time without a change after which a waiter takes a lock over: [`HELD`](crate::lock::HELD), plus time for a write in
/// flight to arrive.
const ABANDONED: Duration = Duration::from_secs(15);

/// Longest wait: long enough to take over an abandoned lock and to respond in time.
const PATIENCE: Duration = Duration::from_secs(20);

/// First interval between two reads of a lock: about as long as a lock is held. The intervals double.
const PAUSE: Duration = Duration::from_millis(20);

/// Longest interval between two reads of a lock. A free lock is found by one of a hundred reads at least.
const LONGEST_PAUSE: Duration = Duration::from_millis(160);

impl ObjectStore {
    /// Takes the lock of this name (a path of one or more segments) when it is free.
    ///
    /// # Errors
    /// 503 if it does not become free in time, or if storage does not answer.
    pub async fn lock(&self, name: &str) -> ApiResult<Lock> {
        let key =
            Key::new(format!("{ROOT}locks/{name}")).map_err(|error| ApiError::internal(error.to_string()))?;
        let begun = Instant::now();
        let busy = || ApiError::unavailable("others are changing the same thing, please try again");
        let turn = tokio::time::timeout(PATIENCE, self.queues.enter(name)).await;
        let (mut turn, mut pause) = (turn.map_err(|_| busy())?, PAUSE);
        while begun.elapsed() < PATIENCE {
            let taken = Instant::now();
            let holder = turn.filter(|(_, since)| since.elapsed() >= ABANDONED).map(|(holder, _)| holder);
            if let Some(revision) = self.try_lock(&key, holder).await? {
                *turn = None;
                return Ok(Lock { key, revision, validity: Validity(taken), _turn: turn });
            }
            let entry = self.store.get(&key).await.map_err(|error| ApiError::storage(&error))?;
            *turn = entry.map(|entry| match *turn {
                Some((revision, since)) if revision == entry.modified => (revision, since),
                _ => (entry.modified, Instant::now()),
            });
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
        Err(busy())
    }

    /// Tries once to take a free lock, or the one that a dead `holder` left. If the answer is lost, the lock has no
    /// holder, and is taken over like any other.
    async fn try_lock(&self, key: &Key, holder: Option<Revision>) -> ApiResult<Option<Revision>> {
        let answer = match holder {
            None => self.store.create(key, Bytes::new()).await,
            Some(holder) => self.store.update(key, holder, Bytes::new()).await,
        };
        match answer {
            Ok(revision) => Ok(Some(revision)),
            Err(StoreError::Exists { .. } | StoreError::Conflict { .. } | StoreError::Unknown { .. }) => {
                Ok(None)
            }
            Err(error) => Err(ApiError::storage(&error)),
        }
    }

    /// Releases a lock. If that fails, a waiter takes the lock over after a timeout.
    pub async fn unlock(&self, lock: Lock) {
        // A failure needs no action.
        let _ = self.store.delete(&lock.key, lock.revision).await;
    }
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "a test awaits its tasks, or ends with them")]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use async_trait::async_trait;
    use storage_contract::{Entry, KeyRange, ListOptions, Page, Store, StoreResult, Unchanged, WatchStream};
    use storage_embedded::EmbeddedStore;
    use tokio::task::JoinSet;
    use tokio_util::sync::CancellationToken;

    use super::*;
    use crate::encryption::Encryption;
    use crate::lock::HELD;
    use crate::resource::Registry;
    use crate::resource::tests::gadget;
    use crate::store::{OwnNamespaces, WriteOptions};

    /// A store that counts the creations that it is sent.
    #[derive(Debug)]
    struct Counted {
        store: EmbeddedStore,
        creates: AtomicUsize,
    }

    #[async_trait]
    impl Store for Counted {
        async fn create_while(
            &self,
            key: &Key,
            value: Bytes,
            unchanged: Option<&Unchanged>,
        ) -> StoreResult<Revision> {
            self.creates.fetch_add(1, Ordering::SeqCst);
            self.store.create_while(key, value, unchanged).await
        }

        async fn update(&self, key: &Key, expected: Revision, value: Bytes) -> StoreResult<Revision> {
            self.store.update(key, expected, value).await
        }

        async fn delete(&self, key: &Key, expected: Revision) -> StoreResult<Revision> {
            self.store.delete(key, expected).await
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

    /// Returns two servers on one store.
    fn servers(directory: &tempfile::TempDir) -> [Arc<ObjectStore>; 2] {
        let store: Arc<dyn Store> = Arc::new(EmbeddedStore::open(&directory.path().join("store")).unwrap());
        servers_on(&store)
    }

    fn servers_on(store: &Arc<dyn Store>) -> [Arc<ObjectStore>; 2] {
        [(), ()].map(|()| {
            Arc::new(ObjectStore::open(
                Arc::new(Registry::new(vec![gadget()])),
                Arc::clone(store),
                Arc::new(Encryption::default()),
                Arc::new(OwnNamespaces),
                &apiserver_executor::Supervisor::default(),
                CancellationToken::new(),
            ))
        })
    }

    #[tokio::test]
    async fn one_client_holds_the_lock_at_a_time_and_all_get_it() {
        let directory = tempfile::tempdir().unwrap();
        let servers = servers(&directory);
        let inside = Arc::new(AtomicUsize::new(0));
        let tasks: Vec<_> = (0..10)
            .map(|index| {
                let (objects, inside) = (Arc::clone(&servers[index % 2]), Arc::clone(&inside));
                tokio::spawn(async move {
                    let lock = objects.lock("machines/a").await.unwrap();
                    assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "another client has the lock");
                    tokio::task::yield_now().await;
                    inside.fetch_sub(1, Ordering::SeqCst);
                    assert_eq!(lock.check(), Ok(()));
                    objects.unlock(lock).await;
                })
            })
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
        let other = servers[0].lock("machines/b").await.unwrap();
        let same_time = servers[1].lock("machines/c").await.unwrap();
        servers[0].unlock(other).await;
        servers[1].unlock(same_time).await;
    }

    #[tokio::test]
    async fn the_lock_of_a_dead_holder_is_taken_over_once() {
        let directory = tempfile::tempdir().unwrap();
        let [objects, _] = servers(&directory);
        let dead = objects.lock("a").await.unwrap();
        assert_eq!(objects.try_lock(&dead.key, None).await, Ok(None));
        let next = objects.try_lock(&dead.key, Some(dead.revision)).await.unwrap();
        assert!(next.is_some());
        assert_eq!(objects.try_lock(&dead.key, Some(dead.revision)).await, Ok(None));
        let key = dead.key.clone();
        objects.unlock(dead).await;
        assert_eq!(objects.try_lock(&key, None).await, Ok(None), "only the holder gives it back");
    }

    #[tokio::test]
    async fn only_the_first_client_of_a_process_polls_and_with_growing_pauses() {
        let directory = tempfile::tempdir().unwrap();
        let store = EmbeddedStore::open(&directory.path().join("store")).unwrap();
        let store = Arc::new(Counted { store, creates: AtomicUsize::new(0) });
        let counted: Arc<dyn Store> = store.clone();
        let [objects, other] = servers_on(&counted);
        let held = other.lock("a").await.unwrap();
        let before = store.creates.load(Ordering::SeqCst);
        let mut waiting = JoinSet::new();
        for _ in 0..50 {
            let objects = Arc::clone(&objects);
            waiting.spawn(async move {
                let lock = objects.lock("a").await.unwrap();
                objects.unlock(lock).await;
            });
        }
        tokio::time::sleep(Duration::from_millis(400)).await;
        let creates = store.creates.load(Ordering::SeqCst) - before;
        other.unlock(held).await;
        waiting.join_all().await;
        assert!((2..15).contains(&creates), "{creates} calls of 50 clients in 0.4 s");
    }

    #[tokio::test]
    async fn the_next_client_of_a_process_knows_since_when_the_holder_has_been_silent() {
        let directory = tempfile::tempdir().unwrap();
        let [objects, other] = servers(&directory);
        let dead = other.lock("a").await.unwrap();
        let mut turn = objects.queues.enter("a").await;
        let next = {
            let objects = Arc::clone(&objects);
            tokio::spawn(async move { objects.lock("a").await.map(|_| ()) })
        };
        tokio::task::yield_now().await;
        *turn = Instant::now().checked_sub(ABANDONED).map(|since| (dead.revision, since));
        drop(turn);
        let taken = tokio::time::timeout(ABANDONED / 3, next).await;
        assert_eq!(taken.expect("it does not wait as long again").unwrap(), Ok(()));
    }

    #[tokio::test]
    async fn an_object_is_not_created_under_a_lock_that_may_be_another_clients_by_now() {
        let directory = tempfile::tempdir().unwrap();
        let [objects, _] = servers(&directory);
        while !objects.is_ready() {
            tokio::task::yield_now().await;
        }
        let kind = objects.kind_of("toys.example.com", "gadgets").unwrap();
        let create = async |age: Duration| {
            let taken = Instant::now().checked_sub(age).unwrap();
            let options = WriteOptions { lock: Some(Validity(taken)), ..WriteOptions::default() };
            let object = serde_json::json!({"apiVersion": "toys.example.com/v1", "kind": "Gadget", "metadata": {"name": "g"}});
            objects.create(kind, "default", object, options).await.map(|_| ()).map_err(|error| error.code)
        };
        assert_eq!(create(HELD).await, Err(503));
        assert_eq!(create(Duration::ZERO).await, Ok(()), "nothing was created before");
    }
}
