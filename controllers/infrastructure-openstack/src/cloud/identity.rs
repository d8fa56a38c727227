//! Calls of the identity service.

use async_trait::async_trait;
use controllers_infrastructure::*;

use super::OpenStackCloud;
use crate::identity;

#[async_trait]
impl IdentityService for OpenStackCloud {
    async fn application_credentials(&self) -> CloudResult<Vec<ApplicationCredential>> {
        identity::application_credentials(&self.0).await
    }

    async fn create_application_credential(
        &self,
        new: &NewApplicationCredential,
    ) -> CloudResult<ApplicationCredential> {
        identity::create(&self.0, new).await
    }

    async fn delete_application_credential(&self, id: &str) -> CloudResult<()> {
        identity::delete(&self.0, id).await
    }
}
