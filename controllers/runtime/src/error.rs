//! Why a pass could not go on now.

use controllers_infrastructure::{CloudError, ErrorClass};

/// Why a pass could not go on now.
#[derive(Debug, thiserror::Error)]
pub enum ReconcileError {
    /// The cloud failed.
    #[error(transparent)]
    Cloud(#[from] CloudError),
    /// The API failed.
    #[error(transparent)]
    Api(#[from] kube::Error),
    /// Something that is needed is not there yet. Not a failure: no Event tells of it.
    #[error("{message}")]
    Waiting {
        /// CamelCase word for a condition.
        reason: &'static str,
        /// For people: what is waited for.
        message: String,
    },
}

impl ReconcileError {
    /// Something is not there yet.
    pub fn waiting(reason: &'static str, message: impl Into<String>) -> Self {
        Self::Waiting { reason, message: message.into() }
    }

    /// Something that an object names is not in the cloud, or there are several.
    pub fn unresolved(found: usize, field: &str, wanted: &str) -> Self {
        let (class, words) = match found {
            0 => (ErrorClass::NotFound, "nothing in the cloud matches".to_owned()),
            several => (ErrorClass::Ambiguous, format!("{several} in the cloud match")),
        };
        Self::Cloud(CloudError::new(class, format!("resolve {field}"), format!("{words} {wanted}")))
    }

    /// The same, with what was attempted in words that name the object.
    #[must_use]
    pub fn during(self, attempt: impl FnOnce() -> String) -> Self {
        match self {
            Self::Cloud(error) => Self::Cloud(CloudError { operation: attempt(), ..error }),
            other => other,
        }
    }

    /// CamelCase word for a condition's `reason`.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Cloud(error) => error.class.reason(),
            Self::Api(_) => "APIFailure",
            Self::Waiting { reason, .. } => reason,
        }
    }

    /// Whether somebody else wrote first; the next pass begins with what they wrote.
    pub fn is_conflict(&self) -> bool {
        matches!(self, Self::Api(kube::Error::Api(status)) if status.code == 409)
    }

    /// Whether a cloud's object was not found.
    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::Cloud(error) if error.is_not_found())
    }
}
