//! On-demand documents: OpenAPI is built for the first client that requests it.
//!
//! It is most of the work of a start, and several times the memory of an idle server. A server without kubectl and
//! without a host never needs it.

use apiserver_machinery::discovery::Served;
use apiserver_machinery::resource::Registry;
use apiserver_machinery::reviews::Review;
use apiserver_machinery::status::{ApiError, ApiResult};
use tokio::sync::OnceCell;

use super::open_api::OpenApi;

/// OpenAPI documents of one endpoint.
#[derive(Debug)]
pub(super) struct OnDemand {
    registry: Registry,
    reviews: &'static [Review],
    made: OnceCell<OpenApi>,
}

impl OnDemand {
    pub(super) fn new(registry: Registry, reviews: &'static [Review]) -> Self {
        Self { registry, reviews, made: OnceCell::new() }
    }

    /// Returns the documents. The first request waits some tenths of a second, and so do concurrent ones.
    pub(super) async fn get(&self) -> ApiResult<&OpenApi> {
        let make = async || {
            let (registry, reviews) = (self.registry.clone(), self.reviews);
            let made =
                tokio::task::spawn_blocking(move || OpenApi::new(&Served { registry: &registry, reviews }));
            made.await.map_err(|error| ApiError::internal(format!("OpenAPI documents: {error}")))
        };
        self.made.get_or_try_init(make).await
    }
}
