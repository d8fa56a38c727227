//! Provider traits: `Cloud` with a trait per service, and the connector that creates clouds.

mod compute;
mod identity;
mod image;
mod load_balancer;
mod network;
mod storage;

use std::sync::Arc;

use async_trait::async_trait;

pub use compute::ComputeService;
pub use identity::IdentityService;
pub use image::ImageService;
pub use load_balancer::LoadBalancerService;
pub use network::NetworkService;
pub use storage::StorageService;

use crate::{CloudError, CloudResult, Credentials, Quota, QuotaService, TaggedKind};

/// Connector that creates [`Cloud`]s from credentials.
#[async_trait]
pub trait CloudConnector: Send + Sync + std::fmt::Debug + 'static {
    /// Returns an authenticated cloud. A provider keeps one cloud per credentials and returns it again, so
    /// that there is one token per credentials.
    ///
    /// # Errors
    /// `Credentials`, `Unauthorized`, `Unreachable`, `Broken`.
    async fn connect(&self, credentials: &Credentials) -> CloudResult<Arc<dyn Cloud>>;

    /// Returns an authenticated cloud for the credentials that a source has now, e.g. a Secret. If the cloud refuses
    /// them, and the source had others before whose token is still valid, the cloud of those is returned.
    ///
    /// # Errors
    /// As of `connect`.
    async fn connect_from(&self, source: &str, credentials: &Credentials) -> CloudResult<Connection> {
        let _ = source;
        Ok(Connection { cloud: self.connect(credentials).await?, refused: None })
    }
}

/// Cloud, and the error of newer credentials if it is that of earlier ones.
#[derive(Debug, Clone)]
pub struct Connection {
    /// The cloud.
    pub cloud: Arc<dyn Cloud>,
    /// Why the present credentials are not in use; `None` if they are.
    pub refused: Option<CloudError>,
}

/// One project of an OpenStack cloud, in one region, as one user.
///
/// A provider does not retry a create: after the outcome `Unknown` the caller looks by name and tag.
/// Reads and deletes may be retried. The deletion of an absent object is an error of class `NotFound`,
/// which callers take for success.
#[async_trait]
pub trait Cloud:
    IdentityService + ImageService + ComputeService + NetworkService + StorageService + LoadBalancerService
{
    /// Returns the region, as in a `providerID`; empty if the catalog has none.
    fn region(&self) -> &str;

    /// Returns the id of the project.
    fn project(&self) -> &str;

    /// Returns when the credentials end, in RFC 3339, if the cloud says so. Learned at the login.
    fn credentials_expire_at(&self) -> Option<&str> {
        None
    }

    /// Returns true until the token ends or the cloud refuses it.
    fn is_usable(&self) -> bool {
        true
    }

    /// Returns a mark that all clouds of the same credentials share, those with later tokens among them; `None` if the
    /// provider has none. Results of reads may be shared by clouds of one mark and project.
    fn line(&self) -> Option<Arc<()>> {
        None
    }

    /// Returns the id of the user.
    fn user(&self) -> &str;

    /// Lists the quotas of the project in a service, as far as the service shows them.
    async fn quotas(&self, service: QuotaService) -> CloudResult<Vec<Quota>>;
    /// Replaces all tags of an object.
    async fn set_tags(&self, kind: TaggedKind, id: &str, tags: &[String]) -> CloudResult<()>;
    /// Adds and removes tags of an object. Those that others add at the same time stay. A Neutron without tags has no
    /// effect.
    async fn change_tags(
        &self,
        kind: TaggedKind,
        id: &str,
        added: &[String],
        removed: &[String],
    ) -> CloudResult<()>;
}
