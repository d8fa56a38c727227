//! Room in a queue of audit events: a limit in bytes.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Largest size of the events in one queue. An event with bodies has up to 200 KiB, and its destination may hang for
/// minutes. A server must not use its memory for them. Unit: bytes.
const MOST: usize = 64 * 1024 * 1024;

/// Room in one queue, 64 MiB. Clones share it.
#[derive(Debug, Clone)]
pub struct QueueRoom(Arc<Semaphore>);

impl Default for QueueRoom {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(MOST)))
    }
}

impl QueueRoom {
    /// Takes the room of an event; `None` if there is not enough. Dropping the part returns it.
    pub fn take(&self, event: &str) -> Option<RoomPart> {
        let bytes = u32::try_from(event.len()).ok()?;
        Arc::clone(&self.0).try_acquire_many_owned(bytes).ok().map(|permit| RoomPart { _permit: permit })
    }
}

/// Part of the room that one event has until it is written, sent or lost.
#[derive(Debug)]
pub struct RoomPart {
    _permit: OwnedSemaphorePermit,
}
