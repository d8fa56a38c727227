//! Documents that are made when somebody asks for one.
//!
//! They are most of what a start would do, and several times what an idle server holds otherwise; and a server that
//! no kubectl and no host asks never needs them.

use apiserver_machinery::discovery::Served;
use apiserver_machinery::resource::Registry;
use apiserver_machinery::reviews::Review;
use apiserver_machinery::status::{ApiError, ApiResult};
use tokio::sync::OnceCell;

use super::open_api::OpenApi;

/// The OpenAPI documents of one face.
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

    /// The documents. Whoever asks first waits some tenths of a second, and others with them.
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
