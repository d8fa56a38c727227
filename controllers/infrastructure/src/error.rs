//! Error of a cloud call, classified where it occurred.

use std::time::Duration;

/// Result of a cloud call.
pub type CloudResult<T> = Result<T, CloudError>;

/// Class of a failure, by what the caller can do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorClass {
    /// A quota is exhausted (Nova 403/413 with "Quota", Neutron 409 `OverQuota`). Ends when the
    /// quota is raised or something is deleted.
    Quota,
    /// No host can take the server. May be transient.
    NoValidHost,
    /// No host can take the server beside the others of its group, which must not share one.
    AntiAffinity,
    /// The object is in a state that forbids the call, or in use (409). Wait, then look again.
    Conflict,
    /// The object does not exist (404).
    NotFound,
    /// Several objects match where one is needed.
    Ambiguous,
    /// Too many requests (429, or 503 with `Retry-After`).
    Throttled,
    /// The credentials are wrong or the token cannot be renewed (401).
    Unauthorized,
    /// The credentials are right but the policy forbids the call (403 without quota).
    Forbidden,
    /// The request itself is wrong and will stay wrong (400, 422).
    Invalid,
    /// The spec requests something that the cloud cannot do. No call was made.
    InvalidSpec,
    /// The cloud failed (5xx), or its response is not that of its API.
    Broken,
    /// The service is older than the oldest that Capstan supports.
    TooOld,
    /// No response: the call may or may not have taken effect. Look before repeating it.
    Unknown,
    /// The cloud could not be reached; nothing was sent.
    Unreachable,
    /// The credentials Secret itself is unusable (no such cloud, not YAML, missing field).
    Credentials,
    /// The OpenStackClusterIdentity that names the Secret does not exist.
    IdentityNotFound,
    /// The OpenStackClusterIdentity does not admit the namespace of the object.
    IdentityAccessDenied,
}

impl ErrorClass {
    /// Returns the CamelCase word for a condition's `reason`, e.g. `QuotaExceeded`.
    pub const fn reason(self) -> &'static str {
        match self {
            Self::Quota => "QuotaExceeded",
            Self::NoValidHost => "NoCapacity",
            Self::AntiAffinity => "AntiAffinityUnsatisfiable",
            Self::Conflict => "Conflict",
            Self::NotFound => "NotFound",
            Self::Ambiguous => "Ambiguous",
            Self::Throttled => "Throttled",
            Self::Unauthorized => "Unauthorized",
            Self::Forbidden => "Forbidden",
            Self::Invalid => "InvalidRequest",
            Self::InvalidSpec => "InvalidMachineSpec",
            Self::Broken => "CloudError",
            Self::TooOld => "CloudTooOld",
            Self::Unknown => "OutcomeUnknown",
            Self::Unreachable => "CloudUnreachable",
            Self::Credentials => "CredentialsInvalid",
            Self::IdentityNotFound => "IdentityNotFound",
            Self::IdentityAccessDenied => "IdentityAccessDenied",
        }
    }
}

/// Step of a controller that failed, as conditions and Events name it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FailedStep {
    /// Reason of the condition, e.g. `PortCreateFailed`.
    pub condition: &'static str,
    /// Reason of the Event, e.g. `FailedCreatePort`.
    pub event: &'static str,
}

impl FailedStep {
    /// Creates the reasons of a step.
    pub const fn new(condition: &'static str, event: &'static str) -> Self {
        Self { condition, event }
    }
}

/// Reason of a call that failed outside of a step that has a reason of its own. Upstream's name.
pub const OPENSTACK_ERROR: &str = "OpenStackError";

/// Error of a cloud call.
///
/// `Display` is the text that a user reads in a condition: the attempt with its object, the service with its status
/// code, the cloud's own message, and its request id if there is one. Example: `create server "m1": Nova 403: Quota
/// exceeded for cores (request req-1)`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{operation}: {}{}", self.words(), request_id.as_ref().map(|id| format!(" (request {id})")).unwrap_or_default())]
pub struct CloudError {
    /// Class of the failure.
    pub class: ErrorClass,
    /// Attempt, with the name of the object, e.g. `create server "m1"`.
    pub operation: String,
    /// Step of a controller that made the call, if it has reasons of its own.
    pub step: Option<Box<FailedStep>>,
    /// Project name of the service that was called, e.g. `Nova`; `None` if no call was made.
    pub service: Option<&'static str>,
    /// The cloud's own message, without markup; never a credential.
    pub message: String,
    /// The cloud's request id, to find the call in its logs.
    pub request_id: Option<String>,
    /// HTTP status, if there was a response.
    pub status: Option<u16>,
    /// Interval before the next call that the cloud requested. Of an `Unknown` error: interval before the next look for
    /// the effect of an earlier call.
    pub retry_after: Option<Duration>,
}

