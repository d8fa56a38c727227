//! Metadata in protobuf, put together while they are sent: as the garbage collector asks for all there is.

use std::sync::Arc;

use apiserver_machinery::protobuf::PartialList;
use apiserver_machinery::status::{ApiError, ApiResult};
use apiserver_machinery::store::CachedObject;
use bytes::Bytes;
use serde_json::Value;

use crate::response::compression::WORTHWHILE;

/// A list of which the items are still to be written. Of an object its metadata alone are decoded: once to know how long
/// the list is, and once to write it.
#[derive(Debug)]
pub(crate) struct MetadataItems {
    list: PartialList,
    head: Vec<u8>,
    items: std::vec::IntoIter<Arc<CachedObject>>,
    is_done: bool,
    is_small: bool,
}

impl MetadataItems {
    /// A list with this `metadata`, in this version of `meta.k8s.io`.
    ///
    /// # Errors
    /// 500 naming an item that cannot be read.
    pub(crate) fn new(metadata: &Value, items: Vec<Arc<CachedObject>>, version: &str) -> ApiResult<Self> {
        let mut list = PartialList::new(&format!("meta.k8s.io/{version}"), metadata);
        for item in &items {
            list.count(&item.to_packed_metadata().map_err(ApiError::internal)?);
        }
        let (head, is_small) = (list.head(), list.length() < WORTHWHILE);
        Ok(Self { list, head, items: items.into_iter(), is_done: false, is_small })
    }

    /// Whether it may as well be sent whole.
    pub(crate) fn is_small(&self) -> bool {
        self.is_small
    }
}

impl Iterator for MetadataItems {
    type Item = Bytes;

    /// The next chunk. All items have been read before; should one be none all the same, the list is cut off there.
    fn next(&mut self) -> Option<Bytes> {
        if self.is_done {
            return None;
        }
        let mut chunk = std::mem::take(&mut self.head);
        while chunk.len() < WORTHWHILE {
            let Some(item) = self.items.next() else {
                chunk.extend_from_slice(&self.list.tail());
                self.is_done = true;
                break;
            };
            let metadata = item.to_packed_metadata();
            let metadata = metadata.inspect_err(|error| tracing::error!(error, "a list is cut off"));
            self.is_done = metadata.is_err();
            chunk.extend_from_slice(&self.list.item(&metadata.ok()?));
        }
        Some(Bytes::from(chunk))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (0, self.is_done.then_some(0))
    }
}
