//! Held lock: the handle that a client of `ObjectStore::lock` receives.

use std::time::{Duration, Instant};

use storage_contract::{Key, Revision};

use crate::status::{ApiError, ApiResult};

/// Time that a holder may rely on its lock. The work under one is two reads and a write.
pub(crate) const HELD: Duration = Duration::from_secs(5);

/// A lock that was taken. Its holder releases it with `ObjectStore::unlock`.
#[derive(Debug)]
pub struct Lock {
    pub(crate) key: Key,
    pub(crate) revision: Revision,
    pub(crate) taken: Instant,
}

impl Lock {
    /// Checks that the holder may still rely on the lock. The holder calls it right before the write that the lock
    /// guards.
    ///
    /// # Errors
    /// 503 if the work took so long that another client may take the lock over.
    pub fn check(&self) -> ApiResult<()> {
        if self.taken.elapsed() < HELD {
            return Ok(());
        }
        Err(ApiError::unavailable("storage is too slow to decide this safely; nothing was changed"))
    }

    /// Checks a lock that only some writes need.
    ///
    /// # Errors
    /// As [`Lock::check`].
    pub(crate) fn check_if_any(lock: Option<&Self>) -> ApiResult<()> {
        lock.map_or(Ok(()), Self::check)
    }
}
