//! A body that takes time to make: a chunk at a time, on threads of their own, while it is sent.
//!
//! The items of a list are there as they go out, and are copied by what writes to the client. The rows of a table, and
//! what is compressed, take ten times as long, which others would wait for. Who waits for the next chunk takes turns with
//! all the others, and holds no more of the body than that.

use std::sync::{Arc, LazyLock};
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use futures::FutureExt;
use futures::future::BoxFuture;
use tokio::sync::Semaphore;

use crate::metrics::RequestSeries;

/// How many chunks are made at a time: as many as there are processors, since more would take them from everybody else.
static TURNS: LazyLock<Semaphore> =
    LazyLock::new(|| Semaphore::new(std::thread::available_parallelism().map_or(1, std::num::NonZero::get)));

/// What makes the chunks. It tells by its `size_hint` that there are no more, where it knows.
type Chunks = Box<dyn Iterator<Item = Bytes> + Send>;

/// What a thread has made, and what makes the rest.
type Made = (Option<Bytes>, Option<Chunks>);

/// Such a body on its way.
pub(crate) struct Chunked {
    first: Option<Bytes>,
    rest: Option<Chunks>,
    making: Option<BoxFuture<'static, Made>>,
    sent: usize,
    /// Where its length is told once it is known.
    series: Option<Arc<RequestSeries>>,
}

impl Chunked {
    /// A body of which the first chunk may be made already.
    pub(crate) fn new(first: Option<Bytes>, rest: impl Iterator<Item = Bytes> + Send + 'static) -> Self {
        Self { first, rest: Some(Box::new(rest)), making: None, sent: 0, series: None }
    }

    /// All chunks, for who makes something else of them before any was sent.
    pub(crate) fn into_chunks(mut self) -> impl Iterator<Item = Bytes> + Send {
        self.first.take().into_iter().chain(self.rest.take().into_iter().flatten())
    }

    /// Tells its length there when it has been sent, or nobody takes it any more.
    pub(crate) fn count(&mut self, series: Arc<RequestSeries>) {
        self.series = Some(series);
    }

    fn poll_made(&mut self, context: &mut Context<'_>) -> Poll<Option<Bytes>> {
        if let Some(first) = self.first.take() {
            return Poll::Ready(Some(first));
        }
        if self.making.is_none() {
            self.making = self.rest.take().map(|rest| make(rest).boxed());
        }
        let Some(making) = &mut self.making else { return Poll::Ready(None) };
        let (chunk, rest) = ready!(making.poll_unpin(context));
        (self.making, self.rest) = (None, rest);
        Poll::Ready(chunk)
    }

    /// The next chunk.
    pub(crate) fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<Bytes>> {
        let chunk = ready!(self.poll_made(context));
        self.sent += chunk.as_ref().map_or(0, Bytes::len);
        Poll::Ready(chunk)
    }
}

impl Drop for Chunked {
    fn drop(&mut self) {
        if let Some(series) = &self.series {
            series.sized(u64::try_from(self.sent).unwrap_or(u64::MAX));
        }
    }
}

impl std::fmt::Debug for Chunked {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Chunked").field("sent", &self.sent).finish_non_exhaustive()
    }
}

async fn make(mut rest: Chunks) -> Made {
    let turn = TURNS.acquire().await;
    let made = tokio::task::spawn_blocking(move || {
        // Over when the chunk is made, and not when somebody takes it.
        let _turn = turn;
        let chunk = rest.next();
        (chunk, Some(rest).filter(|rest| rest.size_hint().1 != Some(0)))
    });
    // After a panic it is cut off.
    made.await.unwrap_or_default()
}
