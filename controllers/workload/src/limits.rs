//! Limits on the rate of requests, the duration and the size of answers, and answers that are not of an API server.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body::{Body as HttpBody, Frame};
use kube::client::{Body, DynBody};
use tokio::time::{Instant, Sleep, sleep_until, timeout_at};
use tower::{BoxError, Layer, Service};

use crate::error::NO_API_SERVER;
use crate::request_rate::RateLimiter;

/// Largest answer, so that no server can fill the memory: a page of a hundred large objects is smaller. Unit: bytes.
const ANSWER: usize = 32 * 1024 * 1024;

/// Largest event of a watch: etcd's limit of an object is a fifth of it. Unit: bytes.
const EVENT: usize = 8 * 1024 * 1024;

/// Layer that limits the rate of requests, and ends those without an answer.
#[derive(Debug, Clone)]
pub(crate) struct LimitLayer {
    /// Longest duration from the request to the end of the answer.
    pub(crate) request: Duration,
    /// Rate of the requests.
    pub(crate) rate: Arc<RateLimiter>,
}

impl<S> Layer<S> for LimitLayer {
    type Service = Limited<S>;

    fn layer(&self, inner: S) -> Limited<S> {
        Limited { inner, request: self.request, rate: Arc::clone(&self.rate) }
    }
}

/// Service whose requests keep a rate and end after a limit.
#[derive(Debug)]
pub(crate) struct Limited<S> {
    inner: S,
    request: Duration,
    rate: Arc<RateLimiter>,
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
        let long = is_long(&request);
        let rate = (!is_probe(&request)).then(|| Arc::clone(&self.rate));
        let asked = format!("{} {}", request.method(), request.uri().path());
        let answer = self.inner.call(request);
        Box::pin(async move {
            if let Some(rate) = rate {
                rate.wait().await;
            }
            // The future is lazy: the request is sent from here on.
            let end = Instant::now() + limit;
            let answer = timeout_at(end, answer).await.map_err(|_| too_late(limit))??;
            if is_page(&answer) {
                return Err(page(&asked, answer.status()));
            }
            Ok(answer.map(|inner| {
                let end = (!long).then(|| Box::pin(sleep_until(end)));
                LimitedBody { inner, end, limit, size: Size::new(long) }
            }))
        })
    }
}

/// Says whether a request is a probe. It must not wait behind the requests of the controllers: a busy cluster would
/// else look dead.
fn is_probe(request: &Request<Body>) -> bool {
    request.uri().path() == "/"
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

/// Bytes that the reader of a body has to keep at once: all of them, or the present event of a watch.
struct Size {
    kept: usize,
    most: usize,
    by_event: bool,
}

impl Size {
    const fn new(by_event: bool) -> Self {
        Self { kept: 0, most: if by_event { EVENT } else { ANSWER }, by_event }
    }

    /// Counts bytes that arrived. Returns false if they are too many.
    fn admits(&mut self, data: &[u8]) -> bool {
        let last_end = data.iter().rposition(|byte| *byte == b'\n').filter(|_| self.by_event);
        self.kept = match last_end {
            Some(end) => data.len().saturating_sub(end.saturating_add(1)),
            None => self.kept.saturating_add(data.len()),
        };
        self.kept <= self.most
    }
}

fn too_large(most: usize) -> BoxError {
    format!("an answer is larger than {} MiB{NO_API_SERVER}", most / 1024 / 1024).into()
}

/// Body that ends with an error after the limits.
pub(crate) struct LimitedBody {
    inner: Box<DynBody>,
    end: Option<Pin<Box<Sleep>>>,
    limit: Duration,
    size: Size,
}

impl HttpBody for LimitedBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        if let Poll::Ready(frame) = Pin::new(&mut self.inner).poll_frame(context) {
            let data = frame.as_ref().and_then(|frame| frame.as_ref().ok()?.data_ref());
            let fits = data.is_none_or(|data| self.size.admits(data));
            return Poll::Ready(if fits { frame } else { Some(Err(too_large(self.size.most))) });
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

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt;
    use http_body_util::Full;

    use super::*;

    fn body(size: usize, by_event: bool) -> LimitedBody {
        let inner = Full::new(Bytes::from(vec![b'x'; size])).map_err(|never| match never {});
        let size = Size::new(by_event);
        LimitedBody { inner: Box::new(inner), end: None, limit: Duration::ZERO, size }
    }

    #[tokio::test]
    async fn an_answer_that_would_fill_the_memory_is_an_error() {
        assert!(body(ANSWER, false).collect().await.is_ok());
        let error = body(ANSWER + 1, false).collect().await.unwrap_err().to_string();
        assert!(error.contains("larger than 32 MiB"), "{error}");
        assert!(body(EVENT + 1, true).collect().await.is_err());
    }

    #[test]
    fn a_watch_may_last_for_ever_but_none_of_its_events() {
        let mut size = Size::new(true);
        let mut event = vec![b'x'; EVENT / 2];
        for _ in 0..2 {
            assert!(size.admits(&event));
        }
        assert!(!size.admits(b"x"), "one event");
        event.push(b'\n');
        let mut size = Size::new(true);
        assert!((0..100).all(|_| size.admits(&event)), "many events");
    }
}
