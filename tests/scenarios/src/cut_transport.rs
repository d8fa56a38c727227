//! Transport to the API that a fuse can cut off.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use apiserver_http::{InProcess, ResponseBody};
use http::{Method, Request, Response};
use kube::client::Body;
use tower::Service;

use crate::Fuse;

/// Transport whose writes count as effects.
#[derive(Debug, Clone)]
pub(crate) struct CutTransport {
    pub(crate) transport: InProcess,
    pub(crate) fuse: Arc<Fuse>,
}

impl Service<Request<Body>> for CutTransport {
    type Response = Response<ResponseBody>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let Self { mut transport, fuse } = self.clone();
        Box::pin(async move {
            // Events report what was done; the write of one is no step of the work.
            if request.method() == Method::GET || request.uri().path().contains("/events") {
                fuse.alive().await;
                return transport.call(request).await;
            }
            let effect = format!("{} {}", request.method(), request.uri().path());
            fuse.through(effect, async move { transport.call(request).await }).await
        })
    }
}
