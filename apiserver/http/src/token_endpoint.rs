//! Endpoint that admits requests by a token in their body. Its clients have no identity yet.

use std::net::IpAddr;
use std::sync::Arc;

use apiserver_machinery::status::{ApiError, ApiResult};
use async_trait::async_trait;
use bytes::Bytes;
use http::{Method, Request};
use http_body::Body;
use http_body_util::{BodyExt, Limited};
use serde_json::Value;

use crate::request::connection::Connection;
use crate::request::request_info::RequestInfo;
use crate::response::{self, HttpResponse};

/// Largest body. A stranger may send it, and it has a token, a key and two names. Unit: bytes.
const LARGEST: usize = 16 * 1024;

/// Endpoint of one path, for `POST` alone.
#[async_trait]
pub trait TokenEndpoint: Send + Sync + std::fmt::Debug + 'static {
    /// Returns the path.
    fn path(&self) -> &str;

    /// Serves a request from this address.
    ///
    /// # Errors
    /// The refusal. It must not tell which part of a token is wrong.
    async fn post(&self, from: Option<IpAddr>, body: &[u8]) -> ApiResult<Value>;
}

/// Returns the endpoint, if the request is for it. The path of another method is an unknown one.
pub(crate) fn find(
    endpoint: Option<&Arc<dyn TokenEndpoint>>,
    info: &RequestInfo,
    connection: &Connection,
) -> Option<Arc<dyn TokenEndpoint>> {
    let endpoint = endpoint.filter(|it| it.path() == info.path)?;
    (info.method == Method::POST && connection.internal.is_none()).then(|| Arc::clone(endpoint))
}

/// Reads the body, and serves the request.
///
/// # Errors
/// 413 for a large body; the refusal of the endpoint.
pub(crate) async fn serve<B>(
    endpoint: Arc<dyn TokenEndpoint>,
    request: Request<B>,
    connection: &Connection,
) -> ApiResult<HttpResponse>
where
    B: Body<Data = Bytes> + Send,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let body = Limited::new(request.into_body(), LARGEST).collect().await;
    let body = body.map_err(|error| {
        ApiError::too_large(format!("the body cannot be read, or is longer than {LARGEST} bytes: {error}"))
    })?;
    let answer = endpoint.post(connection.address, &body.to_bytes()).await?;
    Ok(response::bytes(200, "application/json", answer.to_string()))
}
