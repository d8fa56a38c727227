//! Validation errors of fields, and paths of fields.

use std::fmt;

use serde_json::Value;

use crate::go_text::quoted;

/// Path of a field, for example `spec.ports[0].network`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FieldPath(String);

impl FieldPath {
    /// Creates a path of one or more dotted names.
    pub fn new(path: impl Into<String>) -> Self {
        Self(path.into())
    }

    /// Returns the path of a field of this object.
    #[must_use]
    pub fn child(&self, name: &str) -> Self {
        if self.0.is_empty() { Self(name.to_owned()) } else { Self([&self.0, ".", name].concat()) }
    }

    /// Returns the path of an element of this list.
    #[must_use]
    pub fn index(&self, index: usize) -> Self {
        Self(format!("{}[{index}]", self.0))
    }

    /// Returns the path of a value of this map.
    #[must_use]
    pub fn key(&self, key: &str) -> Self {
        Self(format!("{}[{key}]", self.0))
    }

    /// Returns the path as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for FieldPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Name of the field in an error that concerns no single field.
pub(crate) const NO_FIELD: &str = "<nil>";

/// Kind of a validation error: the `reason` of a `metav1.StatusCause`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FieldErrorKind {
    /// Missing field.
    Required,
    /// Value of the right type that is not allowed.
    Invalid,
    /// Value that is not in the set of allowed values.
    NotSupported,
    /// Field that cannot be set or changed here.
    Forbidden,
    /// Duplicate of a value that must be unique.
    Duplicate,
    /// Text that is too long.
    TooLong,
    /// List or map with too many entries.
    TooMany,
    /// Value of the wrong type.
    TypeInvalid,
    /// Field that could not be validated, because its rule is invalid or missing.
    Internal,
}

impl FieldErrorKind {
    /// Returns the word on the wire.
    pub const fn reason(self) -> &'static str {
        match self {
            Self::Required => "FieldValueRequired",
            Self::Invalid => "FieldValueInvalid",
            Self::NotSupported => "FieldValueNotSupported",
            Self::Forbidden => "FieldValueForbidden",
            Self::Duplicate => "FieldValueDuplicate",
            Self::TooLong => "FieldValueTooLong",
            Self::TooMany => "FieldValueTooMany",
            Self::TypeInvalid => "FieldValueTypeInvalid",
            Self::Internal => "InternalError",
        }
    }
}

/// Beginning of a message that shows a value.
const INVALID: &str = "Invalid value: ";

/// Validation error of one field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldError {
    /// Kind of the error.
    pub kind: FieldErrorKind,
    /// Path of the field.
    pub field: FieldPath,
    /// Message without the field, for example `Required value: must name a cluster`.
    pub body: String,
    /// Offset in `body` of the text that follows the value.
    detail_at: usize,
}

impl FieldError {
    /// Returns the same error with the path of a field in an enclosing value.
    #[must_use]
    pub fn within(mut self, field: &str) -> Self {
        if self.field.0 == NO_FIELD {
            self.field = FieldPath::new(field);
            return self;
        }
        let joint = if self.field.0.is_empty() || self.field.0.starts_with('[') { "" } else { "." };
        self.field = FieldPath(format!("{field}{joint}{}", self.field.0));
        self
    }

    /// Returns the same error with `text`, quoted, instead of the value. It is added if no value is shown.
    #[must_use]
    pub fn showing(mut self, text: &str) -> Self {
        let word = match self.kind {
            FieldErrorKind::Invalid | FieldErrorKind::TypeInvalid => INVALID,
            FieldErrorKind::NotSupported => "Unsupported value: ",
            FieldErrorKind::TooMany => "Too many: ",
            FieldErrorKind::Duplicate => "Duplicate value: ",
            // The messages of these kinds show no value.
            FieldErrorKind::Required
            | FieldErrorKind::Forbidden
            | FieldErrorKind::TooLong
            | FieldErrorKind::Internal => return self,
        };
        let detail = self.body.get(self.detail_at..).unwrap_or_default();
        let joint = if self.kind == FieldErrorKind::Duplicate { "" } else { ": " };
        let shown = format!("{word}{text:?}{joint}");
        self.body = if joint.is_empty() { shown.clone() } else { format!("{shown}{detail}") };
        self.detail_at = shown.len();
        self
    }

    /// Returns the same error without `prefix` in the text that follows the value.
    #[must_use]
    pub fn without_prefix(mut self, prefix: &str) -> Self {
        let detail = self.body.get(self.detail_at..).unwrap_or_default();
        if let Some(rest) = detail.strip_prefix(prefix) {
            self.body = format!("{}{rest}", self.body.get(..self.detail_at).unwrap_or_default());
        }
        self
    }

