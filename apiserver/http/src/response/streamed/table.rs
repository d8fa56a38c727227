//! Table body, encoded while it is sent: each row is computed from one cached object.

use std::sync::Arc;

use apiserver_machinery::status::{ApiError, ApiResult};
use apiserver_machinery::store::CachedObject;
use apiserver_machinery::table::Rows;

use crate::response::body::ResponseBody;
use crate::response::chunked::Chunked;
use crate::response::compression;
use crate::response::streamed::chunk_source::ChunkSource;
use crate::response::streamed::item_chunks::{ItemChunks, ItemEncoder};

/// End of a table.
const END: &[u8] = b"]}\n";

/// Encoder of a row.
#[derive(Debug)]
struct RowEncoder {
    rows: Rows,
    version: &'static str,
}

impl ItemEncoder for RowEncoder {
    const SEPARATOR: Option<u8> = Some(b',');

    /// Size of a chunk: some 30 rows of Machines, encoded in less than a millisecond. A smaller table is complete
    /// before it is sent, and has a length. All others are large enough to be compressed.
    const CHUNK: usize = compression::WORTHWHILE;

    fn encode(&mut self, item: &CachedObject, to: &mut Vec<u8>) -> ApiResult<()> {
        self.rows.write(item, self.version, to)
    }
}

/// Creates the body of a table: rows of `items` after `head`. `version` is that of `meta.k8s.io`.
///
/// # Errors
/// 500 that names an item that cannot be read.
pub(crate) fn body(
    head: String,
    items: Vec<Arc<CachedObject>>,
    rows: Rows,
    version: &'static str,
) -> ApiResult<ResponseBody> {
    for item in &items {
        item.json.as_ref().map_err(ApiError::from)?;
    }
    let encoder = RowEncoder { rows, version };
    let mut chunks = ItemChunks::new(head.into_bytes(), items, END.to_vec(), encoder);
    let first = chunks.try_chunk(0)?;
    Ok(if chunks.is_done() {
        ResponseBody::full(first.unwrap_or_default())
    } else {
        ResponseBody::Chunked(Box::new(Chunked::new(first, chunks)))
    })
}
