//! List body: its items are in the cache in the form that is sent, and are copied from there a chunk at a time, as fast
//! as the client reads them. So a list costs the server one chunk, whatever its length and however many clients read
//! it.

use std::sync::Arc;

use apiserver_machinery::status::{ApiError, ApiResult};
use apiserver_machinery::store::CachedObject;
use bytes::Bytes;

use crate::response::streamed::chunk_source::ChunkSource;
use crate::response::streamed::item_chunks::{ItemChunks, ItemEncoder};

/// Size of a chunk: large enough that its overhead is small, small enough to stay in a core's cache between encoding
/// and encryption. Unit: bytes.
const CHUNK: usize = 64 * 1024;

/// End of an item's metadata.
const END: &[u8] = b"}";

/// Part of each item that a list shows.
#[derive(Debug, Clone)]
pub(crate) enum Shown {
    /// All of it.
    Whole,
    /// Its metadata, after this text.
    Metadata(String),
}

impl Shown {
    /// Returns the length of an item in bytes.
    fn size(&self, item: &CachedObject) -> ApiResult<usize> {
        let json = item.json.as_ref().map_err(ApiError::from)?;
        Ok(match self {
            Self::Whole => json.size(),
            Self::Metadata(head) => head.len() + json.metadata_size() + END.len(),
        })
    }
}

impl ItemEncoder for Shown {
    const SEPARATOR: Option<u8> = Some(b',');
    const CHUNK: usize = CHUNK;

    fn encode(&mut self, item: &CachedObject, to: &mut Vec<u8>) -> ApiResult<()> {
        let json = item.json.as_ref().map_err(ApiError::from)?;
        match self {
            Self::Whole => json.write(to),
            Self::Metadata(head) => {
                to.extend_from_slice(head.as_bytes());
                json.write_metadata(to);
                to.extend_from_slice(END);
            }
        }
        Ok(())
    }
}

/// Source of a list's chunks, whose length is known.
#[derive(Debug)]
pub(crate) struct ListChunks {
    chunks: ItemChunks<Shown>,
    /// Bytes that are still to be sent.
    left: u64,
}

impl ListChunks {
    /// Creates the source of a list of `items` between `head` and `tail`.
    ///
    /// # Errors
    /// 500 that names an item that cannot be read.
    pub(crate) fn new(
        head: String,
        items: Vec<Arc<CachedObject>>,
        tail: String,
        shown: Shown,
    ) -> ApiResult<Self> {
        let mut size = head.len() + tail.len() + items.len().saturating_sub(1);
        for item in &items {
            size += shown.size(item)?;
        }
        let chunks = ItemChunks::new(head.into_bytes(), items, tail.into_bytes(), shown);
        Ok(Self { chunks, left: u64::try_from(size).unwrap_or(u64::MAX) })
    }

    /// Returns the number of bytes that are still to be sent.
    pub(crate) fn left(&self) -> u64 {
        self.left
    }
}

impl ChunkSource for ListChunks {
    fn next_chunk(&mut self) -> Option<Bytes> {
        if self.left == 0 {
            return None;
        }
        let expected = usize::try_from(self.left).map_or(CHUNK, |left| left.min(CHUNK + CHUNK / 4));
        let chunk = self.chunks.try_chunk(expected);
        let chunk =
            chunk.inspect_err(|error| tracing::error!(%error, "cannot encode an item; cutting off a list"));
        let chunk = chunk.ok()??;
        self.left = self.left.saturating_sub(u64::try_from(chunk.len()).unwrap_or(u64::MAX));
        Some(chunk)
    }

    fn is_done(&self) -> bool {
        self.left == 0
    }
}
