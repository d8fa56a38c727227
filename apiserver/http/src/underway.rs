//! An answer that is still being sent.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use tokio_util::task::task_tracker::TaskTrackerToken;

use crate::body::ResponseBody;

/// A body that counts as under way until it is dropped.
#[derive(Debug)]
pub(crate) struct Underway {
    pub(crate) body: ResponseBody,
    pub(crate) _token: TaskTrackerToken,
}

impl Body for Underway {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
