//! Field validation: the query parameter `fieldValidation` of a write.

/// Treatment of fields that the schema does not know, and of duplicate fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum FieldValidation {
    /// They are dropped silently.
    Ignore,
    /// They are dropped with a warning.
    #[default]
    Warn,
    /// The request is refused.
    Strict,
}
