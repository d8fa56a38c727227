//! Answers of calls that fail because a test wants it.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode, header};
use http_body::{Body as HttpBody, Frame};
use http_body_util::BodyExt;
use tokio::time::{Sleep, sleep};
use tokio_util::sync::CancellationToken;

use super::failure::Failure;
use super::serve::{Body, json_response, text_response};
use crate::calls::WorkloadEffect;

/// Page of a proxy without a backend.
const PAGE: &str = "<html>\r\n<head><title>Service unavailable</title></head>\r\n<body>\r\n\
    <center><h1>No server is available to handle this request.</h1></center>\r\n</body>\r\n</html>\r\n";

/// Time in which half of an answer is on its way before the connection is reset.
const FLUSHED: Duration = Duration::from_millis(50);

/// Returns the answer in place of the call, or `None` if the call has its effect.
pub(crate) async fn before(effect: &WorkloadEffect, broken: &CancellationToken) -> Option<Response<Body>> {
    match effect {
        WorkloadEffect::ResetAfter | WorkloadEffect::HalfAnswer => None,
        WorkloadEffect::ResetBefore => Some(reset(broken).await),
        WorkloadEffect::Hang => std::future::pending().await,
        WorkloadEffect::Html { code } => Some(page(*code)),
        WorkloadEffect::Status { code, reason, message, retry_after } => {
            let code = StatusCode::from_u16(*code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
            let failure = Failure::new(code, reason, message.to_owned());
            let mut response = json_response(code, &failure.status());
            if let Some(seconds) = retry_after {
                response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(*seconds));
            }
            Some(response)
        }
    }
}

/// Returns the answer that the client receives for a call that had its effect: complete, incomplete, or none.
pub(crate) async fn after(
    effect: &WorkloadEffect,
    response: Response<Body>,
    broken: &CancellationToken,
) -> Response<Body> {
    match effect {
        WorkloadEffect::ResetAfter => reset(broken).await,
        WorkloadEffect::HalfAnswer if response.status() == StatusCode::SWITCHING_PROTOCOLS => {
            reset(broken).await
        }
        WorkloadEffect::HalfAnswer => half(response, broken.clone()),
        WorkloadEffect::ResetBefore
        | WorkloadEffect::Hang
        | WorkloadEffect::Html { .. }
        | WorkloadEffect::Status { .. } => response,
    }
}

/// Resets the connection, whose end drops this call.
async fn reset(broken: &CancellationToken) -> Response<Body> {
    broken.cancel();
    std::future::pending().await
}

fn page(code: u16) -> Response<Body> {
    let mut response = text_response(PAGE);
    *response.status_mut() = StatusCode::from_u16(code).unwrap_or(StatusCode::BAD_GATEWAY);
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("text/html"));
    response
}

/// Returns an answer that announces its whole length, and ends in its middle.
fn half(response: Response<Body>, broken: CancellationToken) -> Response<Body> {
    let (mut parts, inner) = response.into_parts();
    if let Some(length) = inner.size_hint().exact() {
        parts.headers.insert(header::CONTENT_LENGTH, HeaderValue::from(length));
    }
    Response::from_parts(parts, HalfBody { inner, broken, end: None }.boxed_unsync())
}

/// Body whose first frame is cut in its middle. The connection is reset soon after.
struct HalfBody {
    inner: Body,
    broken: CancellationToken,
    end: Option<Pin<Box<Sleep>>>,
}

impl HttpBody for HalfBody {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        if let Some(end) = &mut self.end {
            ready!(end.as_mut().poll(context));
            self.broken.cancel();
            return Poll::Pending;
        }
        let frame = ready!(Pin::new(&mut self.inner).poll_frame(context));
        let Some(Ok(frame)) = frame else { return Poll::Ready(frame) };
        let data = frame.into_data().unwrap_or_default();
        self.end = Some(Box::pin(sleep(FLUSHED)));
        Poll::Ready(Some(Ok(Frame::data(data.slice(..data.len() / 2)))))
    }
}
