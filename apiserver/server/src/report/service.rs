//! Endpoint by which a command gets the report from the running server.

use apiserver_http::{Download, DownloadEndpoint};
use apiserver_machinery::status::{ApiError, ApiResult};
use async_trait::async_trait;
use bytes::Bytes;
use futures::StreamExt;

use super::Source;

/// Path of the endpoint. The permission is the verb `post` on it.
pub(super) const PATH: &str = "/capstan/v1/report";

/// Reports of the running server.
#[derive(Debug)]
pub(crate) struct ReportService(Source);

impl ReportService {
    pub(crate) fn new(source: Source) -> Self {
        Self(source)
    }
}

#[async_trait]
impl DownloadEndpoint for ReportService {
    fn path(&self) -> &str {
        PATH
    }

    async fn begin(&self, user: &str) -> ApiResult<Download> {
        let report = self.0.read().await.map_err(|error| {
            tracing::warn!(user, error = %format!("{error:#}"), "a report cannot be made");
            ApiError::untyped(503, format!("the report cannot be made: {error:#}"))
        })?;
        let json = serde_json::to_vec(&report).map_err(|error| ApiError::internal(error.to_string()))?;
        let content = futures::stream::once(std::future::ready(Bytes::from(json)));
        Ok(Download { name: "report.json".to_owned(), content: content.boxed() })
    }
}
