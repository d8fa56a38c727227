//! What a pass over an object came to.

use std::time::Duration;

/// When an object is to be looked at again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// When something changes.
    OnChange,
    /// After a while, though nothing may change.
    After(Duration),
    /// After a while, because this pass failed. What failed has been told.
    Retry(Duration),
}

impl Next {
    /// The pause, where there is one.
    pub fn pause(self) -> Option<Duration> {
        match self {
            Self::OnChange => None,
            Self::After(pause) | Self::Retry(pause) => Some(pause),
        }
    }
}

impl From<Option<Duration>> for Next {
    fn from(pause: Option<Duration>) -> Self {
        pause.map_or(Self::OnChange, Self::After)
    }
}
