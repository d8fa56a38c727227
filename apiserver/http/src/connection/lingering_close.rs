//! The end of a connection.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Sleep;

/// How long is listened to a client that was told all: about as long as the real server does, and a little less than a
/// client has that is to go, so that it goes in good order.
const LINGER: Duration = Duration::from_millis(900);

/// Most that is taken in one turn of what nobody reads.
const PIECE: usize = 4096;

/// Which comes first at the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// Nothing more is said, and then listened for a while: in HTTP/1 that may be how a client knows that an
    /// answer is whole.
    Close,
    /// Listened for a while, and then nothing more said, as the real server does: in HTTP/2 the frames say what ends.
    Listen,
}

/// A connection that is closed only when the client has nothing more to say, or a second later.
///
/// Who answers before all of a request has come and closes at once has the rest of it meet a closed
/// socket. That resets the connection, and the client may lose the answer with it.
#[derive(Debug)]
pub(crate) struct Socket<S> {
    stream: S,
    end: End,
    is_closed: bool,
    /// Since the end has begun.
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

    /// Ready when the client has nothing more to say, or has had its time.
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
    async fn what_comes_after_the_last_word_does_not_take_it_from_the_client() {
        for end in [End::Close, End::Listen] {
            let (mut client, mut socket) = pair(end).await;
            let server = tokio::spawn(async move {
                socket.write_all(b"refused").await.unwrap();
                socket.shutdown().await.unwrap();
            });
            tokio::time::sleep(Duration::from_millis(20)).await;
            // The first to arrive at a closed socket has it reset, which the second would notice.
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
    async fn a_client_that_never_ends_is_left_after_a_while() {
        let (_client, mut socket) = pair(End::Listen).await;
        tokio::time::timeout(LINGER * 5, socket.shutdown()).await.expect("it ends").unwrap();
    }
}
