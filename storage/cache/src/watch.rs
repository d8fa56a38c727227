//! One watcher's way through a section's history.

use std::collections::VecDeque;
use std::sync::Arc;

use storage_contract::{Revision, StoreError};
use tokio::sync::watch as signal;
use tokio::task::coop;

use crate::resource_cache::Extent;
use crate::{Change, Position, ResourceCache};

/// What a watcher is given next.
#[derive(Debug)]
pub enum WatchStep<T> {
    /// A change.
    Change(Arc<Change<T>>),
    /// The history no longer holds what comes next, because this watcher was too slow or the cache
    /// had to start over. Another watch, from the last change on, goes on without a gap where that is
    /// possible.
    Behind,
}

/// Changes taken at a time: what a watcher that nobody reads from keeps alive beyond the history.
const AT_ONCE: usize = 256;

/// A cursor into a section's history. It holds no buffer of its own beyond the few changes it took
/// in its last look, and nobody waits for it.
#[derive(Debug)]
pub struct ResourceWatch<T> {
    section: Arc<ResourceCache<T>>,
    extent: signal::Receiver<Extent>,
    position: signal::Receiver<Position>,
    life: u64,
    seen: Revision,
    /// A replay has covered everything up to here, although the last change in it may be older.
    floor: Revision,
    taken: VecDeque<Arc<Change<T>>>,
}

impl<T> ResourceWatch<T> {
    pub(crate) fn new(
        section: Arc<ResourceCache<T>>,
        extent: signal::Receiver<Extent>,
        position: signal::Receiver<Position>,
        life: u64,
        after: Revision,
    ) -> Self {
        Self { section, extent, position, life, seen: after, floor: after, taken: VecDeque::new() }
    }

    /// Yields `changes` first; they end where the section's history begins.
    pub(crate) fn replay(&mut self, changes: VecDeque<Arc<Change<T>>>, covered: Revision) {
        self.taken = changes;
        self.floor = covered;
    }

    /// Everything of the section up to this revision has been yielded. `None` before the revision that the watch begins
    /// after has happened.
    pub fn reached(&mut self) -> Option<Revision> {
        // The position first: the extent shows every change up to it.
        let position = self.position.borrow().revision;
        let extent = *self.extent.borrow();
        let covered = self.seen.max(self.floor);
        if self.taken.is_empty() && extent.life == self.life && extent.revision <= covered {
            // Kept, so that it never goes back.
            self.seen = covered.max(position);
        }
        (self.seen <= position).then_some(self.seen)
    }

    /// The next change. Cancel safe: nothing is lost when the future is dropped.
    ///
    /// # Errors
    /// `Unavailable` when the cache is gone.
    pub async fn next(&mut self) -> Result<WatchStep<T>, StoreError> {
        loop {
            if !self.taken.is_empty() {
                // Whoever has much to be told lets others have their turn.
                coop::consume_budget().await;
            }
            if let Some(change) = self.taken.pop_front() {
                self.seen = change.revision;
                return Ok(WatchStep::Change(change));
            }
            let extent = *self.extent.borrow_and_update();
            if extent.life != self.life {
                return Ok(WatchStep::Behind);
            }
            let after = self.seen.max(self.floor);
            if extent.revision > after {
                // The extent was read first: every change up to it is in the history already.
                let Some(changes) = self.section.changes_after(after, AT_ONCE) else {
                    return Ok(WatchStep::Behind);
                };
                if changes.is_empty() {
                    self.seen = extent.revision;
                }
                self.taken = changes;
                continue;
            }
            if self.extent.changed().await.is_err() {
                return Err(StoreError::Unavailable {
                    operation: "watch",
                    source: "the cache has ended".into(),
                });
            }
        }
    }
}
