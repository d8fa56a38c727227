//! Watch of one resource cache: a cursor into its history.

use std::collections::VecDeque;
use std::sync::Arc;

use storage_contract::{Revision, StoreError};
use tokio::sync::watch as signal;
use tokio::task::coop;

use crate::resource_cache::Extent;
use crate::{Change, Position, ResourceCache};

/// Next step of a watch.
#[derive(Debug)]
pub enum WatchStep<T> {
    /// A change.
    Change(Arc<Change<T>>),
    /// The history no longer holds the next change, because this watcher was too slow or the cache had to start over.
    /// Another watch from the last change on continues without a gap, where that is possible.
    Behind,
    /// The history of the store went back, and the next change does not follow the last one. No other watch continues:
    /// list again.
    Expired,
}

/// Changes taken at a time. A watcher that its client does not read keeps so many alive beyond the history.
pub(crate) const AT_ONCE: usize = 256;

/// Cursor into the history of a resource cache. It holds no buffer beyond the few changes that it took last, and no
/// task waits for it.
#[derive(Debug)]
pub struct ResourceWatch<T> {
    resource_cache: Arc<ResourceCache<T>>,
    extent: signal::Receiver<Extent>,
    position: signal::Receiver<Position>,
    /// Position of the cache at the start.
    start: Position,
    observed: Revision,
    /// Revision up to which a replay has covered everything, although its last change may be older.
    floor: Revision,
    taken: VecDeque<Arc<Change<T>>>,
}

impl<T> ResourceWatch<T> {
    pub(crate) fn new(
        resource_cache: Arc<ResourceCache<T>>,
        extent: signal::Receiver<Extent>,
        position: signal::Receiver<Position>,
        start: Position,
        after: Revision,
    ) -> Self {
        Self {
            resource_cache,
            extent,
            position,
            start,
            observed: after,
            floor: after,
            taken: VecDeque::new(),
        }
    }

    /// Yields `changes` first; they end where the history begins.
    pub(crate) fn replay(&mut self, changes: VecDeque<Arc<Change<T>>>, covered: Revision) {
        self.taken = changes;
        self.floor = covered;
    }

    /// Returns the revision up to which every change has been yielded, or `None` before the revision that the watch
    /// begins after has happened.
    pub fn reached(&mut self) -> Option<Revision> {
        // The position first: the extent shows every change up to it.
        let position = self.position.borrow().revision;
        let extent = *self.extent.borrow();
        let covered = self.observed.max(self.floor);
        if self.taken.is_empty() && extent.epoch == self.start.epoch && extent.revision <= covered {
            // It is stored, so that it never goes back.
            self.observed = covered.max(position);
        }
        (self.observed <= position).then_some(self.observed)
    }

    /// Returns the next change. It is cancel safe: nothing is lost when the future is dropped.
    ///
    /// # Errors
    /// `Unavailable` when the cache is gone.
    pub async fn next(&mut self) -> Result<WatchStep<T>, StoreError> {
        loop {
            if !self.taken.is_empty() {
                // A watcher with many changes yields to other tasks.
                coop::consume_budget().await;
            }
            if matches!(self.gap(), WatchStep::Expired) {
                return Ok(WatchStep::Expired);
            }
            if let Some(change) = self.taken.pop_front() {
                self.observed = change.revision;
                return Ok(WatchStep::Change(change));
            }
            let extent = *self.extent.borrow_and_update();
            if extent.epoch != self.start.epoch {
                return Ok(self.gap());
            }
            let after = self.observed.max(self.floor);
            if extent.revision > after {
                // The extent was read first: every change up to it is in the history already.
                let Some(changes) = self.resource_cache.changes_after(after, AT_ONCE) else {
                    return Ok(WatchStep::Behind);
                };
                if changes.is_empty() {
                    self.observed = extent.revision;
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

    /// Returns the step of a watch whose next change the cache does not have.
    fn gap(&self) -> WatchStep<T> {
        if self.position.borrow().history == self.start.history {
            WatchStep::Behind
        } else {
            WatchStep::Expired
        }
    }
}
