//! What a kind asks of other objects before one of its own is written.

use async_trait::async_trait;
use serde_json::Value;

use crate::status::ApiResult;
use apiserver_schema::field_errors::FieldError;

/// All objects there are, in their stored versions.
#[async_trait]
pub trait ObjectReader: Send + Sync + std::fmt::Debug {
    /// One object, by group, plural, namespace and name.
    ///
    /// # Errors
    /// 503 when it could not be found out whether it is there.
    async fn find(&self, group: &str, plural: &str, namespace: &str, name: &str) -> ApiResult<Option<Value>>;

    /// Every object of a kind, by group and plural, in one namespace, or in all where that is empty.
    ///
    /// # Errors
    /// 500 when one cannot be read; 503.
    async fn all(&self, group: &str, plural: &str, namespace: &str) -> ApiResult<Vec<Value>>;
}

/// What came of looking at others.
#[derive(Debug, Default)]
pub struct Judgement {
    /// Reasons to refuse the object.
    pub errors: Vec<FieldError>,
    /// What its writer should know.
    pub warnings: Vec<String>,
}
