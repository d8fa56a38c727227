//! Identity service of a cloud.

use async_trait::async_trait;

use crate::{ApplicationCredential, CloudResult, NewApplicationCredential};

/// Identity service (Keystone): the application credentials of the user.
#[async_trait]
pub trait IdentityService: Send + Sync + std::fmt::Debug + 'static {
    /// Lists the application credentials of the user.
    async fn application_credentials(&self) -> CloudResult<Vec<ApplicationCredential>>;
    /// Creates an application credential of the user in the project. A user who logs in with a restricted one may not: the
    /// error is of class `Forbidden`.
    async fn create_application_credential(
        &self,
        new: &NewApplicationCredential,
    ) -> CloudResult<ApplicationCredential>;
    /// Deletes an application credential of the user. Its tokens end with it.
    async fn delete_application_credential(&self, id: &str) -> CloudResult<()>;
}
