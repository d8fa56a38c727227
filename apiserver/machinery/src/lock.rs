//! Lock by name, as its holder has it. `ObjectStore::lock` takes one.

use std::time::{Duration, Instant};

use storage_contract::{Key, Revision};

use crate::status::{ApiError, ApiResult};

/// Time that a holder may rely on its lock. The work under one is two reads and a write.
pub(crate) const HELD: Duration = Duration::from_secs(5);

/// A lock that was taken. Its holder returns it with `ObjectStore::unlock`.
#[derive(Debug)]
pub struct Lock {
    pub(crate) key: Key,
    pub(crate) revision: Revision,
    pub(crate) taken: Instant,
}

impl Lock {
    /// Passes while the holder may rely on the lock. The holder checks right before the write that the lock guards.
    ///
    /// # Errors
    /// 503 if the work took so long that another client may take the lock over.
    pub fn check(&self) -> ApiResult<()> {
        if self.taken.elapsed() < HELD {
            return Ok(());
        }
        Err(ApiError::unavailable("storage is too slow to decide this safely; nothing was changed"))
    }
}
