//! Errors of an object, or of a change to it.

use std::collections::HashSet;

use serde_json::{Value, json};

use super::{ApiError, ResourceNames};
use apiserver_schema::field_errors::FieldError;
use apiserver_schema::go_text::quoted;

/// Addition to the message that a generated name is taken.
const NO_OTHER_NAME: &str = ", the server was not able to generate a unique name for the object";

impl ApiError {
    /// The object does not exist.
    pub fn not_found(resource: &(impl ResourceNames + ?Sized), name: &str) -> Self {
        let message = format!("{} {} not found", resource.qualified_plural(), quoted(name));
        Self::new(404, "NotFound", message).about(resource, resource.plural(), name)
    }

    /// An object of that name exists. If `deleting`, it is being deleted.
    pub fn already_exists(resource: &(impl ResourceNames + ?Sized), name: &str, deleting: bool) -> Self {
        let prefix = if deleting { "object is being deleted: " } else { "" };
        let message = format!("{prefix}{} \"{name}\" already exists", resource.qualified_plural());
        Self::new(409, "AlreadyExists", message).about(resource, resource.plural(), name)
    }

    /// No free name was found for a `generateName`.
    pub fn name_exhausted(resource: &(impl ResourceNames + ?Sized), name: &str) -> Self {
        Self::already_exists(resource, name, false).of_generated_name()
    }

    /// The same error for an object that has a `generateName` in addition to its name.
    pub(crate) fn of_generated_name(mut self) -> Self {
        if self.reason != "AlreadyExists" {
            return self;
        }
        self.message.push_str(NO_OTHER_NAME);
        self.with_detail("retryAfterSeconds", json!(1))
    }

    /// Another client changed the object first.
    pub fn modified(resource: &(impl ResourceNames + ?Sized), name: &str) -> Self {
        Self::conflict(
            resource,
            name,
            "the object has been modified; please apply your changes to the latest version and try again",
        )
    }

    /// The object's state forbids the request.
    pub fn conflict(resource: &(impl ResourceNames + ?Sized), name: &str, why: &str) -> Self {
        let message =
            format!("Operation cannot be fulfilled on {} \"{name}\": {why}", resource.qualified_plural());
        Self::new(409, "Conflict", message).about(resource, resource.plural(), name)
    }

    /// Other field managers own fields that an apply would change. Each cause names one manager and one field.
    pub fn apply_conflict(message: &str, causes: impl Iterator<Item = (String, String)>) -> Self {
        let causes: Vec<Value> = causes
            .map(|(message, field)| json!({"reason": "FieldManagerConflict", "message": message, "field": field}))
            .collect();
        Self::new(409, "Conflict", message).with_detail("causes", Value::Array(causes))
    }

    /// A precondition of a deletion does not hold.
    pub fn precondition(resource: &(impl ResourceNames + ?Sized), name: &str, why: &str) -> Self {
        let kind = resource.qualified_kind();
        Self::new(409, "Conflict", format!("Operation cannot be fulfilled on {kind} \"{name}\": {why}"))
            .about(resource, resource.kind(), name)
    }

    /// The object is invalid.
    pub fn invalid(resource: &(impl ResourceNames + ?Sized), name: &str, errors: &[FieldError]) -> Self {
        let kind = resource.qualified_kind();
        let mut error = Self::invalid_kind(&kind, name, errors);
        let causes = error.details.get("causes").cloned().unwrap_or_default();
        error = error.about(resource, resource.kind(), name).with_detail("causes", causes);
        error
    }

    /// A value that is no stored object, e.g. request options, is invalid.
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

    /// The patch cannot be applied to this object.
    pub fn unprocessable_patch() -> Self {
        let message = "the server rejected our request due to an error in our request";
        Self { details: json!({}), ..Self::new(422, "Invalid", message) }
    }

    /// The namespace of a create is being deleted.
    pub fn namespace_terminating(
        resource: &(impl ResourceNames + ?Sized),
        name: &str,
        namespace: &str,
    ) -> Self {
        let why =
            format!("unable to create new content in namespace {namespace} because it is being terminated");
        let message = format!("namespace {namespace} is being terminated");
        let cause =
            json!([{"reason": "NamespaceTerminating", "message": message, "field": "metadata.namespace"}]);
        Self::forbidden(resource.group(), resource.plural(), name, &why).with_detail("causes", cause)
    }
}
