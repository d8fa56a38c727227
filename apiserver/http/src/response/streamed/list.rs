//! A list that is put together while it is sent: its items stand in the cache as they go out, and are copied
//! from there a chunk at a time, as fast as the client takes them. So a list costs its reader's server one chunk,
//! however long it is and however many read.

use std::ops::Range;
use std::sync::Arc;

use apiserver_machinery::status::{ApiError, ApiResult};
use apiserver_machinery::store::CachedObject;
use bytes::Bytes;

/// How much is put together at a time: large enough that a chunk costs less than what is in it, small enough to
/// stay in a core's cache between its making and its encryption. Unit: bytes.
const CHUNK: usize = 64 * 1024;

/// After an item's metadata.
const END: &[u8] = b"}";

/// What of each item is shown.
#[derive(Debug, Clone)]
pub(crate) enum Shown {
    /// All of it.
    Whole,
    /// Its metadata, after this.
    Metadata(String),
}

impl Shown {
    /// How long an item is, in bytes.
    fn size(&self, item: &CachedObject) -> ApiResult<usize> {
        let json = item.json.as_ref().map_err(|damage| ApiError::internal(damage.clone()))?;
        Ok(match self {
            Self::Whole => json.size(),
            Self::Metadata(head) => head.len() + json.metadata_size() + END.len(),
        })
    }

    /// Appends an item.
    fn write(&self, item: &CachedObject, to: &mut Vec<u8>) {
        // All have been looked at when the list was begun.
        let Ok(json) = &item.json else { return };
        match self {
            Self::Whole => json.write(to),
            Self::Metadata(head) => {
                to.extend_from_slice(head.as_bytes());
                json.write_metadata(to);
                to.extend_from_slice(END);
            }
        }
    }
}

/// The rest of such a list.
#[derive(Debug)]
pub(crate) struct Items {
    head: String,
    items: Vec<Arc<CachedObject>>,
    tail: String,
    shown: Shown,
    /// Those that are still to be sent.
    rest: Range<usize>,
    /// Bytes that are still to be sent.
    left: u64,
}

impl Items {
    /// A list of `items` between `head` and `tail`.
    ///
    /// # Errors
    /// 500 naming an item that cannot be read.
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
        let (rest, left) = (0..items.len(), u64::try_from(size).unwrap_or(u64::MAX));
        Ok(Self { head, items, tail, shown, rest, left })
    }

    /// Bytes that are still to be sent.
    pub(crate) fn left(&self) -> u64 {
        self.left
    }
}

impl Iterator for Items {
    type Item = Bytes;

    /// The next chunk.
    fn next(&mut self) -> Option<Bytes> {
        if self.left == 0 {
            return None;
        }
        let room = usize::try_from(self.left).map_or(CHUNK, |left| left.min(CHUNK + CHUNK / 4));
        let mut chunk = Vec::with_capacity(room);
        chunk.extend_from_slice(std::mem::take(&mut self.head).as_bytes());
        while chunk.len() < CHUNK {
            let Some(number) = self.rest.next() else {
                chunk.extend_from_slice(std::mem::take(&mut self.tail).as_bytes());
                break;
            };
            if number > 0 {
                chunk.push(b',');
            }
            if let Some(item) = self.items.get(number) {
                self.shown.write(item, &mut chunk);
            }
        }
        self.left = self.left.saturating_sub(u64::try_from(chunk.len()).unwrap_or(u64::MAX));
        Some(Bytes::from(chunk))
    }
}
