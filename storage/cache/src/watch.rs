//! One watcher's way through a section's history.

use std::collections::VecDeque;
use std::sync::Arc;

use storage_contract::{Revision, StoreError};
use tokio::sync::watch as signal;

use crate::{Change, Position, Section};

/// What a watcher is given next.
#[derive(Debug)]
pub enum WatchStep<T> {
    /// A change.
    Change(Arc<Change<T>>),
    /// Nothing more happened up to this revision.
    Progress(Revision),
    /// The history no longer holds what comes next, because this watcher was too slow or the cache
    /// had to start over. Another watch, from [`SectionWatch::seen`], goes on without a gap where
    /// that is possible.
    Behind,
}

/// Changes taken at a time: what a watcher that nobody reads from keeps alive beyond the history.
const AT_ONCE: usize = 256;

/// A cursor into a section's history. It holds no buffer of its own beyond the few changes it took
/// in its last look, and nobody waits for it.
#[derive(Debug)]
pub struct SectionWatch<T> {
    section: Arc<Section<T>>,
    position: signal::Receiver<Position>,
    life: u64,
    seen: Revision,
    /// A replay has covered everything up to here, although the last change in it may be older.
    floor: Revision,
    taken: VecDeque<Arc<Change<T>>>,
}

impl<T> SectionWatch<T> {
    pub(crate) fn new(
        section: Arc<Section<T>>,
        position: signal::Receiver<Position>,
        life: u64,
        after: Revision,
    ) -> Self {
        Self { section, position, life, seen: after, floor: after, taken: VecDeque::new() }
    }

    /// Yields `changes` first; they end where the section's history begins.
    pub(crate) fn replay(&mut self, changes: VecDeque<Arc<Change<T>>>, covered: Revision) {
        self.taken = changes;
        self.floor = covered;
    }

    /// Everything of the section up to this revision has been yielded.
    pub fn seen(&self) -> Revision {
        self.seen
    }

    /// The same, if it has happened: a watch may begin after a revision that is still to come.
    pub fn reached(&self) -> Option<Revision> {
        (self.seen <= self.position.borrow().revision).then_some(self.seen)
    }

    /// The next change or progress. Cancel safe: nothing is lost when the future is dropped.
    ///
    /// # Errors
    /// `Unavailable` when the cache is gone.
    pub async fn next(&mut self) -> Result<WatchStep<T>, StoreError> {
        loop {
            if let Some(change) = self.taken.pop_front() {
                self.seen = change.revision;
                return Ok(WatchStep::Change(change));
            }
            let position = *self.position.borrow_and_update();
            if position.life != self.life {
                return Ok(WatchStep::Behind);
            }
            if position.revision > self.seen {
                // The position was read first: every change up to it is in the history already.
                let Some(changes) = self.section.changes_after(self.seen.max(self.floor), AT_ONCE) else {
                    return Ok(WatchStep::Behind);
                };
                if changes.is_empty() {
                    self.seen = position.revision;
                    return Ok(WatchStep::Progress(position.revision));
                }
                self.taken = changes;
                continue;
            }
            if self.position.changed().await.is_err() {
                return Err(StoreError::Unavailable {
                    operation: "watch",
                    source: "the cache has ended".into(),
                });
            }
        }
    }
}
