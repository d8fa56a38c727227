//! What a JSON patch may cost: a few operations can double an object each time, nest it without end,
//! or move a long list about.

use serde_json::Value;

use crate::object::{self, DEEPEST};

/// Most that all copies of one patch may add: upstream's limit. Unit: bytes of JSON.
const MOST_COPIED: usize = 3 * 1024 * 1024;

/// Most values that all operations of one patch may touch: a tenth of a second or so.
const MOST_TOUCHED: usize = 16 * 1024 * 1024;

/// Items of a list that are shifted in the time in which one value is looked at.
const SHIFTED_AT_ONCE: usize = 8;

/// Why a patch is not carried through.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TooMuch {
    /// It makes a copy of what it copied before.
    Copied,
    /// It nests an object deeper than is read.
    Deep,
    /// It takes too long.
    Touched,
}

/// What one patch has cost so far.
#[derive(Debug, Default)]
pub(super) struct Effort {
    copied: usize,
    touched: usize,
}

impl Effort {
    /// Puts a value at the end of a pointer.
    pub(super) fn put(&mut self, pointer: &str, value: &Value) -> Result<(), TooMuch> {
        let (depth, values) = object::measure(value);
        if depth + pointer.matches('/').count() > DEEPEST {
            return Err(TooMuch::Deep);
        }
        self.touch(values)
    }

    /// Makes one more of a value.
    pub(super) fn copy(&mut self, value: &Value) -> Result<(), TooMuch> {
        self.copied = self.copied.saturating_add(value.to_string().len());
        if self.copied > MOST_COPIED { Err(TooMuch::Copied) } else { Ok(()) }
    }

    /// Makes room in a list of so many items, or closes it up again.
    pub(super) fn shift(&mut self, items: usize) -> Result<(), TooMuch> {
        self.touch(items / SHIFTED_AT_ONCE)
    }

    fn touch(&mut self, values: usize) -> Result<(), TooMuch> {
        self.touched = self.touched.saturating_add(values);
        if self.touched > MOST_TOUCHED { Err(TooMuch::Touched) } else { Ok(()) }
    }
}
