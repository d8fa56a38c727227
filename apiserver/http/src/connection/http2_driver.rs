//! HTTP/2 driver: polls a connection and its streams in one task.
//!
//! The output of a stream is sent in the poll in which it is produced, and the output of several streams in one write.
//! A stream must not block: a write request is a task of its own, and a large read has a thread.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use apiserver_executor::{InlineExecutor, Spawner};
use futures::FutureExt;
use tokio_util::sync::CancellationToken;

/// Connection with its streams.
#[derive(Debug)]
pub(crate) struct Http2Driver<C> {
    connection: C,
    stop: fn(Pin<&mut C>),
    /// Token that stops the connection from accepting streams.
    close: CancellationToken,
    streams: InlineExecutor,
}

impl<C: Unpin> Http2Driver<C> {
    /// Creates a driver. `connection` makes the connection, and is given the spawner of its streams. `stop` stops it
    /// from accepting streams, and may be called again.
    pub(crate) fn new(
        streams: InlineExecutor,
        connection: impl FnOnce(Spawner) -> C,
        stop: fn(Pin<&mut C>),
        close: CancellationToken,
    ) -> Self {
        Self { connection: connection(streams.spawner()), stop, close, streams }
    }

    /// Stops the connection from accepting streams.
    pub(crate) fn stop(&mut self) {
        (self.stop)(Pin::new(&mut self.connection));
    }
}

impl<C: Future + Unpin> Future for Http2Driver<C> {
    type Output = C::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<C::Output> {
        let Self { connection, stop, close, streams } = &mut *self;
        streams.poll_with(context, |within| {
            if close.is_cancelled() {
                // `GOAWAY` is then sent together with the response that ends the connection.
                stop(Pin::new(connection));
            }
            connection.poll_unpin(within)
        })
    }
}
