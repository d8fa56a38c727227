//! Chunks of cached objects: an encoder turns the objects into bytes one after the other, between a head and a tail.

use std::sync::Arc;

use apiserver_machinery::status::ApiResult;
use apiserver_machinery::store::CachedObject;
use bytes::Bytes;

use crate::response::streamed::chunk_source::ChunkSource;

/// Encoder of the items of a body.
pub(crate) trait ItemEncoder: Send + std::fmt::Debug {
    /// Byte between two items.
    const SEPARATOR: Option<u8>;

    /// Size from which on a chunk is sent. Unit: bytes.
    const CHUNK: usize;

    /// Appends one item.
    ///
    /// # Errors
    /// 500 if the item cannot be read.
    fn encode(&mut self, item: &CachedObject, to: &mut Vec<u8>) -> ApiResult<()>;
}

/// Items that are still to be encoded.
#[derive(Debug)]
pub(crate) struct ItemChunks<E> {
    head: Vec<u8>,
    items: std::vec::IntoIter<Arc<CachedObject>>,
    tail: Vec<u8>,
    encoder: E,
    is_begun: bool,
    is_done: bool,
}

impl<E: ItemEncoder> ItemChunks<E> {
    /// Creates the source of a body of `items` between `head` and `tail`.
    pub(crate) fn new(head: Vec<u8>, items: Vec<Arc<CachedObject>>, tail: Vec<u8>, encoder: E) -> Self {
        Self { head, items: items.into_iter(), tail, encoder, is_begun: false, is_done: false }
    }

    /// Makes the next chunk, of `expected` bytes as far as that is known. The last one ends with the tail.
    ///
    /// # Errors
    /// 500 if an item cannot be read. No chunk comes after that.
    pub(crate) fn try_chunk(&mut self, expected: usize) -> ApiResult<Option<Bytes>> {
        if self.is_done {
            return Ok(None);
        }
        let mut chunk = Vec::with_capacity(expected);
        chunk.append(&mut self.head);
        while chunk.len() < E::CHUNK {
            let Some(item) = self.items.next() else {
                chunk.append(&mut self.tail);
                self.is_done = true;
                break;
            };
            if std::mem::replace(&mut self.is_begun, true) {
                chunk.extend(E::SEPARATOR);
            }
            self.encoder.encode(&item, &mut chunk).inspect_err(|_| self.is_done = true)?;
        }
        Ok(Some(Bytes::from(chunk)))
    }
}

impl<E: ItemEncoder> ChunkSource for ItemChunks<E> {
    /// Makes the next chunk. Constructors check every item, so that an unreadable one is an error response. If one
    /// fails here all the same, it is too late for that, and the body is cut off.
    fn next_chunk(&mut self) -> Option<Bytes> {
        let chunk = self.try_chunk(0);
        chunk
            .inspect_err(|error| tracing::error!(%error, "cannot encode an item; cutting off the response"))
            .ok()?
    }

    fn is_done(&self) -> bool {
        self.is_done
    }
}
