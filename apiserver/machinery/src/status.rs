//! Errors as a client sees them: `metav1.Status`, and the one place where failures become HTTP codes.

use std::collections::HashSet;

use serde_json::{Map, Value, json};
use storage_contract::StoreError;

use crate::field_errors::FieldError;
use crate::resource::Resource;

/// The result of serving a request.
pub type ApiResult<T> = Result<T, ApiError>;

/// A refusal or failure, as it goes out.
///
/// Shape on the wire: `metav1.Status` with `status: Failure`.
#[derive(Debug, Clone, PartialEq)]
pub struct ApiError {
    /// HTTP status.
    pub code: u16,
    /// `metav1.StatusReason`, e.g. `NotFound`; empty when there is none.
    pub reason: &'static str,
    /// For people: names the object, says what went wrong and what to do.
    pub message: String,
    /// `metav1.StatusDetails`; `Null` when there are none.
    pub details: Value,
    /// `metadata.continue`: how to go on with a list whose page has expired; empty otherwise.
    pub continue_token: String,
    /// What the client is to be told beside the refusal, each as one `Warning` header.
    pub warnings: Box<[String]>,
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
            reason,
            message: message.into(),
            details: Value::Null,
            continue_token: String::new(),
            warnings: Box::default(),
        }
    }

    /// The same error, after what else the client is to be told.
    #[must_use]
    pub fn after(mut self, mut warnings: Vec<String>) -> Self {
        warnings.extend(std::mem::take(&mut self.warnings));
        self.warnings = warnings.into();
        self
    }

    #[must_use]
    fn about(mut self, resource: &Resource, kind: &str, name: &str) -> Self {
        let mut details = Map::new();
        for (key, value) in [("name", name), ("group", &resource.group), ("kind", kind)] {
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

    /// The same error with a token to go on with.
    #[must_use]
    pub fn with_continue(mut self, token: String) -> Self {
        self.continue_token = token;
        self
    }

    /// Seconds the client should wait before it tries again.
    pub fn retry_after(&self) -> Option<u64> {
        self.details.get("retryAfterSeconds").and_then(Value::as_u64)
    }

    /// The object does not exist.
    pub fn not_found(resource: &Resource, name: &str) -> Self {
        let message = format!("{} \"{name}\" not found", resource.qualified_plural());
        Self::new(404, "NotFound", message).about(resource, &resource.plural, name)
    }

    /// An object of that name exists. `deleting`: it is on its way out.
    pub fn already_exists(resource: &Resource, name: &str, deleting: bool) -> Self {
        let prefix = if deleting { "object is being deleted: " } else { "" };
        let message = format!("{prefix}{} \"{name}\" already exists", resource.qualified_plural());
        Self::new(409, "AlreadyExists", message).about(resource, &resource.plural, name)
    }

    /// No free name was found for a `generateName`.
    pub fn name_exhausted(resource: &Resource, name: &str) -> Self {
        let message = format!(
            "{} \"{name}\" already exists, the server was not able to generate a unique name for the object",
            resource.qualified_plural()
        );
        Self::new(409, "AlreadyExists", message)
            .about(resource, &resource.plural, name)
            .with_detail("retryAfterSeconds", json!(1))
    }

    /// Somebody else changed the object first.
    pub fn modified(resource: &Resource, name: &str) -> Self {
        Self::conflict(
            resource,
            name,
            "the object has been modified; please apply your changes to the latest version and try again",
        )
    }

    /// The object's state forbids the request.
    pub fn conflict(resource: &Resource, name: &str, why: &str) -> Self {
        let message =
            format!("Operation cannot be fulfilled on {} \"{name}\": {why}", resource.qualified_plural());
        Self::new(409, "Conflict", message).about(resource, &resource.plural, name)
    }

    /// Others own what an apply would change: each cause says who, and where.
    pub fn apply_conflict(message: &str, causes: impl Iterator<Item = (String, String)>) -> Self {
        let causes: Vec<Value> = causes
            .map(|(message, field)| json!({"reason": "FieldManagerConflict", "message": message, "field": field}))
            .collect();
        Self::new(409, "Conflict", message).with_detail("causes", Value::Array(causes))
    }

    /// A precondition of a deletion does not hold.
    pub fn precondition(resource: &Resource, name: &str, why: &str) -> Self {
        let kind = resource.qualified_kind();
        Self::new(409, "Conflict", format!("Operation cannot be fulfilled on {kind} \"{name}\": {why}"))
            .about(resource, &resource.kind, name)
    }

    /// The object has these faults.
    pub fn invalid(resource: &Resource, name: &str, errors: &[FieldError]) -> Self {
        let kind = resource.qualified_kind();
        let mut error = Self::invalid_kind(&kind, name, errors);
        let causes = error.details.get("causes").cloned().unwrap_or_default();
        error = error.about(resource, &resource.kind, name).with_detail("causes", causes);
        error
    }

    /// Something that is not a stored object, e.g. request options, has these faults.
    pub fn invalid_kind(qualified_kind: &str, name: &str, errors: &[FieldError]) -> Self {
        let mut known = HashSet::new();
        let texts = errors.iter().map(ToString::to_string).filter(|text| known.insert(text.clone()));
        let texts: Vec<String> = texts.collect();
        let text = match texts.as_slice() {
            [one] => one.clone(),
            several => format!("[{}]", several.join(", ")),
        };
        let causes: Vec<Value> = errors
            .iter()
            .map(|e| json!({"reason": e.kind.reason(), "message": e.body, "field": e.field.as_str()}))
            .collect();
        let (kind, group) = qualified_kind.split_once('.').unwrap_or((qualified_kind, ""));
        let mut error = Self::new(422, "Invalid", format!("{qualified_kind} \"{name}\" is invalid: {text}"))
            .with_detail("causes", json!(causes));
        for (key, value) in [("kind", kind), ("group", group), ("name", name)] {
            if !value.is_empty() {
                error = error.with_detail(key, json!(value));
            }
        }
        error
    }

    /// A patch that cannot be carried out on this object.
    pub fn unprocessable_patch() -> Self {
        let message = "the server rejected our request due to an error in our request";
        Self { details: json!({}), ..Self::new(422, "Invalid", message) }
    }

    /// None of what there is at a path is what the client takes.
    pub fn no_representation(offers: &[&str]) -> Self {
        let message = format!("406: Not Acceptable\n\nAvailable representations: {}", offers.join(", "));
        Self { details: json!({}), ..Self::new(406, "NotAcceptable", message) }
    }

    /// The request makes no sense.
    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::new(400, "BadRequest", message)
    }

    /// No credential was accepted.
    pub fn unauthorized() -> Self {
        Self::new(401, "Unauthorized", "Unauthorized")
    }

    /// The user may not do that to the resource.
    pub fn forbidden(group: &str, resource: &str, name: &str, why: &str) -> Self {
        let plural = resource.split('/').next().unwrap_or(resource);
        let qualified = if group.is_empty() { plural.to_owned() } else { format!("{plural}.{group}") };
        let object = if name.is_empty() { qualified } else { format!("{qualified} \"{name}\"") };
        let mut error = Self::new(403, "Forbidden", format!("{object} is forbidden: {why}"));
        for (key, value) in [("name", name), ("group", group), ("kind", plural)] {
            if !value.is_empty() {
                error = error.with_detail(key, json!(value));
            }
        }
        error
    }

    /// The user may not use that path.
    pub fn forbidden_path(why: &str) -> Self {
        Self { details: json!({}), ..Self::new(403, "Forbidden", format!("forbidden: {why}")) }
    }

    /// There is no such path in a group that exists.
    pub fn no_such_resource() -> Self {
        let message = "the server could not find the requested resource";
        let mut error = Self::new(404, "NotFound", message);
        error.details = json!({});
        error
    }

    /// The resource has no such verb.
    pub fn method_not_allowed(resource: &Resource, verb: &str) -> Self {
        let qualified = resource.qualified_plural();
        Self::new(
            405,
            "MethodNotAllowed",
            format!("{verb} is not supported on resources of kind \"{qualified}\""),
        )
        .about(resource, &resource.plural, "")
    }

    /// What is asked for in that way is not done in that way.
    pub fn method_not_allowed_here() -> Self {
        let message = "the server does not allow this method on the requested resource";
        Self { details: json!({}), ..Self::new(405, "MethodNotAllowed", message) }
    }

    /// The answer cannot be had in any of the forms asked for.
    pub fn not_acceptable(message: impl Into<String>) -> Self {
        Self::new(406, "NotAcceptable", message)
    }

    /// The list or watch starts before the history that is kept.
    pub fn expired(message: impl Into<String>) -> Self {
        Self::new(410, "Expired", message)
    }

    /// The body is too large.
    pub fn too_large(message: impl Into<String>) -> Self {
        Self::new(413, "RequestEntityTooLarge", message)
    }

    /// The body is in a form that is not read here.
    pub fn unsupported_media_type(accepted: &[&str]) -> Self {
        let list = accepted.join(", ");
        let message = format!(
            "the body of the request was in an unknown format - accepted media types include: {list}"
        );
        Self::new(415, "UnsupportedMediaType", message)
    }

    /// Something broke on our side.
    pub fn internal(message: impl Into<String>) -> Self {
        let message = message.into();
        let mut error = Self::new(500, "InternalError", format!("Internal error occurred: {message}"));
        error = error.with_detail("causes", json!([{"message": message}]));
        error
    }

    /// A failure without a reason word, as upstream answers some of them.
    pub fn untyped(code: u16, message: impl Into<String>) -> Self {
        Self::new(code, "", message)
    }

    /// Not now.
    pub fn unavailable(message: impl Into<String>) -> Self {
        Self::new(503, "ServiceUnavailable", message).with_detail("retryAfterSeconds", json!(1))
    }

    /// The server has not read its objects yet. Nobody may take this for "there is no such thing".
    pub fn starting() -> Self {
        let message =
            "the request has been made before all known HTTP paths have been installed, please try again";
        Self::new(503, "ServiceUnavailable", message).with_detail("retryAfterSeconds", json!(5))
    }

    /// The request took too long.
    pub fn timeout() -> Self {
        let message = "Timeout: request did not complete within the allotted timeout";
        Self { details: json!({}), ..Self::new(504, "Timeout", message) }
    }

    /// A resource version that has not happened yet.
    pub fn revision_too_large(requested: u64, current: u64) -> Self {
        let message = format!("Timeout: Too large resource version: {requested}, current: {current}");
        Self::new(504, "Timeout", message)
            .with_detail(
                "causes",
                json!([{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}]),
            )
            .with_detail("retryAfterSeconds", json!(1))
    }

    /// Creating in a namespace that is going away.
    pub fn namespace_terminating(resource: &Resource, name: &str, namespace: &str) -> Self {
        let why =
            format!("unable to create new content in namespace {namespace} because it is being terminated");
        let message = format!("namespace {namespace} is being terminated");
        let cause =
            json!([{"reason": "NamespaceTerminating", "message": message, "field": "metadata.namespace"}]);
        Self::forbidden(&resource.group, &resource.plural, name, &why).with_detail("causes", cause)
    }

    /// What a failed store call means for the request that made it. `Conflict` and `Exists` are
    /// for the caller to interpret; they end here only when it did not.
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
            StoreError::Unknown { key, .. } => Self::untyped(
                504,
                format!(
                    "storage did not confirm the write of {key}: read the object to see whether it happened"
                ),
            ),
            other => Self::internal(other.to_string()),
        }
    }

    /// The body.
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
