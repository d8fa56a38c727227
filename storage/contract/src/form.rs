//! Stored form: the look of the bytes of a store, on which all servers of the store agree.

/// Stored form of a store.
///
/// A form is a number. Form 3 has compressed values, and their positions in a transaction. Form 4 has values that a
/// derived key has sealed, too. A server reads all forms in [`Form::READ`], and writes the one that the store says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Form {
    /// Newest form of the values.
    pub committed: u64,
    /// Oldest form of the values.
    pub least: u64,
    /// Form that servers write during a downgrade, while values of the committed form are rewritten.
    pub to: Option<u64>,
}

/// Start of a value that a derived key has sealed.
const DERIVED: &[u8] = b"k8s:enc:aesgcm:v2:";

impl Form {
    /// Oldest form that this release reads and writes.
    pub const OLDEST: u64 = 3;

    /// Form from which on local keys seal each value with a derived key.
    pub const DERIVED_KEYS: u64 = 4;

    /// Newest form that this release reads and writes.
    pub const NEWEST: u64 = 4;

    /// Forms that this release reads.
    pub const READ: [u64; 2] = [Self::OLDEST, Self::NEWEST];

    /// Form of a store of which all values have one form.
    pub const fn of(number: u64) -> Self {
        Self { committed: number, least: number, to: None }
    }

    /// Returns the form that servers write.
    pub fn writes(self) -> u64 {
        self.to.unwrap_or(self.committed)
    }

    /// Reports whether this release reads and writes the form.
    pub fn is_known(self) -> bool {
        Self::READ.contains(&self.committed) && Self::READ.contains(&self.writes())
    }

    /// Returns the oldest form that has values like these bytes.
    pub fn needed(value: &[u8]) -> u64 {
        if value.starts_with(DERIVED) { Self::DERIVED_KEYS } else { Self::OLDEST }
    }
}
