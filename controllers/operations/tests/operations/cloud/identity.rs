//! Calls of the identity service.

use async_trait::async_trait;
use controllers_infrastructure::*;

use super::{FakeCloud, unused};

#[async_trait]
impl IdentityService for FakeCloud {
    async fn application_credentials(&self) -> CloudResult<Vec<ApplicationCredential>> {
        unused("application_credentials")
    }

    async fn create_application_credential(
        &self,
        _: &NewApplicationCredential,
    ) -> CloudResult<ApplicationCredential> {
        unused("create_application_credential")
    }

    async fn delete_application_credential(&self, _: &str) -> CloudResult<()> {
        unused("delete_application_credential")
    }
}
