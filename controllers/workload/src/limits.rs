//! Limits on the duration of requests, and answers that are not of an API server.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body::{Body as HttpBody, Frame};
use kube::client::{Body, DynBody};
use tokio::time::{Instant, Sleep, sleep_until, timeout_at};
use tower::{BoxError, Layer, Service};

use crate::error::NO_API_SERVER;

/// Layer that ends requests without an answer.
#[derive(Debug, Clone)]
pub(crate) struct LimitLayer {
    /// Longest duration from the request to the end of the answer.
    pub(crate) request: Duration,
}

impl<S> Layer<S> for LimitLayer {
    type Service = Limited<S>;

    fn layer(&self, inner: S) -> Limited<S> {
        Limited { inner, request: self.request }
    }
}

/// Service whose requests end after a limit.
#[derive(Debug)]
pub(crate) struct Limited<S> {
    inner: S,
    request: Duration,
}

type Answer = Result<Response<LimitedBody>, BoxError>;

impl<S> Service<Request<Body>> for Limited<S>
where
    S: Service<Request<Body>, Response = Response<Box<DynBody>>, Error = BoxError>,
    S::Future: Send + 'static,
{
    type Response = Response<LimitedBody>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Answer> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let limit = self.request;
        let end = Instant::now() + limit;
        let long = is_long(&request);
        let asked = format!("{} {}", request.method(), request.uri().path());
        let answer = self.inner.call(request);
        Box::pin(async move {
            let answer = timeout_at(end, answer).await.map_err(|_| too_late(limit))??;
            if is_page(&answer) {
                return Err(page(&asked, answer.status()));
            }
            Ok(answer.map(|inner| {
                let end = (!long).then(|| Box::pin(sleep_until(end)));
                LimitedBody { inner, end, limit }
            }))
        })
    }
}

/// Says whether the answer has no foreseeable end.
fn is_long(request: &Request<Body>) -> bool {
    let query = request.uri().query().unwrap_or_default();
    let watches = query.split('&').any(|pair| matches!(pair, "watch=true" | "watch=1"));
    watches || request.headers().contains_key(http::header::UPGRADE)
}

/// Says whether an answer is a page for a browser.
fn is_page<B>(answer: &Response<B>) -> bool {
    let kind = answer.headers().get(http::header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    kind.is_some_and(|kind| kind.to_ascii_lowercase().starts_with("text/html"))
}

fn page(asked: &str, status: StatusCode) -> BoxError {
    format!(
        "the server answered {asked} with HTML instead of JSON (HTTP status {}){NO_API_SERVER}",
        status.as_u16()
    )
    .into()
}

fn too_late(limit: Duration) -> BoxError {
    format!(
        "no complete answer within {} s; look whether the API server is overloaded or a firewall drops the answer",
        limit.as_secs()
    )
    .into()
}

/// Body that ends with an error after the limit.
pub(crate) struct LimitedBody {
    inner: Box<DynBody>,
    end: Option<Pin<Box<Sleep>>>,
    limit: Duration,
}

impl HttpBody for LimitedBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        if let Poll::Ready(frame) = Pin::new(&mut self.inner).poll_frame(context) {
            return Poll::Ready(frame);
        }
        match self.end.as_mut().map(|end| end.as_mut().poll(context)) {
            Some(Poll::Ready(())) => Poll::Ready(Some(Err(too_late(self.limit)))),
            Some(Poll::Pending) | None => Poll::Pending,
        }
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> http_body::SizeHint {
        self.inner.size_hint()
    }
}
