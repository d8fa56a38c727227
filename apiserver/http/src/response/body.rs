//! Response body: bytes in memory, or a stream of them.

use std::convert::Infallible;
use std::future::ready;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures::stream::BoxStream;
use futures::{FutureExt, Stream, StreamExt};
use http_body::{Body, Frame, SizeHint};
use http_body_util::{BodyExt, Full};

use crate::response::chunked::Chunked;
use crate::response::streamed::chunk_source::{AtHand, BoxedSource, ChunkSource};
use crate::response::streamed::list::ListChunks;

/// Response body: bytes in memory, or a stream of them.
#[derive(Debug)]
pub enum ResponseBody {
    /// Bytes in memory.
    Full(Full<Bytes>),
    /// List that is encoded while it is sent.
    #[allow(private_interfaces, reason = "the variant is opaque to other crates")]
    List(Box<ListChunks>),
    /// Body that takes longer to encode, on a thread while it is sent: a table, metadata in protobuf, indented or
    /// compressed bytes.
    #[allow(private_interfaces, reason = "the variant is opaque to other crates")]
    Chunked(Box<Chunked>),
    /// Watch.
    Events(Events),
    /// Any of these, with an observer of its frames.
    #[allow(private_interfaces, reason = "the variant is opaque to other crates")]
    Observed(Box<Observed>),
}

/// Events of a watch, encoded.
pub struct Events(BoxStream<'static, Bytes>);

impl Events {
    /// Wraps the events of a watch: a panic ends them, and nothing else.
    pub(crate) fn new(events: impl Stream<Item = Bytes> + Send + 'static) -> Self {
        let log_panic = |event: std::thread::Result<Bytes>| {
            ready(event.inspect_err(|_| tracing::error!("watch panicked; ending it")).ok())
        };
        let events = AssertUnwindSafe(events).catch_unwind().filter_map(log_panic);
        Self(events.fuse().boxed())
    }
}

impl std::fmt::Debug for Events {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Events").finish_non_exhaustive()
    }
}

impl Stream for Events {
    type Item = Bytes;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Bytes>> {
        self.0.poll_next_unpin(context)
    }
}

/// Observer of a body while it is sent. It is dropped with the body, when that has ended or the client has gone.
pub(crate) trait BodyObserver: Send + std::fmt::Debug {
    /// Notes a frame of `size` bytes.
    fn frame(&mut self, size: usize);
}

/// Body with its observer.
#[derive(Debug)]
pub(crate) struct Observed {
    body: ResponseBody,
    observer: Box<dyn BodyObserver>,
}

impl Observed {
    fn poll_frame(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let polled = Pin::new(&mut self.body).poll_frame(context);
        if let Poll::Ready(Some(Ok(frame))) = &polled {
            self.observer.frame(frame.data_ref().map_or(0, Bytes::len));
        }
        polled
    }
}

impl ResponseBody {
    /// The same body, with an observer of its frames.
    pub(crate) fn observed(self, observer: impl BodyObserver + 'static) -> Self {
        Self::Observed(Box::new(Observed { body: self, observer: Box::new(observer) }))
    }

    pub(crate) fn full(bytes: impl Into<Bytes>) -> Self {
        Self::Full(Full::new(bytes.into()))
    }

    /// Returns the length, if it is known before the body is sent. Unit: bytes.
    pub(crate) fn length(&self) -> Option<usize> {
        self.size_hint().exact().map(|length| usize::try_from(length).unwrap_or(usize::MAX))
    }

    /// Turns a body of which nothing was sent yet into its chunks. A stream has none, and is returned.
    pub(crate) fn into_chunks(self) -> Result<BoxedSource, Self> {
        match self {
            Self::Full(mut full) => {
                // The bytes are at hand, so this does not wait.
                let frame = full.frame().now_or_never().flatten().and_then(Result::ok);
                let first = frame.and_then(|frame| frame.into_data().ok());
                Ok(Box::new(AtHand { first, rest: None }))
            }
            Self::List(list) => Ok(list),
            Self::Chunked(chunked) => Ok(Box::new(chunked.into_source())),
            stream => Err(stream),
        }
    }
}

impl Body for ResponseBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match self.get_mut() {
            Self::Full(full) => Pin::new(full).poll_frame(context),
            Self::List(list) => Poll::Ready(list.next_chunk().map(|chunk| Ok(Frame::data(chunk)))),
            Self::Chunked(chunked) => {
                chunked.poll_next(context).map(|next| next.map(|bytes| Ok(Frame::data(bytes))))
            }
            Self::Events(events) => {
                events.poll_next_unpin(context).map(|next| next.map(|bytes| Ok(Frame::data(bytes))))
            }
            Self::Observed(observed) => observed.poll_frame(context),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Full(full) => full.is_end_stream(),
            Self::List(list) => list.left() == 0,
            Self::Chunked(_) | Self::Events(_) | Self::Observed(_) => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Full(full) => full.size_hint(),
            Self::List(list) => SizeHint::with_exact(list.left()),
            Self::Chunked(_) | Self::Events(_) | Self::Observed(_) => SizeHint::default(),
        }
    }
}
