//! Conversion of objects between the stored version of a kind and another served version.

use serde_json::Value;

use apiserver_schema::field_errors::FieldError;

/// Error of an object that cannot be converted to another version.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {problem}")]
pub struct ConversionError {
    /// Path of the field that prevents the conversion, e.g. `spec.strategy`.
    pub field: String,
    /// Description of the problem.
    pub problem: String,
}

/// Conversion between the stored version of a kind and one other version. The object keeps the values that only one of
/// the two versions can express, so that no client of either version loses data.
pub trait Conversion: Send + Sync + std::fmt::Debug + 'static {
    /// Converts an object into the stored version, `apiVersion` included.
    ///
    /// # Errors
    /// Returns an error if a field has no counterpart.
    fn stored(&self, object: Value) -> Result<Value, ConversionError>;

    /// Returns every value of an object of this version that cannot be stored, and is therefore refused.
    fn validate(&self, _object: &Value) -> Vec<FieldError> {
        Vec::new()
    }

    /// Converts a stored object into this version, `apiVersion` included.
    ///
    /// # Errors
    /// Returns an error if a field has no counterpart.
    fn served(&self, object: Value) -> Result<Value, ConversionError>;
}
