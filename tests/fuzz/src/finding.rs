//! Finding of a target: a description of the error.

use std::fmt;

/// Description of an error in the result for an input, in a sentence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding(pub String);

impl fmt::Display for Finding {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl std::error::Error for Finding {}

/// Verdict of a target on one input.
pub(crate) type Verdict = Result<(), Finding>;

/// Returns a finding unless `holds`.
pub(crate) fn demand(holds: bool, otherwise: impl FnOnce() -> String) -> Verdict {
    if holds { Ok(()) } else { Err(Finding(otherwise())) }
}
