//! Related objects: other objects that a kind reads before one of its own is written.

use async_trait::async_trait;
use serde_json::Value;

use crate::status::ApiResult;
use apiserver_schema::field_errors::FieldError;

/// Reader of all objects, in their stored versions.
#[async_trait]
pub trait ObjectReader: Send + Sync + std::fmt::Debug {
    /// Returns one object, by group, plural, namespace and name.
    ///
    /// # Errors
    /// 503 if the store does not answer.
    async fn find(&self, group: &str, plural: &str, namespace: &str, name: &str) -> ApiResult<Option<Value>>;

    /// Returns every object of a kind, by group and plural, in one namespace, or in all if the namespace is empty.
    ///
    /// # Errors
    /// 500 if an object cannot be decoded; 503.
    async fn all(&self, group: &str, plural: &str, namespace: &str) -> ApiResult<Vec<Value>>;
}

/// Result of a validation that reads related objects.
#[derive(Debug, Default)]
pub struct Verdict {
    /// Reasons to refuse the object.
    pub errors: Vec<FieldError>,
    /// Warnings for the client.
    pub warnings: Vec<String>,
}
