//! Endpoint whose response is a file: a stream that is made for each request.

use std::sync::Arc;

use apiserver_machinery::status::{ApiError, ApiResult};
use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::BoxStream;
use http::Method;
use http::header::{CONTENT_DISPOSITION, HeaderValue};

use crate::request::Call;
use crate::response::body::{Events, ResponseBody};
use crate::response::{self, HttpResponse};

/// File that is sent while it is written. The reader sees in the file itself whether it is complete: a stream that fails
/// ends early.
pub struct Download {
    /// Name for the client. Only letters, digits, dots, dashes and underscores.
    pub name: String,
    /// Content.
    pub content: BoxStream<'static, Bytes>,
}

impl std::fmt::Debug for Download {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Download").field("name", &self.name).finish_non_exhaustive()
    }
}

/// Endpoint of one nonresource path of the direct endpoint, for `POST` alone. The permission is the verb `post` on it.
#[async_trait]
pub trait DownloadEndpoint: Send + Sync + std::fmt::Debug + 'static {
    /// Returns the path.
    fn path(&self) -> &str;

    /// Begins a file for this user.
    ///
    /// # Errors
    /// The refusal.
    async fn begin(&self, user: &str) -> ApiResult<Download>;
}

/// Serves the request if it is for one of the endpoints. A host cluster has no such path.
///
/// # Errors
/// 405 for another method; the refusal of the endpoint.
pub(crate) async fn serve(
    endpoints: &[Arc<dyn DownloadEndpoint>],
    call: &Call,
) -> ApiResult<Option<HttpResponse>> {
    let endpoint = endpoints.iter().find(|it| it.path() == call.info.path && !call.proxied);
    let Some(endpoint) = endpoint else { return Ok(None) };
    if call.info.method != Method::POST {
        return Err(ApiError::method_not_allowed_here());
    }
    let Download { name, content } = endpoint.begin(&call.user.name).await?;
    let body = ResponseBody::Events(Events::new(content));
    let mut answer = response::body(200, "application/octet-stream", body);
    let disposition = format!("attachment; filename=\"{name}\"");
    if let Ok(value) = HeaderValue::from_str(&disposition) {
        answer.headers_mut().insert(CONTENT_DISPOSITION, value);
    }
    Ok(Some(answer))
}
