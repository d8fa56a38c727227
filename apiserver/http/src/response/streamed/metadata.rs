//! Metadata list in protobuf, encoded while it is sent: the garbage collector requests all metadata this way.

use std::sync::Arc;

use apiserver_machinery::protobuf::PartialList;
use apiserver_machinery::status::ApiResult;
use apiserver_machinery::store::CachedObject;
use serde_json::Value;

use crate::response::body::ResponseBody;
use crate::response::chunked::Chunked;
use crate::response::compression::WORTHWHILE;
use crate::response::streamed::chunk_source::ChunkSource;
use crate::response::streamed::item_chunks::{ItemChunks, ItemEncoder};

/// Encoder of an item. Of an object its metadata alone are decoded: once for the length of the list, and once to
/// encode.
#[derive(Debug)]
struct MetadataEncoder(PartialList);

impl ItemEncoder for MetadataEncoder {
    const SEPARATOR: Option<u8> = None;
    const CHUNK: usize = WORTHWHILE;

    fn encode(&mut self, item: &CachedObject, to: &mut Vec<u8>) -> ApiResult<()> {
        let metadata = item.to_serialized_metadata()?;
        to.extend_from_slice(&self.0.item(&metadata));
        Ok(())
    }
}

/// Creates the body of a list with this `metadata`, in this version of `meta.k8s.io`. A short list is encoded at once.
///
/// # Errors
/// 500 that names an item that cannot be read.
pub(crate) fn body(
    metadata: &Value,
    items: Vec<Arc<CachedObject>>,
    version: &str,
) -> ApiResult<ResponseBody> {
    let mut list = PartialList::new(&format!("meta.k8s.io/{version}"), metadata);
    for item in &items {
        list.count(&item.to_serialized_metadata()?);
    }
    let is_small = list.length() < WORTHWHILE;
    let chunks = ItemChunks::new(list.head(), items, list.tail(), MetadataEncoder(list));
    Ok(if is_small {
        ResponseBody::full(chunks.whole())
    } else {
        ResponseBody::Chunked(Box::new(Chunked::new(None, chunks)))
    })
}
