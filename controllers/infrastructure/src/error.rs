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
            Self::Unknown => "OutcomeUnknown",
            Self::Unreachable => "CloudUnreachable",
            Self::Credentials => "CredentialsInvalid",
            Self::IdentityNotFound => "IdentityNotFound",
            Self::IdentityAccessDenied => "IdentityAccessDenied",
        }
    }
}

/// Error of a cloud call.
///
/// `Display` is the text that a user reads in a condition: the attempt with its object, the cloud's own
/// message, and its request id if there is one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{operation}: {message}{}", request_id.as_ref().map(|id| format!(" (request id {id})")).unwrap_or_default())]
pub struct CloudError {
    /// Class of the failure.
    pub class: ErrorClass,
    /// Attempt, with the name of the object, e.g. `create server "m1"`.
    pub operation: String,
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
            message: message.into(),
            request_id: None,
            status: None,
            retry_after: None,
        }
    }

    /// Returns true if the object does not exist.
    pub fn is_not_found(&self) -> bool {
        self.class == ErrorClass::NotFound
    }
}
