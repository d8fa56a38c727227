//! Source of the chunks of a response body: it creates one after the other, as fast as the client reads them.

use bytes::Bytes;

/// Source of the chunks of a body.
pub(crate) trait ChunkSource: Send {
    /// Makes the next chunk; `None` at the end of the body.
    fn next_chunk(&mut self) -> Option<Bytes>;

    /// Returns true if it is known, without making a chunk, that there are no more. It saves the last job of an
    /// encoding thread.
    fn is_done(&self) -> bool {
        false
    }

    /// Makes all chunks, in one piece.
    fn whole(mut self) -> Vec<u8>
    where
        Self: Sized,
    {
        let mut whole = Vec::new();
        while let Some(chunk) = self.next_chunk() {
            whole.extend_from_slice(&chunk);
        }
        whole
    }
}

/// Source of any type.
pub(crate) type BoxedSource = Box<dyn ChunkSource>;

impl ChunkSource for BoxedSource {
    fn next_chunk(&mut self) -> Option<Bytes> {
        self.as_mut().next_chunk()
    }

    fn is_done(&self) -> bool {
        self.as_ref().is_done()
    }
}

/// Bytes in memory, followed by those of another source, if any.
pub(crate) struct AtHand {
    pub(crate) first: Option<Bytes>,
    pub(crate) rest: Option<BoxedSource>,
}

impl ChunkSource for AtHand {
    fn next_chunk(&mut self) -> Option<Bytes> {
        self.first.take().or_else(|| self.rest.as_mut()?.next_chunk())
    }

    fn is_done(&self) -> bool {
        self.first.is_none() && self.rest.as_ref().is_none_or(|rest| rest.is_done())
    }
}

/// Chunks of an iterator, for tests.
#[cfg(test)]
pub(crate) struct Chunks<I>(pub(crate) I);

#[cfg(test)]
impl<I: Iterator<Item = Bytes> + Send> ChunkSource for Chunks<I> {
    fn next_chunk(&mut self) -> Option<Bytes> {
        self.0.next()
    }

    fn is_done(&self) -> bool {
        self.0.size_hint().1 == Some(0)
    }
}
