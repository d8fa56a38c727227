//! Request body that is drained when it is dropped.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use apiserver_executor::spawn_detached;
use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use tokio::runtime::Handle;

/// Time limit for the rest of a body: about the lifetime of an unauthenticated connection.
const PATIENCE: Duration = Duration::from_secs(1);

/// Size limit of the rest: the flow-control window, which a client may send without asking. Unit: bytes.
const MOST: usize = 64 << 10;

/// Request body over HTTP/2 whose rest is read and discarded when it is dropped.
///
/// Without that, the drop would reset the stream. A client that receives the reset together with the response, while
/// it is sending, may give up on both.
#[derive(Debug)]
pub(crate) struct DrainOnDrop(pub(crate) Option<Incoming>);

impl Drop for DrainOnDrop {
    fn drop(&mut self) {
        let Some(mut body) = self.0.take().filter(|body| !body.is_end_stream()) else { return };
        // There is no runtime at the end of the process, and no client to wait for.
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
