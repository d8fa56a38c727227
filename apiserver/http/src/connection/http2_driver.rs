//! An HTTP/2 connection and its streams, in one task.
//!
//! What a stream has to say then goes out in the turn in which it says it, and what many say at a time goes out at a
//! time. Nothing on a stream takes long: a change is a task of its own, and a read of much has a thread.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use apiserver_executor::{InlineExecutor, Spawner};
use futures::FutureExt;
use tokio_util::sync::CancellationToken;

/// A connection with its streams.
#[derive(Debug)]
pub(crate) struct Http2Driver<C> {
    connection: C,
    stop: fn(Pin<&mut C>),
    /// Cancelled when the connection is to take nothing more.
    close: CancellationToken,
    streams: InlineExecutor,
}

impl<C: Unpin> Http2Driver<C> {
    /// The connection is made of where it is to hand its streams. `stop` tells it to take nothing more, and may be
    /// called again.
    pub(crate) fn new(
        streams: InlineExecutor,
        connection: impl FnOnce(Spawner) -> C,
        stop: fn(Pin<&mut C>),
        close: CancellationToken,
    ) -> Self {
        Self { connection: connection(streams.spawner()), stop, close, streams }
    }

    /// Tells the connection to take nothing more.
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
                // StatusInfo together with the answer that ends the connection.
                stop(Pin::new(connection));
            }
            connection.poll_unpin(within)
        })
    }
}
