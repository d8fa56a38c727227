//! Access to Swift: the URL of an account, and a token. Its objects are streams, so the caller makes the calls.

use std::sync::Arc;

use controllers_infrastructure::{CloudResult, Credentials};

use crate::allowed_endpoints::AllowedEndpoints;
use crate::login::log_in;

/// Access to the object store of a project.
#[derive(Clone, PartialEq, Eq)]
pub struct ObjectStoreAccess {
    /// URL of the account, without a slash at its end.
    pub url: String,
    /// Token for the header `X-Auth-Token`. The cloud decides on its lifetime, usually an hour or more.
    pub token: String,
}

impl std::fmt::Debug for ObjectStoreAccess {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ObjectStoreAccess").field("url", &self.url).finish_non_exhaustive()
    }
}

impl ObjectStoreAccess {
    /// Logs in, and looks up the object store in the catalog. The credentials are the operator's, so each endpoint is
    /// allowed.
    ///
    /// # Errors
    /// Those of a login; `Broken`, if the region has no object store.
    pub async fn log_in(credentials: &Credentials) -> CloudResult<Self> {
        let allowed = Arc::new(AllowedEndpoints::all());
        let (url, token) = log_in(credentials, &allowed).await?.object_store()?;
        Ok(Self { url, token })
    }
}
