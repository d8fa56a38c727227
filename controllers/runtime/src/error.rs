//! Error of a reconcile pass.

use controllers_infrastructure::{CloudError, ErrorClass, FailedStep};

/// Error of a reconcile pass.
#[derive(Debug, thiserror::Error)]
pub enum ReconcileError {
    /// The cloud failed.
    #[error(transparent)]
    Cloud(#[from] CloudError),
    /// The API failed.
    #[error("{}", api_text(.0))]
    Api(#[from] kube::Error),
    /// An object that is needed does not exist yet. This is no failure, so no Event reports it.
    #[error("{message}")]
    Waiting {
        /// CamelCase word for a condition.
        reason: &'static str,
        /// The object that is waited for. For people.
        message: String,
    },
}

impl ReconcileError {
    /// Creates the error of a pass that waits.
    pub fn waiting(reason: &'static str, message: impl Into<String>) -> Self {
        Self::Waiting { reason, message: message.into() }
    }

    /// Creates the error of a name that matches nothing in the cloud, or several things.
    pub fn unresolved(found: usize, field: &str, query: &str) -> Self {
        let (class, message) = match found {
            0 => {
                let message = format!(
                    "nothing in the cloud matches {query}. Correct the field, or create the resource"
                );
                (ErrorClass::NotFound, message)
            }
            several => {
                let message = format!("{several} in the cloud match {query}. Name one by its id");
                (ErrorClass::Ambiguous, message)
            }
        };
        Self::Cloud(CloudError::new(class, format!("resolve {field}"), message))
    }

    /// Returns the same error with the attempt described, so that it names the object.
    #[must_use]
    pub fn during(self, attempt: impl FnOnce() -> String) -> Self {
        match self {
            Self::Cloud(error) => Self::Cloud(CloudError { operation: attempt(), ..error }),
            other => other,
        }
    }

    /// Returns the same error as that of a step with reasons of its own.
    #[must_use]
    pub fn of_step(self, step: Option<FailedStep>) -> Self {
        match self {
            Self::Cloud(error) => Self::Cloud(CloudError { step: step.map(Box::new), ..error }),
            other => other,
        }
    }

    /// Returns the CamelCase word for a condition's `reason`.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Cloud(error) => error.reason(),
            Self::Api(_) => "APIFailure",
            Self::Waiting { reason, .. } => reason,
        }
    }

    /// Returns the CamelCase word for an Event: the step that failed, or the reason.
    pub fn event_reason(&self) -> &'static str {
        match self {
            Self::Cloud(error) => error.event_reason(),
            other => other.reason(),
        }
    }

    /// Returns true if another client wrote first. The next pass begins with what it wrote.
    pub fn is_conflict(&self) -> bool {
        matches!(self, Self::Api(kube::Error::Api(status)) if status.code == 409)
    }

    /// Returns true if an object of the cloud was not found.
    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::Cloud(error) if error.is_not_found())
    }
}

/// Returns a failure of the API in its own words.
///
/// The text of the client library appends the whole answer in the syntax of Rust. The names in it can differ at each
/// attempt, so a condition with this text would change, and trigger the next pass at once.
pub fn api_text(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) if !status.message.is_empty() => status.message.clone(),
        kube::Error::Api(status) => format!("the API answered with HTTP status {}", status.code),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use kube::core::Status;

    use super::*;

    #[test]
    fn a_failure_of_the_api_has_its_words_only() {
        let of = |message: &str, reason: &str| {
            let (message, reason) = (message.to_owned(), reason.to_owned());
            let status = Status { code: 422, message, reason, ..Status::default() };
            ReconcileError::from(kube::Error::Api(status.boxed())).to_string()
        };
        assert_eq!(of("K \"a\" is invalid", "Invalid"), "K \"a\" is invalid");
        assert_eq!(of("", "Invalid"), "the API answered with HTTP status 422");
    }
}
