//! A request's body that nobody wants.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use apiserver_executor::spawn_detached;
use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use tokio::runtime::Handle;

/// How long is waited for the rest of a body: about as long as the connection of somebody unknown lasts.
const PATIENCE: Duration = Duration::from_secs(1);

/// How much is taken of it: what a client may send before it is asked for more.
const MOST: usize = 64 << 10;

/// A body over HTTP/2 of which the rest is taken, and thrown away, when it is dropped.
///
/// Dropped as it is, it would end the stream: and a client that hears of that together with the answer, while it still
/// sends, may give up on both.
#[derive(Debug)]
pub(crate) struct DrainOnDrop(pub(crate) Option<Incoming>);

impl Drop for DrainOnDrop {
    fn drop(&mut self) {
        let Some(mut body) = self.0.take().filter(|body| !body.is_end_stream()) else { return };
        // None at the end of the process, when there is nobody left to tell.
        if Handle::try_current().is_err() {
            return;
        }
        spawn_detached("rest of a request body", async move {
            let rest = async {
                let mut taken = 0;
                while let Some(Ok(frame)) = body.frame().await {
                    taken += frame.data_ref().map_or(0, Bytes::len);
                    if taken > MOST {
                        return;
                    }
                }
            };
            let _ = tokio::time::timeout(PATIENCE, rest).await;
        });
    }
}

impl Body for DrainOnDrop {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        match &mut self.0 {
            Some(body) => Pin::new(body).poll_frame(context),
            None => Poll::Ready(None),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.0.as_ref().is_none_or(Incoming::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.0.as_ref().map_or_else(SizeHint::default, Incoming::size_hint)
    }
}
