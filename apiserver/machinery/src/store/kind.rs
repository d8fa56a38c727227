//! Registered kind, in the version of a request.

use std::borrow::Cow;
use std::sync::Arc;

use serde_json::Value;

use crate::conversion::ConversionError;
use crate::resource::Resource;
use crate::status::{ApiError, ApiResult};

/// One registered kind in the version of a request.
#[derive(Debug, Clone, Copy)]
pub struct Kind<'a> {
    /// The resource in the request's version.
    pub resource: &'a Arc<Resource>,
    /// The resource in the stored version.
    pub stored: &'a Arc<Resource>,
    /// Index of its cache: the position among the stored kinds.
    pub(super) cache_index: usize,
}

impl Kind<'_> {
    /// Converts an object from the request's version into the stored version.
    pub(super) fn as_stored<'a>(&self, object: &'a Value) -> ApiResult<Cow<'a, Value>> {
        match &self.resource.conversion {
            None => Ok(Cow::Borrowed(object)),
            Some(conversion) => {
                conversion.stored(object.clone()).map(Cow::Owned).map_err(|error| self.unconvertible(&error))
            }
        }
    }

    /// Converts a stored object into the request's version.
    pub(super) fn served(&self, object: Value) -> ApiResult<Value> {
        match &self.resource.conversion {
            None => Ok(object),
            Some(conversion) => conversion.served(object).map_err(|error| self.unconvertible(&error)),
        }
    }

    fn unconvertible(&self, error: &ConversionError) -> ApiError {
        let (kind, from, to) = (&self.resource.kind, &self.resource.version, &self.stored.version);
        ApiError::internal(format!("{kind} cannot be converted between {from} and {to}: {error}"))
    }
}
