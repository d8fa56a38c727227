//! From the stored version of a kind to another served one, and back.

use serde_json::Value;

use apiserver_schema::field_errors::FieldError;

/// An object that cannot be shown in another version.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {problem}")]
pub struct ConversionError {
    /// Path of the field that stands in the way, e.g. `spec.strategy`.
    pub field: String,
    /// What is wrong with it.
    pub problem: String,
}

/// Between the stored version of a kind and one other. What only one of the two can say is kept in
/// the object, so that nothing a client of either version wrote is lost.
pub trait Conversion: Send + Sync + std::fmt::Debug + 'static {
    /// The object in the stored version, `apiVersion` included.
    ///
    /// # Errors
    /// When a field has no counterpart.
    fn stored(&self, object: Value) -> Result<Value, ConversionError>;

    /// Everything that an object of this version says and that cannot be stored, which is refused.
    fn validate(&self, _object: &Value) -> Vec<FieldError> {
        Vec::new()
    }

    /// The stored object in this version, `apiVersion` included.
    ///
    /// # Errors
    /// When a field has no counterpart.
    fn served(&self, object: Value) -> Result<Value, ConversionError>;
}
