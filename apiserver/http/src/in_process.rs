//! In-process transport: the API for the server's own controllers, without a network.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use apiserver_access::User;
use bytes::Bytes;
use http::header::USER_AGENT;
use http::{HeaderValue, Request, Response};
use http_body::Body;
use tower::Service;

use crate::chain;
use crate::request::connection::Connection;
use crate::response::body::ResponseBody;
use crate::state::ApiServer;

/// Transport of a client in this process, as one fixed user. Its requests are authorized like all others.
#[derive(Debug, Clone)]
pub struct InProcess {
    server: Arc<ApiServer>,
    connection: Connection,
}

impl InProcess {
    /// Creates a transport on which every request comes from `user`.
    pub fn new(server: Arc<ApiServer>, user: User) -> Self {
        Self { server, connection: Connection { internal: Some(Arc::new(user)), ..Connection::default() } }
    }
}

/// Returns the name of a client that sends no user agent, e.g. for its field manager: the last part of its user's
/// name.
fn program(user: &User) -> Option<HeaderValue> {
    let name = user.name.rsplit(':').next()?;
    HeaderValue::from_str(name).ok()
}

impl<B> Service<Request<B>> for InProcess
where
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    type Response = Response<ResponseBody>;
    type Error = std::convert::Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, mut request: Request<B>) -> Self::Future {
        let Self { server, connection } = self.clone();
        if let Some(program) = connection.internal.as_deref().and_then(program) {
            request.headers_mut().entry(USER_AGENT).or_insert(program);
        }
        Box::pin(async move { Ok(chain::handle(&server, request, &connection).await) })
    }
}
