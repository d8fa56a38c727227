//! A kind as a request asks for it.

use std::borrow::Cow;
use std::sync::Arc;

use serde_json::Value;

use crate::conversion::ConversionError;
use crate::resource::Resource;
use crate::status::{ApiError, ApiResult};

/// One registered kind in the version of a request, and how it is kept.
#[derive(Debug, Clone, Copy)]
pub struct Kind<'a> {
    /// What is known of it in the request's version.
    pub resource: &'a Arc<Resource>,
    /// The same in the stored version.
    pub stored: &'a Arc<Resource>,
    /// The section of the cache with its objects: its place among the stored kinds.
    pub(super) section: usize,
}

impl Kind<'_> {
    /// An object of the request's version as it is stored.
    pub(super) fn as_stored<'a>(&self, object: &'a Value) -> ApiResult<Cow<'a, Value>> {
        match &self.resource.conversion {
            None => Ok(Cow::Borrowed(object)),
            Some(conversion) => {
                conversion.stored(object.clone()).map(Cow::Owned).map_err(|error| self.unconvertible(&error))
            }
        }
    }

    /// A stored object in the request's version.
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
