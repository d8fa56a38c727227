//! Request bodies that mark their last frame as the end of the stream.
//!
//! A gRPC client ends a unary request with an empty frame after its only message. HTTP/2 flushes after each frame: a
//! request took two system calls here, and two reads of etcd. A body that looks ahead for another frame can set the
//! end of the stream on the message itself.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::{Body, Frame};
use tonic::Status;

type Next = Option<Result<Frame<Bytes>, Status>>;

/// Body that knows its last frame. Later frames, as in a stream of requests, are awaited as usual.
#[derive(Debug)]
pub(crate) struct EagerEndStream<B> {
    body: B,
    /// Frame that was read ahead, up to the end.
    ahead: Option<Next>,
}

impl<B> EagerEndStream<B> {
    pub(crate) fn new(body: B) -> Self {
        Self { body, ahead: None }
    }
}

impl<B: Body<Data = Bytes, Error = Status> + Unpin> Body for EagerEndStream<B> {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Next> {
        let frame = match self.ahead.take() {
            Some(frame) => frame,
            None => ready!(Pin::new(&mut self.body).poll_frame(context)),
        };
        if let Some(Ok(_)) = &frame {
            self.ahead = match Pin::new(&mut self.body).poll_frame(context) {
                Poll::Ready(next) => Some(next),
                Poll::Pending => None,
            };
        } else {
            // No frame follows the end, or an error.
            self.ahead = Some(None);
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        matches!(self.ahead, Some(None)) || (self.ahead.is_none() && self.body.is_end_stream())
    }
}

#[cfg(test)]
mod tests {
    use futures::channel::mpsc;
    use futures::stream;
    use http_body_util::{BodyExt, StreamBody};

    use super::*;

    fn data(text: &'static str) -> Result<Frame<Bytes>, Status> {
        Ok(Frame::data(Bytes::from(text)))
    }

    #[tokio::test]
    async fn the_end_of_the_stream_is_known_with_the_last_frame() {
        for count in 0..3 {
            let mut body = EagerEndStream::new(StreamBody::new(stream::iter((0..count).map(|_| data("a")))));
            for number in 1..=count {
                assert!(!body.is_end_stream());
                body.frame().await.unwrap().unwrap();
                assert_eq!(body.is_end_stream(), number == count);
            }
            assert!(body.frame().await.is_none());
            assert!(body.is_end_stream() && body.frame().await.is_none());
        }
    }

    #[tokio::test]
    async fn a_stream_forwards_frames_without_delay() {
        let (sender, receiver) = mpsc::unbounded();
        let mut body = EagerEndStream::new(StreamBody::new(receiver));
        for text in ["one", "two"] {
            sender.unbounded_send(data(text)).unwrap();
            assert_eq!(body.frame().await.unwrap().unwrap().into_data().unwrap(), text);
            assert!(!body.is_end_stream());
        }
        sender.unbounded_send(Err(Status::cancelled("no"))).unwrap();
        assert!(body.frame().await.unwrap().is_err());
        assert!(body.is_end_stream());
    }
}
