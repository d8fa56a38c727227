//! What many streams of a connection say at a time, written at a time.
//!
//! HTTP/2 flushes after every frame of data. An event that fifty watches share a connection for is fifty frames, and
//! would be fifty records of TLS, fifty system calls, and fifty times that the client wakes up. Here a flush that
//! follows new bytes waits for the next one, which comes at the end of the turn; and should none come, the connection
//! is woken to have another turn.
//!
//! A turn is not long: who sends a list as fast as the client takes it would otherwise keep a thread for milliseconds,
//! and everybody waits whose turn it would be there.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Bytes that are gathered at most: what TLS takes at a time. To copy them costs a fraction of what a system call for
/// each frame does; of more, who reads them would have to wait longer for the first.
const MOST: usize = 64 * 1024;

/// How much goes out in a turn: encrypting and sending it takes some 200 µs.
const TURN: usize = 128 * 1024;

/// A buffer that has grown is kept no larger than this while nothing is in it: most connections are idle.
const KEPT: usize = 8 * 1024;

/// A connection whose writes are gathered.
#[derive(Debug)]
pub(crate) struct WriteCoalescer<S> {
    stream: S,
    buffer: Vec<u8>,
    /// Of the buffer, what the stream has taken.
    taken: usize,
    /// Whether something came since the last flush.
    is_fresh: bool,
    /// What the stream has taken in this turn.
    turn: usize,
}

impl<S: AsyncWrite + Unpin> WriteCoalescer<S> {
    pub(crate) fn new(stream: S) -> Self {
        Self { stream, buffer: Vec::new(), taken: 0, is_fresh: false, turn: 0 }
    }

    /// Pending, and woken at once, when this turn has had its share.
    fn poll_turn(&mut self, context: &mut Context<'_>) -> Poll<()> {
        if self.turn < TURN {
            return Poll::Ready(());
        }
        self.turn = 0;
        context.waker().wake_by_ref();
        Poll::Pending
    }

    /// Hands all that is gathered to the stream.
    fn poll_hand_on(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        while let Some(rest) = self.buffer.get(self.taken..).filter(|rest| !rest.is_empty()) {
            match ready!(Pin::new(&mut self.stream).poll_write(context, rest))? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                count => {
                    self.taken += count;
                    self.turn += count;
                }
            }
        }
        self.taken = 0;
        self.buffer.clear();
        Poll::Ready(Ok(()))
    }

    /// Makes room for as many bytes more: little, or all there ever is, so that it grows once.
    fn make_room(&mut self, length: usize) {
        let needed = self.buffer.len() + length;
        if needed > self.buffer.capacity() {
            let wanted = if needed > KEPT { needed.max(MOST) } else { KEPT };
            self.buffer.reserve_exact(wanted - self.buffer.len());
        }
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for WriteCoalescer<S> {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(context, &[IoSlice::new(data)])
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let length = slices.iter().map(|slice| slice.len()).sum::<usize>();
        if self.buffer.len() + length > MOST && !self.buffer.is_empty() {
            ready!(self.poll_turn(context));
            ready!(self.poll_hand_on(context))?;
        }
        self.is_fresh = true;
        // What is as much as is ever gathered is not copied.
        if length >= MOST && self.buffer.is_empty() {
            ready!(self.poll_turn(context));
            let count = ready!(Pin::new(&mut self.stream).poll_write_vectored(context, slices))?;
            self.turn += count;
            return Poll::Ready(Ok(count));
        }
        self.make_room(length);
        slices.iter().for_each(|slice| self.buffer.extend_from_slice(slice));
        Poll::Ready(Ok(length))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if std::mem::take(&mut self.is_fresh) {
            context.waker().wake_by_ref();
            return Poll::Ready(Ok(()));
        }
        ready!(self.poll_hand_on(context))?;
        self.buffer.shrink_to(KEPT);
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_hand_on(context))?;
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for WriteCoalescer<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "a test awaits its tasks, or ends with them")]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    /// A pipe that counts what is written to it.
    struct Counting(tokio::io::DuplexStream, usize);

    impl AsyncWrite for Counting {
        fn poll_write(
            mut self: Pin<&mut Self>,
            context: &mut Context<'_>,
            data: &[u8],
        ) -> Poll<io::Result<usize>> {
            self.1 += 1;
            Pin::new(&mut self.0).poll_write(context, data)
        }
        fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
            Pin::new(&mut self.0).poll_flush(context)
        }
        fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
            Pin::new(&mut self.0).poll_shutdown(context)
        }
    }

    #[tokio::test]
    async fn what_is_flushed_piece_by_piece_is_written_at_once() {
        let (near, mut far) = tokio::io::duplex(MOST);
        let mut gathered = WriteCoalescer::new(Counting(near, 0));
        for piece in ["one ", "two ", "three"] {
            gathered.write_all(piece.as_bytes()).await.unwrap();
            gathered.flush().await.unwrap();
        }
        assert_eq!(gathered.stream.1, 0);
        gathered.flush().await.unwrap();
        assert_eq!(gathered.stream.1, 1);
        let mut all = [0; 13];
        far.read_exact(&mut all).await.unwrap();
        assert_eq!(&all, b"one two three");
    }

    /// Whoever flushes once is woken to flush again.
    #[tokio::test]
    async fn nothing_stays_behind_when_there_is_no_other_flush() {
        let (near, mut far) = tokio::io::duplex(MOST);
        let mut gathered = WriteCoalescer::new(Counting(near, 0));
        let turns = std::future::poll_fn(|context| {
            if gathered.buffer.is_empty() && gathered.stream.1 == 0 {
                let _ = Pin::new(&mut gathered).poll_write(context, b"all")?;
            }
            let _ = Pin::new(&mut gathered).poll_flush(context)?;
            if gathered.stream.1 == 0 { Poll::Pending } else { Poll::Ready(io::Result::Ok(())) }
        });
        turns.await.unwrap();
        let mut all = [0; 3];
        far.read_exact(&mut all).await.unwrap();
        assert_eq!(&all, b"all");
    }

    #[tokio::test]
    async fn more_than_is_gathered_and_the_end_go_out() {
        let (near, mut far) = tokio::io::duplex(512);
        let mut gathered = WriteCoalescer::new(Counting(near, 0));
        let sent: Vec<u8> = (0..3 * MOST + 7).map(|at| u8::try_from(at % 251).unwrap()).collect();
        let copy = sent.clone();
        let writing = tokio::spawn(async move {
            for piece in copy.chunks(1_000) {
                gathered.write_all(piece).await.unwrap();
                gathered.flush().await.unwrap();
            }
            gathered.shutdown().await.unwrap();
        });
        let mut read = Vec::new();
        far.read_to_end(&mut read).await.unwrap();
        writing.await.unwrap();
        assert!(read == sent, "{} of {} bytes", read.len(), sent.len());
    }
}