    fn new(kind: FieldErrorKind, field: FieldPath, shown: String, detail: &str) -> Self {
        let detail_at = shown.len();
        Self { kind, field, body: shown + detail, detail_at }
    }

    /// Creates the error of a missing field.
    pub fn required(field: FieldPath, detail: &str) -> Self {
        let joint = if detail.is_empty() { "" } else { ": " };
        Self::new(FieldErrorKind::Required, field, format!("Required value{joint}"), detail)
    }

    /// Creates the error of a value that is not allowed; `detail` names the allowed values.
    pub fn invalid(field: FieldPath, value: &Value, detail: &str) -> Self {
        Self::invalid_text(field, &shown(value), detail)
    }

    /// Creates the error of a value that is given as text and is not allowed; `detail` names the allowed values.
    pub fn invalid_text(field: FieldPath, value: &str, detail: &str) -> Self {
        Self::new(FieldErrorKind::Invalid, field, format!("{INVALID}{value}: "), detail)
    }

    /// Creates the error of a value that is not shown and not allowed; `detail` names the reason.
    pub fn invalid_unshown(field: FieldPath, detail: &str) -> Self {
        Self::new(FieldErrorKind::Invalid, field, INVALID.to_owned(), detail)
    }

    /// Creates the error of a value of the wrong type.
    pub fn type_invalid(field: FieldPath, value: &Value, detail: &str) -> Self {
        Self::new(FieldErrorKind::TypeInvalid, field, format!("{INVALID}{}: ", shown(value)), detail)
    }

    /// Creates the error of a value that is not one of `supported`.
    pub fn not_supported(field: FieldPath, value: &Value, supported: &[&str]) -> Self {
        let list = supported.iter().map(|s| format!("{s:?}")).collect::<Vec<_>>().join(", ");
        let detail = format!("supported values: {list}");
        let shown = format!("Unsupported value: {}: ", shown(value));
        Self::new(FieldErrorKind::NotSupported, field, shown, &detail)
    }

    /// Creates the error of a field that cannot be set or changed.
    pub fn forbidden(field: FieldPath, detail: &str) -> Self {
        Self::new(FieldErrorKind::Forbidden, field, "Forbidden: ".to_owned(), detail)
    }

    /// Creates the error of a field that could not be validated; `detail` names what to fix first.
    pub fn internal(field: FieldPath, detail: &str) -> Self {
        Self::new(FieldErrorKind::Internal, field, "Internal error: ".to_owned(), detail)
    }

    /// Creates the error of a duplicate value.
    pub fn duplicate(field: FieldPath, value: &Value) -> Self {
        Self::new(FieldErrorKind::Duplicate, field, format!("Duplicate value: {}", shown(value)), "")
    }

    /// Creates the error of a text that is longer than `limit` bytes.
    pub fn too_long(field: FieldPath, limit: u64) -> Self {
        let detail = format!("may not be more than {}", counted(limit, "byte"));
        Self::new(FieldErrorKind::TooLong, field, "Too long: ".to_owned(), &detail)
    }

    /// Creates the error of a list or map with more than `limit` entries.
    pub fn too_many(field: FieldPath, count: usize, limit: u64) -> Self {
        let detail = format!("must have at most {}", counted(limit, "item"));
        Self::new(FieldErrorKind::TooMany, field, format!("Too many: {count}: "), &detail)
    }
}

/// Returns a count with its noun: `1 item`, `2 items`.
fn counted(count: u64, what: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} {what}{plural}")
}

/// Returns a value as an error message quotes it.
fn shown(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), quoted)
}

impl fmt::Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.body)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_replaced_value_is_shown_in_errors_that_have_one() {
        let path = || FieldPath::new("a");
        for (error, expected) in [
            (
                FieldError::invalid(path(), &json!(1), "in body is wrong"),
                "a: Invalid value: \"[1]\": is wrong",
            ),
            (FieldError::invalid_unshown(path(), "is wrong"), "a: Invalid value: \"[1]\": is wrong"),
            (
                FieldError::not_supported(path(), &json!(1), &["b"]),
                "a: Unsupported value: \"[1]\": supported values: \"b\"",
            ),
            (FieldError::too_many(path(), 2, 1), "a: Too many: \"[1]\": must have at most 1 item"),
            (FieldError::duplicate(path(), &json!(1)), "a: Duplicate value: \"[1]\""),
            (FieldError::too_long(path(), 1), "a: Too long: may not be more than 1 byte"),
            (FieldError::required(path(), ""), "a: Required value"),
            (FieldError::internal(path(), "gone"), "a: Internal error: gone"),
        ] {
            assert_eq!(error.without_prefix("in body ").showing("[1]").to_string(), expected);
        }
    }
}
