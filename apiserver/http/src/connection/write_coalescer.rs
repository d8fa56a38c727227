//! Write coalescer: writes the output of many streams of a connection at once.
//!
//! HTTP/2 flushes after every data frame. An event for fifty watches on one connection is fifty frames, and would be
//! fifty TLS records, fifty system calls and fifty wake-ups of the client. Here, a flush that follows new bytes waits
//! for the next flush, at the end of the poll. If there is none, the connection is woken to flush again.
//!
//! A time slice is short: a list that is sent as fast as the client reads would otherwise keep a thread for
//! milliseconds, and delay all other tasks there.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Largest buffer: as much as TLS takes at once. The copy costs a fraction of a system call per frame; with more, the
/// client would wait longer for the first byte. Unit: bytes.
const LARGEST: usize = 64 * 1024;

/// Output of a time slice: encrypting and sending it takes some 200 µs. Unit: bytes.
const SLICE: usize = 128 * 1024;

/// Capacity that an empty buffer keeps: most connections are idle. Unit: bytes.
const IDLE_CAPACITY: usize = 8 * 1024;

/// Connection whose writes are coalesced.
#[derive(Debug)]
pub(crate) struct WriteCoalescer<S> {
    stream: S,
    buffer: Vec<u8>,
    /// Bytes of the buffer that the stream has taken.
    taken: usize,
    /// Set if bytes came since the last flush.
    is_fresh: bool,
    /// Bytes that the stream has taken in this time slice.
    slice: usize,
}

impl<S: AsyncWrite + Unpin> WriteCoalescer<S> {
    pub(crate) fn new(stream: S) -> Self {
        Self { stream, buffer: Vec::new(), taken: 0, is_fresh: false, slice: 0 }
    }

    /// Pending, with a wake-up at once, if the time slice is used up.
    fn poll_slice(&mut self, context: &mut Context<'_>) -> Poll<()> {
        if self.slice < SLICE {
            return Poll::Ready(());
        }
        self.slice = 0;
        context.waker().wake_by_ref();
        Poll::Pending
    }

    /// Writes the buffer to the stream.
    fn poll_write_buffer(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        while let Some(rest) = self.buffer.get(self.taken..).filter(|rest| !rest.is_empty()) {
            match ready!(Pin::new(&mut self.stream).poll_write(context, rest))? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                count => {
                    self.taken += count;
                    self.slice += count;
                }
            }
        }
        self.taken = 0;
        self.buffer.clear();
        Poll::Ready(Ok(()))
    }

    /// Reserves room for more bytes: a little, or the largest size at once, so that the buffer grows once.
    fn make_room(&mut self, length: usize) {
        let needed = self.buffer.len() + length;
        if needed > self.buffer.capacity() {
            let wanted = if needed > IDLE_CAPACITY { needed.max(LARGEST) } else { IDLE_CAPACITY };
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
        if self.buffer.len() + length > LARGEST && !self.buffer.is_empty() {
            ready!(self.poll_slice(context));
            ready!(self.poll_write_buffer(context))?;
        }
        self.is_fresh = true;
        // Output of the largest size is not copied.
        if length >= LARGEST && self.buffer.is_empty() {
            ready!(self.poll_slice(context));
            let count = ready!(Pin::new(&mut self.stream).poll_write_vectored(context, slices))?;
            self.slice += count;
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
        ready!(self.poll_write_buffer(context))?;
        self.buffer.shrink_to(IDLE_CAPACITY);
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_write_buffer(context))?;
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

    /// Pipe that counts the writes to it.
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
    async fn small_writes_with_flushes_become_one_write() {
        let (near, mut far) = tokio::io::duplex(LARGEST);
        let mut coalescer = WriteCoalescer::new(Counting(near, 0));
        for piece in ["one ", "two ", "three"] {
            coalescer.write_all(piece.as_bytes()).await.unwrap();
            coalescer.flush().await.unwrap();
        }
        assert_eq!(coalescer.stream.1, 0);
        coalescer.flush().await.unwrap();
        assert_eq!(coalescer.stream.1, 1);
        let mut all = [0; 13];
        far.read_exact(&mut all).await.unwrap();
        assert_eq!(&all, b"one two three");
    }

    /// A task that flushes once is woken to flush again.
    #[tokio::test]
    async fn a_single_flush_writes_everything() {
        let (near, mut far) = tokio::io::duplex(LARGEST);
        let mut coalescer = WriteCoalescer::new(Counting(near, 0));
        let turns = std::future::poll_fn(|context| {
            if coalescer.buffer.is_empty() && coalescer.stream.1 == 0 {
                let _ = Pin::new(&mut coalescer).poll_write(context, b"all")?;
            }
            let _ = Pin::new(&mut coalescer).poll_flush(context)?;
            if coalescer.stream.1 == 0 { Poll::Pending } else { Poll::Ready(io::Result::Ok(())) }
        });
        turns.await.unwrap();
        let mut all = [0; 3];
        far.read_exact(&mut all).await.unwrap();
        assert_eq!(&all, b"all");
    }

    #[tokio::test]
    async fn writes_larger_than_the_buffer_and_the_rest_at_shutdown_are_written() {
        let (near, mut far) = tokio::io::duplex(512);
        let mut coalescer = WriteCoalescer::new(Counting(near, 0));
        let sent: Vec<u8> = (0..3 * LARGEST + 7).map(|at| u8::try_from(at % 251).unwrap()).collect();
        let copy = sent.clone();
        let writing = tokio::spawn(async move {
            for piece in copy.chunks(1_000) {
                coalescer.write_all(piece).await.unwrap();
                coalescer.flush().await.unwrap();
            }
            coalescer.shutdown().await.unwrap();
        });
        let mut read = Vec::new();
        far.read_to_end(&mut read).await.unwrap();
        writing.await.unwrap();
        assert!(read == sent, "{} of {} bytes", read.len(), sent.len());
    }
}
