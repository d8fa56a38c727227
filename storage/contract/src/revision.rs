//! Revision: the store's logical clock, which numbers its writes.

use std::fmt;

/// One point in the store's history.
///
/// Shape: a positive integer, written in decimal as an object's `resourceVersion`.
/// Zero ([`Revision::NONE`]) means "no such key yet" where a revision is expected.
/// Larger is later; two successful writes never share one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Revision(u64);

impl Revision {
    /// Before any write: the key must not exist.
    pub const NONE: Self = Self(0);

    /// Creates the revision with this number.
    pub const fn new(number: u64) -> Self {
        Self(number)
    }

    /// Returns the number of the revision.
    pub const fn number(self) -> u64 {
        self.0
    }

    /// Returns the next point in history, from which a watch resumes after this revision was observed.
    pub const fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }
}

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
