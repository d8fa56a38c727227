//! Locks by name, for decisions that need more than one compare-and-swap: one holder at a time, across all servers on
//! the same store, for the duration of one request.
//!
//! A lock is a key that exists. A holder that dies leaves the key behind. A waiter takes the lock over when the key has
//! been unchanged for [`ABANDONED`] by the waiter's own clock. The holder, by its own clock, stops relying on its lock
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

/// Interval between two reads of a lock: about as long as a lock is held.
const PAUSE: Duration = Duration::from_millis(20);

impl ObjectStore {
    /// Takes the lock of this name (a path of one or more segments) when it is free.
    ///
    /// # Errors
    /// 503 if it does not become free in time, or if storage does not answer.
    pub async fn lock(&self, name: &str) -> ApiResult<Lock> {
        let key =
            Key::new(format!("{ROOT}locks/{name}")).map_err(|error| ApiError::internal(error.to_string()))?;
        let begun = Instant::now();
        let mut seen: Option<(Revision, Instant)> = None;
        while begun.elapsed() < PATIENCE {
            let taken = Instant::now();
            let holder = seen.filter(|(_, since)| since.elapsed() >= ABANDONED).map(|(holder, _)| holder);
            if let Some(revision) = self.try_lock(&key, holder).await? {
                return Ok(Lock { key, revision, validity: Validity(taken) });
            }
            let entry = self.store.get(&key).await.map_err(|error| ApiError::storage(&error))?;
            seen = entry.map(|entry| match seen {
                Some((revision, since)) if revision == entry.modified => (revision, since),
                _ => (entry.modified, Instant::now()),
            });
            tokio::time::sleep(PAUSE).await;
        }
        Err(ApiError::unavailable("others are changing the same thing, please try again"))
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

    use storage_embedded::EmbeddedStore;
    use tokio_util::sync::CancellationToken;

    use super::*;
    use crate::encryption::Encryption;
    use crate::lock::HELD;
    use crate::resource::Registry;
    use crate::resource::tests::gadget;
    use crate::store::{OwnNamespaces, WriteOptions};

    /// Returns two servers on one store.
    fn servers(directory: &tempfile::TempDir) -> [Arc<ObjectStore>; 2] {
        let store = Arc::new(EmbeddedStore::open(&directory.path().join("store")).unwrap());
        [(), ()].map(|()| {
            Arc::new(ObjectStore::open(
                Arc::new(Registry::new(vec![gadget()])),
                store.clone(),
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
