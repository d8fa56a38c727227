//! API errors: `metav1.Status`, and the only mapping of errors to HTTP codes.

mod names;
mod objects;
mod requests;

use std::borrow::Cow;

use serde_json::{Map, Value, json};
use storage_contract::StoreError;

pub use names::ResourceNames;

/// The result of serving a request.
pub type ApiResult<T> = Result<T, ApiError>;

/// An error, as it is sent.
///
/// Shape on the wire: `metav1.Status` with `status: Failure`.
#[derive(Debug, Clone, PartialEq)]
pub struct ApiError {
    /// HTTP status.
    pub code: u16,
    /// `metav1.StatusReason`, e.g. `NotFound`; empty when there is none. An admission webhook chooses any text.
    pub reason: Cow<'static, str>,
    /// Text for users: it names the object, the problem and the remedy.
    pub message: String,
    /// `metav1.StatusDetails`; `Null` when there are none.
    pub details: Value,
    /// `metadata.continue`: the token to continue a list whose page has expired; empty otherwise.
    pub continue_token: Box<str>,
    /// Warnings in addition to the error, one `Warning` header each.
    pub warnings: Box<[String]>,
    /// True if the request as a whole was refused, before its body was read. Browsers must then not guess another content
    /// type.
    pub is_denial: bool,
}

impl std::fmt::Display for ApiError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for ApiError {}

impl ApiError {
    fn new(code: u16, reason: &'static str, message: impl Into<String>) -> Self {
        Self {
            code,
            reason: Cow::Borrowed(reason),
            message: message.into(),
            details: Value::Null,
            continue_token: Box::default(),
            warnings: Box::default(),
            is_denial: false,
        }
    }

    /// Returns the error with these warnings before its own.
    #[must_use]
    pub fn after(mut self, mut warnings: Vec<String>) -> Self {
        warnings.extend(std::mem::take(&mut self.warnings));
        self.warnings = warnings.into();
        self
    }

    #[must_use]
    fn about(mut self, resource: &(impl ResourceNames + ?Sized), kind: &str, name: &str) -> Self {
        let mut details = Map::new();
        for (key, value) in [("name", name), ("group", resource.group()), ("kind", kind)] {
            if !value.is_empty() {
                details.insert(key.to_owned(), json!(value));
            }
        }
        self.details = Value::Object(details);
        self
    }

    #[must_use]
    fn with_detail(mut self, key: &str, value: Value) -> Self {
        if !self.details.is_object() {
            self.details = json!({});
        }
        if let Some(details) = self.details.as_object_mut() {
            details.insert(key.to_owned(), value);
        }
        self
    }

    /// Returns the error with a token to continue the list.
    #[must_use]
    pub fn with_continue(mut self, token: String) -> Self {
        self.continue_token = token.into();
        self
    }

    /// Returns the seconds to wait before the next attempt.
    pub fn retry_after(&self) -> Option<u64> {
        self.details.get("retryAfterSeconds").and_then(Value::as_u64)
    }

    /// An internal error of the server.
    pub fn internal(message: impl Into<String>) -> Self {
        let message = message.into();
        let mut error = Self::new(500, "InternalError", format!("Internal error occurred: {message}"));
        error = error.with_detail("causes", json!([{"message": message}]));
        error
    }

    /// An error without a reason, like some of upstream's.
    pub fn untyped(code: u16, message: impl Into<String>) -> Self {
        Self::new(code, "", message)
    }

    /// A temporary error. Clients repeat the request after a second.
    pub fn unavailable(message: impl Into<String>) -> Self {
        Self::new(503, "ServiceUnavailable", message).with_detail("retryAfterSeconds", json!(1))
    }

    /// A credential that cannot be checked now. Clients repeat the request after 5 seconds, because the system that has
    /// issued it is silent.
    pub fn undecided(message: impl Into<String>) -> Self {
        Self::new(503, "ServiceUnavailable", message).with_detail("retryAfterSeconds", json!(5))
    }

    /// A write about which the host cluster must decide, and cannot. Clients repeat it after 30 seconds, because outages
    /// last.
    pub fn silent_host(message: impl Into<String>) -> Self {
        Self::new(503, "ServiceUnavailable", message).with_detail("retryAfterSeconds", json!(30))
    }

    /// The server has not read its objects yet. A client must not conclude that an object does not exist.
    pub fn starting() -> Self {
        let message =
            "the request has been made before all known HTTP paths have been installed, please try again";
        Self::new(503, "ServiceUnavailable", message).with_detail("retryAfterSeconds", json!(5))
    }

    /// Maps the error of a store call. The caller interprets `Conflict` and `Exists`; they get here only if it did not.
    pub fn storage(error: &StoreError) -> Self {
        match error {
            StoreError::TooLarge { size, limit, .. } => Self::too_large(format!(
                "the object is too large to be stored: {size} bytes, the limit is {limit}"
            )),
            StoreError::Compacted { .. } => {
                Self::expired("The resourceVersion for the provided list is too old.")
            }
            StoreError::Future { requested, current } => {
                Self::revision_too_large(requested.number(), current.number())
            }
            StoreError::Unavailable { .. } => {
                Self::unavailable("storage does not answer; nothing was changed")
            }
            StoreError::Rewound { .. } => Self::unavailable(
                "the data of storage were replaced, and all objects are read again; nothing was changed",
            ),
            // No retry interval: an administrator must act first.
            StoreError::Refused { reason, .. } => {
                let message = format!("storage refuses the write: {reason}; nothing was changed");
                Self::new(503, "ServiceUnavailable", message)
            }
            StoreError::Unknown { key, .. } => Self::untyped(
                504,
                format!(
                    "the outcome of the write of {key} is unknown, because storage did not confirm it: read the object to \
                     see whether it happened, before you send the change again"
                ),
            ),
            other => Self::internal(other.to_string()),
        }
    }

    /// Returns the response body.
    pub fn to_value(&self) -> Value {
        let mut status = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": self.message, "code": self.code,
        });
        if !self.continue_token.is_empty() {
            status["metadata"] = json!({"continue": self.continue_token});
        }
        if let Some(map) = status.as_object_mut() {
            if !self.reason.is_empty() {
                map.insert("reason".to_owned(), json!(self.reason));
            }
            if self.details.is_object() {
                map.insert("details".to_owned(), self.details.clone());
            }
        }
        status
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_of_the_store_has_its_reason_and_an_outage_has_a_retry_after() {
        let reason = "database space exceeded: defragment etcd".to_owned();
        let refused = ApiError::storage(&StoreError::Refused { operation: "create", reason });
        assert_eq!((refused.code, refused.retry_after()), (503, None));
        let expected =
            "storage refuses the write: database space exceeded: defragment etcd; nothing was changed";
        assert_eq!(refused.message, expected);
        let source = "connection refused by 192.0.2.1".into();
        let silent = ApiError::storage(&StoreError::Unavailable { operation: "create", source });
        assert_eq!(silent.retry_after(), Some(1));
        assert_eq!(silent.message, "storage does not answer; nothing was changed");
    }
}
