//! Body of a call that changes something: it refuses to be sent if the permit of the call has become too old.
//!
//! The client may open a connection first, or log in again. Both take seconds, in which another process may become the
//! leader. The client looks at the body when it has the connection, directly before it writes the headers: an error of the
//! body then closes the connection, and nothing is written.
//!
//! With HTTP/2, the client may write the headers before it resets the stream. A cloud does nothing without the body. A call
//! without a body is a deletion: if the cloud carries it out, it does what was decided, and the next attempt finds nothing.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use bytes::Bytes;
use controllers_infrastructure::CallPermit;
use http_body::{Body, Frame, SizeHint};

/// Error of a body whose permit is too old.
#[derive(Debug)]
pub(crate) struct TooLate;

impl std::fmt::Display for TooLate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the permit of the call is too old")
    }
}

impl std::error::Error for TooLate {}

/// Body with the permit of its call.
#[derive(Debug)]
pub(crate) struct PermittedBody {
    permit: Arc<dyn CallPermit>,
    /// `None` once it was taken.
    content: Option<Bytes>,
    refused: Arc<AtomicBool>,
}

impl PermittedBody {
    /// Creates a body. The flag is set if it refuses to be sent.
    pub(crate) fn new(permit: Arc<dyn CallPermit>, content: Vec<u8>) -> (Self, Arc<AtomicBool>) {
        let refused = Arc::<AtomicBool>::default();
        (Self { permit, content: Some(content.into()), refused: Arc::clone(&refused) }, refused)
    }

    /// Returns true if the permit is too old. Once it is, the call is not sent with this body.
    fn refuses(&self) -> bool {
        if !self.refused.load(Ordering::Acquire) && !self.permit.is_fresh() {
            self.refused.store(true, Ordering::Release);
        }
        self.refused.load(Ordering::Acquire)
    }
}

impl Body for PermittedBody {
    type Data = Bytes;
    type Error = TooLate;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, TooLate>>> {
        if self.content.is_some() && self.refuses() {
            return Poll::Ready(Some(Err(TooLate)));
        }
        Poll::Ready(self.content.take().map(|content| Ok(Frame::data(content))))
    }

    /// An empty body has an end that the client sees before it writes the headers. A refusal is a frame, so it has none.
    fn is_end_stream(&self) -> bool {
        self.content.as_ref().is_none_or(|content| content.is_empty() && !self.refuses())
    }

    /// With an unknown size, the client reads a frame of an empty body, too.
    fn size_hint(&self) -> SizeHint {
        let size = self.content.as_ref().map_or(0, Bytes::len);
        if size == 0 && self.content.is_some() && self.refused.load(Ordering::Acquire) {
            return SizeHint::default();
        }
        SizeHint::with_exact(u64::try_from(size).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use controllers_infrastructure::AlwaysPermitted;

    use super::*;

    /// Permit that is fresh or not.
    #[derive(Debug)]
    struct Old(bool);

    #[async_trait::async_trait]
    impl CallPermit for Old {
        async fn granted(&self) {}

        fn is_fresh(&self) -> bool {
            !self.0
        }
    }

    fn next(body: &mut PermittedBody) -> Option<Result<Bytes, TooLate>> {
        let mut context = Context::from_waker(std::task::Waker::noop());
        let Poll::Ready(frame) = Pin::new(body).poll_frame(&mut context) else { panic!("it waits") };
        frame.map(|frame| frame.map(|frame| frame.into_data().unwrap()))
    }

    #[test]
    fn hv_03_a_body_is_as_it_was_while_its_permit_is_fresh() {
        let (mut body, refused) = PermittedBody::new(Arc::new(AlwaysPermitted), b"{}".to_vec());
        assert_eq!((body.is_end_stream(), body.size_hint().exact()), (false, Some(2)));
        assert_eq!(next(&mut body).unwrap().unwrap(), "{}");
        assert!(body.is_end_stream() && next(&mut body).is_none() && !refused.load(Ordering::SeqCst));
        let (empty, _) = PermittedBody::new(Arc::new(AlwaysPermitted), Vec::new());
        assert_eq!((empty.is_end_stream(), empty.size_hint().exact()), (true, Some(0)));
    }

    #[test]
    fn hv_03_a_body_whose_permit_is_old_has_an_error_also_if_it_is_empty() {
        for content in [&b"{}"[..], b""] {
            let (mut body, refused) = PermittedBody::new(Arc::new(Old(true)), content.to_vec());
            assert!(!body.is_end_stream());
            assert_eq!(body.size_hint().exact().is_none(), content.is_empty(), "else nothing reads it");
            assert!(next(&mut body).unwrap().is_err() && refused.load(Ordering::SeqCst));
        }
    }
}
