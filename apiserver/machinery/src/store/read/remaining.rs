//! Count of the objects after a page of a list (`remainingItemCount`).
//!
//! A snapshot does not know the number of keys in a range: counting them takes a step for each. That is done for the
//! first page of a list. Every other page starts where a counted one ended, at the same revision. So a list costs one
//! step per key, for any number of pages.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use storage_contract::Revision;

/// Maximum number of pages that are recorded. With many more readers at a time, some pages are counted again.
const MOST: usize = 1024;

/// Start of a page, end of its list, and the revision that it shows.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct PagePosition {
    pub(crate) start: String,
    pub(crate) end: String,
    pub(crate) revision: Revision,
}

/// Recorded counts.
#[derive(Debug, Default)]
pub(crate) struct Remaining(Mutex<HashMap<PagePosition, usize>>);

impl Remaining {
    /// Returns the number of keys from a position on, if it is recorded.
    pub(crate) fn from(&self, position: &PagePosition) -> Option<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(position).copied()
    }

    /// Records a count.
    pub(crate) fn note(&self, position: PagePosition, count: usize) {
        let mut counted = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if counted.len() >= MOST {
            counted.clear();
        }
        counted.insert(position, count);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn position(start: &str, revision: u64) -> PagePosition {
        PagePosition { start: start.to_owned(), end: "b".to_owned(), revision: Revision::new(revision) }
    }

    #[test]
    fn a_count_belongs_to_one_position_at_one_revision() {
        let remaining = Remaining::default();
        remaining.note(position("a", 7), 3);
        assert_eq!(remaining.from(&position("a", 7)), Some(3));
        assert_eq!(remaining.from(&position("a", 8)), None);
        assert_eq!(remaining.from(&position("aa", 7)), None);
    }

    #[test]
    fn the_number_of_remembered_counts_is_bounded() {
        let remaining = Remaining::default();
        (0..10 * MOST).for_each(|number| remaining.note(position(&number.to_string(), 1), number));
        assert!(remaining.0.lock().unwrap().len() <= MOST);
    }
}