impl CloudError {
    /// Creates an error without an HTTP response.
    pub fn new(class: ErrorClass, operation: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            class,
            operation: operation.into(),
            step: None,
            service: None,
            message: message.into(),
            request_id: None,
            status: None,
            retry_after: None,
        }
    }

    /// Returns the same error as that of a call to a service.
    #[must_use]
    pub fn of_service(self, service: &'static str) -> Self {
        Self { service: Some(service), ..self }
    }

    /// Returns the CamelCase word for a condition's `reason`. A class that says what to do has its own; others name the
    /// step that failed, with upstream's words.
    pub fn reason(&self) -> &'static str {
        let is_general = matches!(
            self.class,
            ErrorClass::Conflict | ErrorClass::Forbidden | ErrorClass::Invalid | ErrorClass::Broken
        );
        match &self.step {
            Some(step) if is_general || self.is_not_found() => step.condition,
            None if is_general => OPENSTACK_ERROR,
            _ => self.class.reason(),
        }
    }

    /// Returns the CamelCase word for an Event: the step that failed, or the reason.
    pub fn event_reason(&self) -> &'static str {
        self.step.as_ref().map_or_else(|| self.reason(), |step| step.event)
    }

    /// Returns the service with its status code, and the cloud's own message: `Nova 403: Quota exceeded for cores`.
    pub fn words(&self) -> String {
        let code = self.status.map(|status| status.to_string());
        match (self.service, code) {
            (Some(service), Some(code)) => format!("{service} {code}: {}", self.message),
            (Some(service), None) => format!("{service}: {}", self.message),
            (None, Some(code)) => format!("{code}: {}", self.message),
            (None, None) => self.message.clone(),
        }
    }

    /// Returns true if the object does not exist.
    pub fn is_not_found(&self) -> bool {
        self.class == ErrorClass::NotFound
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CREATE: FailedStep = FailedStep::new("InstanceCreateFailed", "FailedCreateServer");

    #[test]
    fn an_error_names_the_attempt_the_service_its_code_and_the_request() {
        let error = CloudError::new(ErrorClass::Quota, "create server \"m1\"", "Quota exceeded for cores");
        assert_eq!(error.to_string(), "create server \"m1\": Quota exceeded for cores");
        let error = CloudError { status: Some(403), ..error }.of_service("Nova");
        assert_eq!(error.words(), "Nova 403: Quota exceeded for cores");
        let error = CloudError { request_id: Some("req-1".to_owned()), ..error };
        let expected = "create server \"m1\": Nova 403: Quota exceeded for cores (request req-1)";
        assert_eq!(error.to_string(), expected);
        let silent = CloudError::new(ErrorClass::Unknown, "create server \"m1\"", "no response in time");
        assert_eq!(silent.of_service("Nova").to_string(), "create server \"m1\": Nova: no response in time");
    }

    #[test]
    fn a_general_failure_has_the_reason_of_its_step_and_others_say_what_to_do() {
        let table = [
            (ErrorClass::Broken, None, "OpenStackError", "OpenStackError"),
            (ErrorClass::Forbidden, None, "OpenStackError", "OpenStackError"),
            (ErrorClass::NotFound, None, "NotFound", "NotFound"),
            (ErrorClass::Unreachable, None, "CloudUnreachable", "CloudUnreachable"),
            (ErrorClass::Broken, Some(CREATE), "InstanceCreateFailed", "FailedCreateServer"),
            (ErrorClass::Invalid, Some(CREATE), "InstanceCreateFailed", "FailedCreateServer"),
            (ErrorClass::NotFound, Some(CREATE), "InstanceCreateFailed", "FailedCreateServer"),
            (ErrorClass::Quota, Some(CREATE), "QuotaExceeded", "FailedCreateServer"),
            (ErrorClass::NoValidHost, Some(CREATE), "NoCapacity", "FailedCreateServer"),
            (ErrorClass::Unknown, Some(CREATE), "OutcomeUnknown", "FailedCreateServer"),
        ];
        for (class, step, condition, event) in table {
            let error =
                CloudError { step: step.map(Box::new), ..CloudError::new(class, "create server", "no") };
            assert_eq!((error.reason(), error.event_reason()), (condition, event), "{class:?} {step:?}");
        }
    }
}
