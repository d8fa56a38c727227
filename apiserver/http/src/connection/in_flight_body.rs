//! In-flight response body: tracks a response until it is sent.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use tokio_util::sync::CancellationToken;
use tokio_util::task::task_tracker::TaskTrackerToken;

use crate::response::body::ResponseBody;

/// Response body that is in flight until it is dropped.
#[derive(Debug)]
pub(crate) struct InFlight {
    body: ResponseBody,
    /// Token that is cancelled once the head of the response is handed over, if the connection ends with it.
    end: Option<CancellationToken>,
    _token: TaskTrackerToken,
}

impl InFlight {
    pub(crate) fn new(body: ResponseBody, end: Option<CancellationToken>, token: TaskTrackerToken) -> Self {
        Self { body, end, _token: token }
    }

    /// Cancels the token. A client that receives `GOAWAY` before the head of its response may give up on it. hyper
    /// polls the body only after it has taken the head, so both are sent together.
    fn head_is_out(&mut self) {
        if let Some(end) = self.end.take() {
            end.cancel();
        }
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.head_is_out();
    }
}

impl Body for InFlight {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.head_is_out();
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
