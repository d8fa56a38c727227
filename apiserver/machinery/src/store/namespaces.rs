//! Nothing is created in a namespace that does not exist or is going away.

use async_trait::async_trait;
use serde_json::{Value, json};

use super::{Kind, ObjectStore};
use crate::object;
use crate::status::{ApiError, ApiResult};

/// Where a namespace may be known that is not in our own store: the host cluster.
#[async_trait]
pub trait NamespaceSource: Send + Sync + std::fmt::Debug + 'static {
    /// The namespace object, or `None` when it does not exist there either.
    ///
    /// # Errors
    /// 503 when the source cannot be asked.
    async fn namespace(&self, name: &str) -> ApiResult<Option<Value>>;
}

/// There is no other place.
#[derive(Debug, Clone, Copy, Default)]
pub struct OwnNamespaces;

#[async_trait]
impl NamespaceSource for OwnNamespaces {
    async fn namespace(&self, _name: &str) -> ApiResult<Option<Value>> {
        Ok(None)
    }
}

impl ObjectStore {
    pub(super) async fn check_namespace(&self, kind: Kind<'_>, namespace: &str, name: &str) -> ApiResult<()> {
        let Some(namespaces) = self.kind_of("", "namespaces").filter(|_| kind.resource.namespaced) else {
            return Ok(());
        };
        let key = self.key(namespaces, "", namespace)?;
        let found = match self.read(namespaces, &key).await? {
            Some((found, _)) => Some(found),
            None => self.namespaces.namespace(namespace).await?,
        };
        let Some(found) = found else { return Err(ApiError::not_found(namespaces.resource, namespace)) };
        let terminating = found.pointer("/status/phase") == Some(&json!("Terminating"));
        if object::is_deleting(&found) || terminating {
            return Err(ApiError::namespace_terminating(kind.resource, name, namespace));
        }
        Ok(())
    }
}
