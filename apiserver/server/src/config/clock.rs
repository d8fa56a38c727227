//! Settings of the clock.

use anyhow::Context;
use jiff::Timestamp;
use serde::Deserialize;

/// Trust in the clock of the machine.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct Clock {
    /// Time at which an operator has compared the clock with a right one, such as `2026-01-31T12:00:00Z`. Recorded times that
    /// are later than the clock do not count at the first start with this value. Default: none.
    pub(crate) accepted_at: Option<String>,
}

impl Clock {
    /// Returns the time at which the operator has compared the clock.
    ///
    /// # Errors
    /// A text that is no time.
    pub(crate) fn accepted_at(&self) -> anyhow::Result<Option<Timestamp>> {
        let parse = |text: &String| {
            text.parse::<Timestamp>().with_context(|| {
                format!("clock.acceptedAt: {text:?} is not a time such as 2026-01-31T12:00:00Z")
            })
        };
        self.accepted_at.as_ref().map(parse).transpose()
    }

    pub(super) fn check(&self) -> anyhow::Result<()> {
        self.accepted_at().map(|_| ())
    }
}
