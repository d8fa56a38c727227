//! Cloud of one user: the implementation of the `Cloud` trait, with a file per service.

mod compute;
mod identity;
mod image;
mod load_balancer;
mod network;
mod storage;
mod token_renewal;

use std::sync::Arc;

use async_trait::async_trait;
use controllers_infrastructure::*;

use crate::lookups::Lookups;
use crate::{quota, session::Session, tags};
use token_renewal::renewal;

/// One user's access to one project in one region.
#[derive(Debug)]
pub(crate) struct OpenStackCloud(Session, Lookups, Arc<()>);

impl OpenStackCloud {
    /// Creates a cloud with this mark of its credentials.
    pub(crate) fn new(session: Session, line: Arc<()>) -> Self {
        Self(session, Lookups::default(), line)
    }

    /// Returns true if the next use of this cloud needs a new login.
    pub(crate) fn is_refused(&self) -> bool {
        self.0.is_refused()
    }

    /// Returns true if most of the life of the token is over, so that a new one is due.
    pub(crate) fn is_aging(&self) -> bool {
        let now = jiff::Timestamp::now().as_second();
        self.0.token_times().is_some_and(|(begin, end)| now >= renewal(begin, end))
    }
}

#[async_trait]
impl Cloud for OpenStackCloud {
    fn region(&self) -> &str {
        self.0.region()
    }

    fn project(&self) -> &str {
        self.0.project()
    }

    fn credentials_expire_at(&self) -> Option<&str> {
        self.0.credentials_expire_at()
    }

    fn is_usable(&self) -> bool {
        let now = jiff::Timestamp::now().as_second();
        !self.is_refused() && self.0.token_times().is_none_or(|(_, end)| now < end)
    }

    fn line(&self) -> Option<Arc<()>> {
        Some(Arc::clone(&self.2))
    }

    fn user(&self) -> &str {
        self.0.user()
    }

    async fn quotas(&self, service: QuotaService) -> CloudResult<Vec<Quota>> {
        quota::quotas(&self.0, service).await
    }

    async fn set_tags(&self, kind: TaggedKind, id: &str, tags: &[String]) -> CloudResult<()> {
        match kind {
            TaggedKind::Server => crate::compute::set_tags(&self.0, id, tags).await,
            TaggedKind::LoadBalancer => crate::load_balancer::set_tags(&self.0, id, tags).await,
            kind => crate::network::set_tags(&self.0, kind, id, tags).await,
        }
    }

    async fn change_tags(
        &self,
        kind: TaggedKind,
        id: &str,
        added: &[String],
        removed: &[String],
    ) -> CloudResult<()> {
        tags::change(&self.0, kind, id, added, removed).await
    }
}
