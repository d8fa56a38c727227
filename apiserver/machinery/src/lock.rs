//! Held lock: the handle that a client of `ObjectStore::lock` receives.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use storage_contract::{Key, Revision};
use tokio::sync::{Mutex as Queue, OwnedMutexGuard};

use crate::status::{ApiError, ApiResult};

/// Time that a holder may rely on its lock. The work under one is two reads and a write.
pub(crate) const HELD: Duration = Duration::from_secs(5);

/// A lock that was taken. Its holder releases it with `ObjectStore::unlock`.
#[derive(Debug)]
pub struct Lock {
    pub(crate) key: Key,
    pub(crate) revision: Revision,
    pub(crate) validity: Validity,
    pub(crate) _turn: Turn,
}

/// Revision of a lock that another client holds, and the time since which it has not changed.
pub(crate) type Holder = Option<(Revision, Instant)>;

/// Turn of the first client in a queue. It ends when it is dropped, and the next client knows the same holder.
pub(crate) type Turn = OwnedMutexGuard<Holder>;

/// Queues of this process, by the names of their locks. Only the first client of a queue calls the store.
#[derive(Debug, Default)]
pub(crate) struct Queues(Mutex<HashMap<String, Weak<Queue<Holder>>>>);

impl Queues {
    /// Waits until it is this client's turn.
    pub(crate) async fn enter(&self, name: &str) -> Turn {
        let queue = self.queue(name);
        queue.lock_owned().await
    }

    fn queue(&self, name: &str) -> Arc<Queue<Holder>> {
        let mut queues = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(queue) = queues.get(name).and_then(Weak::upgrade) {
            return queue;
        }
        queues.retain(|_, queue| queue.strong_count() > 0);
        let queue = Arc::default();
        queues.insert(name.to_owned(), Arc::downgrade(&queue));
        queue
    }
}

/// Time for which a lock can be relied on, from when it was taken.
#[derive(Debug, Clone, Copy)]
pub struct Validity(pub(crate) Instant);

impl Lock {
    /// Checks that the holder may still rely on the lock. The holder calls it right before the write that the lock
    /// guards.
    ///
    /// # Errors
    /// As [`Validity::check`].
    pub fn check(&self) -> ApiResult<()> {
        self.validity.check()
    }

    /// Returns the time for which the holder may rely on the lock. A write that may wait, for example for another lock,
    /// has it among its options and checks it last.
    pub fn validity(&self) -> Validity {
        self.validity
    }
}

impl Validity {
    /// Checks that the lock can still be relied on.
    ///
    /// # Errors
    /// 503 if the work took so long that another client may take the lock over.
    pub fn check(self) -> ApiResult<()> {
        if self.0.elapsed() < HELD {
            return Ok(());
        }
        Err(ApiError::unavailable("storage is too slow to decide this safely; nothing was changed"))
    }

    /// Checks all locks that a write relies on.
    ///
    /// # Errors
    /// As [`Validity::check`].
    pub(crate) fn check_all(locks: impl IntoIterator<Item = Self>) -> ApiResult<()> {
        locks.into_iter().try_for_each(Self::check)
    }
}
