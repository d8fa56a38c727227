//! What is wrong.

use std::fmt;

/// What is wrong with what became of an input, in a sentence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding(pub String);

impl fmt::Display for Finding {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl std::error::Error for Finding {}

/// What a target says of one input.
pub(crate) type Verdict = Result<(), Finding>;

/// Finds error unless `holds`.
pub(crate) fn demand(holds: bool, otherwise: impl FnOnce() -> String) -> Verdict {
    if holds { Ok(()) } else { Err(Finding(otherwise())) }
}
