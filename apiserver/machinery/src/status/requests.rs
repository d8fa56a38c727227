//! Errors of a request, independent of its object.

use serde_json::json;

use super::{ApiError, ResourceNames};

impl ApiError {
    /// The client accepts none of the representations at a path.
    pub fn no_representation(offers: &[&str]) -> Self {
        let message = format!("406: Not Acceptable\n\nAvailable representations: {}", offers.join(", "));
        Self { details: json!({}), ..Self::new(406, "NotAcceptable", message) }
    }

    /// The request is malformed.
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
        Self { details: json!({}), ..Self::new(403, "Forbidden", format!("forbidden: {why}")) }.denial()
    }

    /// Marks the refusal of a whole request.
    #[must_use]
    pub fn denial(self) -> Self {
        Self { is_denial: true, ..self }
    }

    /// The path does not exist in an existing group.
    pub fn no_such_resource() -> Self {
        let message = "the server could not find the requested resource";
        let mut error = Self::new(404, "NotFound", message);
        error.details = json!({});
        error
    }

    /// The resource has no such verb.
    pub fn method_not_allowed(resource: &(impl ResourceNames + ?Sized), verb: &str) -> Self {
        let qualified = resource.qualified_plural();
        Self::new(
            405,
            "MethodNotAllowed",
            format!("{verb} is not supported on resources of kind \"{qualified}\""),
        )
        .about(resource, resource.plural(), "")
    }

    /// The server itself defines the objects of the kind.
    pub fn read_only(resource: &(impl ResourceNames + ?Sized)) -> Self {
        let qualified = resource.qualified_plural();
        let message =
            format!("{qualified} are read-only: this server defines them, and clients cannot change them");
        Self::new(405, "MethodNotAllowed", message).about(resource, resource.plural(), "")
    }

    /// The path does not support the method of the request.
    pub fn method_not_allowed_here() -> Self {
        let message = "the server does not allow this method on the requested resource";
        Self { details: json!({}), ..Self::new(405, "MethodNotAllowed", message) }
    }

    /// The server supports none of the accepted media types.
    pub fn not_acceptable(message: impl Into<String>) -> Self {
        Self::new(406, "NotAcceptable", message)
    }

    /// The list or watch starts before the oldest revision of the history.
    pub fn expired(message: impl Into<String>) -> Self {
        Self::new(410, "Expired", message)
    }

    /// The body is too large.
    pub fn too_large(message: impl Into<String>) -> Self {
        Self::new(413, "RequestEntityTooLarge", message)
    }

    /// The server does not support the media type of the body.
    pub fn unsupported_media_type(accepted: &[&str]) -> Self {
        let list = accepted.join(", ");
        let message = format!(
            "the body of the request was in an unknown format - accepted media types include: {list}"
        );
        Self::new(415, "UnsupportedMediaType", message)
    }

    /// The request took too long.
    pub fn timeout() -> Self {
        let message = "Timeout: request did not complete within the allotted timeout";
        Self { details: json!({}), ..Self::new(504, "Timeout", message) }
    }

    /// The revision has not happened yet.
    pub fn revision_too_large(requested: u64, current: u64) -> Self {
        let message = format!("Timeout: Too large resource version: {requested}, current: {current}");
        Self::new(504, "Timeout", message)
            .with_detail(
                "causes",
                json!([{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}]),
            )
            .with_detail("retryAfterSeconds", json!(1))
    }
}
