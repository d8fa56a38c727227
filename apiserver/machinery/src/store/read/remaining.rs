//! How many objects come after a page.
//!
//! A snapshot cannot say how many keys lie between two: somebody has to go there, a step for each. That is done for the
//! first page of a list. Every other page begins where one ended whose rest was counted, at the same revision; so a list
//! costs what it has, in however many pages it is read.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use storage_contract::Revision;

/// Pages that are remembered. Many more readers at a time than this, and some pages are counted anew.
const MOST: usize = 1024;

/// Where a page begins, where its list ends, and the revision that it shows.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct PagePosition {
    pub(crate) start: String,
    pub(crate) end: String,
    pub(crate) revision: Revision,
}

/// What has been counted.
#[derive(Debug, Default)]
pub(crate) struct Remaining(Mutex<HashMap<PagePosition, usize>>);

impl Remaining {
    /// How many keys there are from a position on, if that was counted.
    pub(crate) fn from(&self, position: &PagePosition) -> Option<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(position).copied()
    }

    /// Remembers it.
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
    fn a_count_is_of_one_place_at_one_revision() {
        let remaining = Remaining::default();
        remaining.note(position("a", 7), 3);
        assert_eq!(remaining.from(&position("a", 7)), Some(3));
        assert_eq!(remaining.from(&position("a", 8)), None);
        assert_eq!(remaining.from(&position("aa", 7)), None);
    }

    #[test]
    fn no_more_is_remembered_than_there_is_room_for() {
        let remaining = Remaining::default();
        (0..10 * MOST).for_each(|number| remaining.note(position(&number.to_string(), 1), number));
        assert!(remaining.0.lock().unwrap().len() <= MOST);
    }
}
