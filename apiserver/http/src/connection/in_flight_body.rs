//! An answer that is still being sent.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use tokio_util::sync::CancellationToken;
use tokio_util::task::task_tracker::TaskTrackerToken;

use crate::response::body::ResponseBody;

/// A body that counts as under way until it is dropped.
#[derive(Debug)]
pub(crate) struct InFlight {
    body: ResponseBody,
    /// Cancelled when the head of the answer is on its way, where the connection ends with it.
    end: Option<CancellationToken>,
    _token: TaskTrackerToken,
}

impl InFlight {
    pub(crate) fn new(body: ResponseBody, end: Option<CancellationToken>, token: TaskTrackerToken) -> Self {
        Self { body, end, _token: token }
    }

    /// A client that hears that the connection ends, and of its answer nothing yet, may give up on it.
    /// Nobody asks for the body before the head was handed over; then both go out together.
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
