//! Conversion of older versions: the rules of `apiserver-conversion` behind the machinery's trait.

use std::sync::Arc;

use apiserver_conversion::Lossless;
use apiserver_machinery::conversion::{Conversion, ConversionError};
use apiserver_schema::field_errors::{FieldError, FieldPath};
use apiserver_types::Descriptor;
use serde_json::Value;

/// Returns the conversion of a version to the stored version, or `None` for the stored version itself.
pub(crate) fn of(descriptor: &Descriptor) -> Option<Arc<dyn Conversion>> {
    apiserver_conversion::conversion(descriptor.group, descriptor.kind, descriptor.version)
        .map(|rules| -> Arc<dyn Conversion> { Arc::new(ByRules(rules)) })
}

#[derive(Debug)]
struct ByRules(Lossless);

impl Conversion for ByRules {
    fn stored(&self, object: Value) -> Result<Value, ConversionError> {
        Ok(self.0.stored(object))
    }

    fn validate(&self, object: &Value) -> Vec<FieldError> {
        let unconvertible = self.0.unconvertible(object).into_iter();
        unconvertible
            .map(|one| FieldError::invalid(FieldPath::new(one.field), &one.value, &one.problem))
            .collect()
    }

    fn served(&self, object: Value) -> Result<Value, ConversionError> {
        Ok(self.0.served(object))
    }
}
