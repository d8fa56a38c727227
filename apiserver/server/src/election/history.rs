//! History of the store in which a term began. A term ends with it: its Lease may be another one in the data that are in
//! place now, and its controllers have seen objects that no longer exist.

use std::fmt;

use crate::storage_history::{HistoryNumber, went_back};

/// History of the store at the start of a term.
#[derive(Clone)]
pub(super) struct TermHistory {
    /// `None` for a store whose data no other process can replace.
    now: Option<HistoryNumber>,
    number: u64,
}

impl fmt::Debug for TermHistory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TermHistory").field("number", &self.number).finish_non_exhaustive()
    }
}

impl TermHistory {
    /// Returns the present history of a store.
    pub(super) fn new(now: Option<HistoryNumber>) -> Self {
        let number = now.as_ref().map_or(0, |now| now());
        Self { now, number }
    }

    /// Returns true if the history of the store went back since.
    pub(super) fn has_ended(&self) -> bool {
        self.now.as_ref().is_some_and(|now| now() != self.number)
    }

    /// Waits until the history of the store goes back.
    pub(super) async fn ended(&self) {
        match &self.now {
            Some(now) => went_back(|| now(), self.number).await,
            None => std::future::pending().await,
        }
    }
}
