//! Chunked body: encoded on threads of its own, one chunk at a time, while it is sent.
//!
//! The items of a list are in the cache as they are sent, and the connection copies them. The rows of a table,
//! metadata in protobuf, and indented or compressed bytes take several times as long, and would delay other requests.
//! All such bodies share the threads, a chunk at a time, and hold no more than the chunk that is sent and the next
//! one.

use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::{Arc, LazyLock, Mutex, PoisonError, mpsc};
use std::task::{Context, Poll, ready};
use std::thread;

use bytes::Bytes;
use tokio::sync::oneshot;

use crate::response::streamed::chunk_source::{AtHand, BoxedSource, ChunkSource};

/// Chunk, and the source of those after it.
type Made = (Option<Bytes>, Option<BoxedSource>);

/// Source whose next chunk is wanted, and the reply to its body.
type Job = (BoxedSource, oneshot::Sender<Made>);

/// Queue of the encoding threads. There are as many as processors, since more would take them from other tasks. A
/// thread goes on with the next job without a wake-up.
static JOBS: LazyLock<mpsc::Sender<Job>> = LazyLock::new(|| {
    let (jobs, waiting) = mpsc::channel();
    let waiting = Arc::new(Mutex::new(waiting));
    for _ in 0..thread::available_parallelism().map_or(1, std::num::NonZero::get) {
        let waiting = Arc::clone(&waiting);
        let thread = thread::Builder::new().name("http-chunks".to_owned()).spawn(move || work(&waiting));
        // The other threads do its work; without any, bodies are cut off.
        let _ =
            thread.inspect_err(|error| tracing::error!(%error, "cannot spawn a response-encoding thread"));
    }
    jobs
});

/// Called with the number of bytes sent, at the end of a body.
type OnEnd = Box<dyn FnOnce(u64) + Send>;

/// Body that is encoded in chunks.
pub(crate) struct Chunked {
    first: Option<Bytes>,
    rest: Option<BoxedSource>,
    making: Option<oneshot::Receiver<Made>>,
    sent: usize,
    on_end: Option<OnEnd>,
}

impl Chunked {
    /// Creates a body, of which the first chunk may already be encoded.
    pub(crate) fn new(first: Option<Bytes>, rest: impl ChunkSource + 'static) -> Self {
        Self { first, rest: Some(Box::new(rest)), making: None, sent: 0, on_end: None }
    }

    /// Turns a body of which nothing was sent yet into the source of its chunks.
    pub(crate) fn into_source(mut self) -> AtHand {
        AtHand { first: self.first.take(), rest: self.rest.take() }
    }

    /// Calls `report` with the number of bytes sent, when the body has ended or the client has gone.
    pub(crate) fn on_end(&mut self, report: impl FnOnce(u64) + Send + 'static) {
        self.on_end = Some(Box::new(report));
    }

    /// Returns the next chunk, and starts to encode the one after it.
    pub(crate) fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<Bytes>> {
        if self.making.is_none() {
            self.making = self.rest.take().map(begin);
        }
        let chunk = match self.first.take() {
            Some(first) => Some(first),
            None => ready!(self.poll_made(context)),
        };
        self.sent += chunk.as_ref().map_or(0, Bytes::len);
        Poll::Ready(chunk)
    }

    fn poll_made(&mut self, context: &mut Context<'_>) -> Poll<Option<Bytes>> {
        let Some(making) = &mut self.making else { return Poll::Ready(None) };
        // After a panic the body is cut off.
        let (chunk, rest) = ready!(Pin::new(making).poll(context)).unwrap_or_default();
        self.making = rest.map(begin);
        Poll::Ready(chunk)
    }
}

impl Drop for Chunked {
    fn drop(&mut self) {
        if let Some(report) = self.on_end.take() {
            report(u64::try_from(self.sent).unwrap_or(u64::MAX));
        }
    }
}

impl std::fmt::Debug for Chunked {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Chunked").field("sent", &self.sent).finish_non_exhaustive()
    }
}

/// Queues the encoding of the next chunk.
fn begin(rest: BoxedSource) -> oneshot::Receiver<Made> {
    let (reply, made) = oneshot::channel();
    // Without a thread there is no reply.
    let _ = JOBS.send((rest, reply));
    made
}

/// Encodes chunks, one after the other.
fn work(waiting: &Mutex<mpsc::Receiver<Job>>) {
    loop {
        // One thread waits in `recv` with the lock, and the others wait for the lock.
        let next = waiting.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok((mut rest, reply)) = next else { return };
        if reply.is_closed() {
            continue;
        }
        let made = std::panic::catch_unwind(AssertUnwindSafe(move || {
            let chunk = rest.next_chunk();
            (chunk, Some(rest).filter(|rest| !rest.is_done()))
        }));
        match made {
            // The client may have gone.
            Ok(made) => drop(reply.send(made)),
            Err(_) => tracing::error!("response encoding panicked; cutting off the response"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use super::*;
    use crate::response::streamed::chunk_source::Chunks;

    async fn parts(chunked: &mut Chunked) -> Vec<Bytes> {
        let mut parts = Vec::new();
        while let Some(part) = poll_fn(|context| chunked.poll_next(context)).await {
            parts.push(part);
        }
        parts
    }

    #[tokio::test]
    async fn chunks_come_in_their_order() {
        let chunks = |from: u8| (from..100).map(|number| Bytes::from(vec![number]));
        let all: Vec<Bytes> = chunks(0).collect();
        assert_eq!(parts(&mut Chunked::new(None, Chunks(chunks(0)))).await, all);
        assert_eq!(parts(&mut Chunked::new(all.first().cloned(), Chunks(chunks(1)))).await, all);
        let source = Chunked::new(all.first().cloned(), Chunks(chunks(1))).into_source();
        assert_eq!(source.whole(), all.concat());
    }

    /// More panics than there are threads, and bodies whose client has gone.
    #[tokio::test]
    async fn a_panic_truncates_one_body_and_ends_no_thread() {
        let bad = || {
            Chunked::new(
                None,
                Chunks((0..9).map(|number| if number == 1 { panic!("on purpose") } else { Bytes::new() })),
            )
        };
        for _ in 0..2 * thread::available_parallelism().unwrap().get() {
            assert_eq!(parts(&mut bad()).await.len(), 1);
            let _ = poll_fn(|context| Poll::Ready(bad().poll_next(context))).await;
        }
        let good = std::iter::repeat_n(Bytes::from_static(b"x"), 3);
        assert_eq!(parts(&mut Chunked::new(None, Chunks(good))).await.len(), 3);
    }
}
