//! Effort limits of a JSON patch: each operation can double an object, nest it without end, or move a long list.

use serde_json::Value;

use crate::object::{self, DEEPEST};

/// Largest size that all copies of one patch may add: upstream's limit. Unit: bytes of JSON.
const MOST_COPIED: usize = 3 * 1024 * 1024;

/// Maximum number of values that all operations of one patch may touch: about a tenth of a second.
const MOST_TOUCHED: usize = 16 * 1024 * 1024;

/// Items of a list that are shifted in the time in which one value is visited.
const SHIFTED_AT_ONCE: usize = 8;

/// Limit that a patch exceeds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TooMuch {
    /// The patch copies the results of its own copies.
    Copied,
    /// The patch nests an object deeper than the server reads.
    Deep,
    /// The patch takes too long.
    Touched,
}

/// Effort of one patch so far.
#[derive(Debug, Default)]
pub(super) struct Effort {
    copied: usize,
    touched: usize,
}

impl Effort {
    /// Counts adding a value at the end of a pointer.
    pub(super) fn put(&mut self, pointer: &str, value: &Value) -> Result<(), TooMuch> {
        let (depth, values) = object::measure(value);
        if depth + pointer.matches('/').count() > DEEPEST {
            return Err(TooMuch::Deep);
        }
        self.touch(values)
    }

    /// Counts copying a value.
    pub(super) fn copy(&mut self, value: &Value) -> Result<(), TooMuch> {
        self.copied = self.copied.saturating_add(value.to_string().len());
        if self.copied > MOST_COPIED { Err(TooMuch::Copied) } else { Ok(()) }
    }

    /// Counts shifting so many items of a list.
    pub(super) fn shift(&mut self, items: usize) -> Result<(), TooMuch> {
        self.touch(items / SHIFTED_AT_ONCE)
    }

    fn touch(&mut self, values: usize) -> Result<(), TooMuch> {
        self.touched = self.touched.saturating_add(values);
        if self.touched > MOST_TOUCHED { Err(TooMuch::Touched) } else { Ok(()) }
    }
}
