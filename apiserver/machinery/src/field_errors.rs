//! What is wrong with one field of an object.

use std::fmt;

use serde_json::Value;

use crate::go_text::quoted;

/// The path of a field, e.g. `spec.ports[0].network`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FieldPath(String);

impl FieldPath {
    /// A path of one or more dotted names.
    pub fn new(path: impl Into<String>) -> Self {
        Self(path.into())
    }

    /// A field of the object here.
    #[must_use]
    pub fn child(&self, name: &str) -> Self {
        if self.0.is_empty() { Self(name.to_owned()) } else { Self(format!("{}.{name}", self.0)) }
    }

    /// An element of the list here.
    #[must_use]
    pub fn index(&self, index: usize) -> Self {
        Self(format!("{}[{index}]", self.0))
    }

    /// A value of the map here.
    #[must_use]
    pub fn key(&self, key: &str) -> Self {
        Self(format!("{}[{key}]", self.0))
    }

    /// The path as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for FieldPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// How a fault of no field in particular names its field.
pub(crate) const NO_FIELD: &str = "<nil>";

/// In which way a field is wrong: the `reason` of a `metav1.StatusCause`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FieldErrorKind {
    /// It is missing.
    Required,
    /// It has the right type and a value that is not allowed.
    Invalid,
    /// It is not one of the values allowed.
    NotSupported,
    /// It may not be set, or not be changed, here.
    Forbidden,
    /// It occurs twice where it must be unique.
    Duplicate,
    /// The text is too long.
    TooLong,
    /// The list or map has too many entries.
    TooMany,
    /// It has the wrong type.
    TypeInvalid,
}

impl FieldErrorKind {
    /// The word on the wire.
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
        }
    }
}

/// One reason to refuse an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldError {
    /// In which way it is wrong.
    pub kind: FieldErrorKind,
    /// Where.
    pub field: FieldPath,
    /// The message without the field, e.g. `Required value: must name a cluster`.
    pub body: String,
}

impl FieldError {
    /// The same fault of what stands in a field of something else.
    #[must_use]
    pub(crate) fn within(mut self, field: &str) -> Self {
        if self.field.0 == NO_FIELD {
            self.field = FieldPath::new(field);
            return self;
        }
        let joint = if self.field.0.is_empty() || self.field.0.starts_with('[') { "" } else { "." };
        self.field = FieldPath(format!("{field}{joint}{}", self.field.0));
        self
    }

    /// The field is missing.
    pub fn required(field: FieldPath, detail: &str) -> Self {
        let body =
            if detail.is_empty() { "Required value".to_owned() } else { format!("Required value: {detail}") };
        Self { kind: FieldErrorKind::Required, field, body }
    }

    /// The value is not allowed; `detail` says what would be.
    pub fn invalid(field: FieldPath, value: &Value, detail: &str) -> Self {
        Self::invalid_text(field, &shown(value), detail)
    }

    /// The value, already written out, is not allowed; `detail` says what would be.
    pub fn invalid_text(field: FieldPath, value: &str, detail: &str) -> Self {
        Self { kind: FieldErrorKind::Invalid, field, body: format!("Invalid value: {value}: {detail}") }
    }

    /// The value, which is not shown, is not allowed; `detail` says why.
    pub fn invalid_unshown(field: FieldPath, detail: &str) -> Self {
        Self { kind: FieldErrorKind::Invalid, field, body: format!("Invalid value: {detail}") }
    }

    /// The value has the wrong type.
    pub fn type_invalid(field: FieldPath, value: &Value, detail: &str) -> Self {
        let body = format!("Invalid value: {}: {detail}", shown(value));
        Self { kind: FieldErrorKind::TypeInvalid, field, body }
    }

    /// The value is not one of `supported`.
    pub fn not_supported(field: FieldPath, value: &Value, supported: &[&str]) -> Self {
        let list = supported.iter().map(|s| format!("{s:?}")).collect::<Vec<_>>().join(", ");
        let body = format!("Unsupported value: {}: supported values: {list}", shown(value));
        Self { kind: FieldErrorKind::NotSupported, field, body }
    }

    /// The field may not be set or changed.
    pub fn forbidden(field: FieldPath, detail: &str) -> Self {
        Self { kind: FieldErrorKind::Forbidden, field, body: format!("Forbidden: {detail}") }
    }

    /// The value occurs twice.
    pub fn duplicate(field: FieldPath, value: &Value) -> Self {
        Self { kind: FieldErrorKind::Duplicate, field, body: format!("Duplicate value: {}", shown(value)) }
    }

    /// The text is longer than `limit` bytes.
    pub fn too_long(field: FieldPath, limit: u64) -> Self {
        Self {
            kind: FieldErrorKind::TooLong,
            field,
            body: format!("Too long: may not be more than {limit} bytes"),
        }
    }

    /// There are more than `limit` entries.
    pub fn too_many(field: FieldPath, count: usize, limit: u64) -> Self {
        let body = format!("Too many: {count}: must have at most {limit} items");
        Self { kind: FieldErrorKind::TooMany, field, body }
    }
}

/// A value as a fault quotes it.
fn shown(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), quoted)
}

impl fmt::Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.body)
    }
}
