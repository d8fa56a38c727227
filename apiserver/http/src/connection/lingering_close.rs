//! Lingering close of a connection.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Sleep;

/// Time for which input is read after the last output: about that of upstream's server. It is a little less than the
/// time that a client has to close its connection, so that the client can close it in order.
const LINGER: Duration = Duration::from_millis(900);

/// Size of a read of discarded input. Unit: bytes.
const PIECE: usize = 4096;

/// Order of the steps of a close.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// Close the write side first, then read input for a while: in HTTP/1 the end of the stream may be the end of a
    /// response.
    Close,
    /// Read input for a while, then close the write side, as upstream's server does: in HTTP/2 frames mark the end.
    Listen,
}

/// Connection that is closed when the client has nothing more to send, or after [`LINGER`].
///
/// If a server responds before it has read a request and closes at once, the rest of the request arrives at a closed
/// socket. That resets the connection, and the client may lose the response.
#[derive(Debug)]
pub(crate) struct Socket<S> {
    stream: S,
    end: End,
    is_closed: bool,
    /// Timer of the close, once it has begun.
    lingering: Option<Pin<Box<Sleep>>>,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Socket<S> {
    pub(crate) fn new(stream: S, end: End) -> Self {
        Self { stream, end, is_closed: false, lingering: None }
    }

    fn poll_close(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if !self.is_closed {
            std::task::ready!(Pin::new(&mut self.stream).poll_shutdown(context))?;
            self.is_closed = true;
        }
        Poll::Ready(Ok(()))
    }

    /// Ready when the client has nothing more to send, or the time is over.
    fn poll_linger(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let sleep = self.lingering.get_or_insert_with(|| Box::pin(tokio::time::sleep(LINGER)));
        if sleep.as_mut().poll(context).is_ready() {
            return Poll::Ready(());
        }
        let mut piece = [0; PIECE];
        loop {
            let mut buffer = ReadBuf::new(&mut piece);
            match Pin::new(&mut self.stream).poll_read(context, &mut buffer) {
                Poll::Ready(Ok(())) if !buffer.filled().is_empty() => {}
                Poll::Ready(_) => return Poll::Ready(()),
                Poll::Pending => return Poll::Pending,
            }
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Socket<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Socket<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.end {
            End::Close => {
                std::task::ready!(self.poll_close(context))?;
                self.poll_linger(context).map(Ok)
            }
            End::Listen => {
                std::task::ready!(Pin::new(&mut self.stream).poll_flush(context))?;
                std::task::ready!(self.poll_linger(context));
                self.poll_close(context)
            }
        }
    }
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "a test awaits its tasks, or ends with them")]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::{TcpListener, TcpStream};

    use super::*;

    async fn pair(end: End) -> (TcpStream, Socket<TcpStream>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        (client, Socket::new(listener.accept().await.unwrap().0, end))
    }

    #[tokio::test]
    async fn bytes_after_the_last_response_do_not_reset_the_connection() {
        for end in [End::Close, End::Listen] {
            let (mut client, mut socket) = pair(end).await;
            let server = tokio::spawn(async move {
                socket.write_all(b"refused").await.unwrap();
                socket.shutdown().await.unwrap();
            });
            tokio::time::sleep(Duration::from_millis(20)).await;
            // The first packet to a closed socket resets it, and the second one notices.
            for _ in 0..2 {
                client.write_all(&[b'x'; 10_000]).await.unwrap();
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            client.shutdown().await.unwrap();
            let mut heard = Vec::new();
            client.read_to_end(&mut heard).await.unwrap();
            assert_eq!(heard, b"refused");
            tokio::time::timeout(LINGER / 2, server).await.expect("who is gone is not waited for").unwrap();
        }
    }

    #[tokio::test]
    async fn a_client_that_never_closes_is_dropped_after_the_linger_time() {
        let (_client, mut socket) = pair(End::Listen).await;
        tokio::time::timeout(LINGER * 5, socket.shutdown()).await.expect("it ends").unwrap();
    }
}
