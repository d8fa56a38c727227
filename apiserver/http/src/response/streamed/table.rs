//! A table that is put together while it is sent: its rows say what the objects say in other words.

use std::sync::Arc;

use apiserver_machinery::status::{ApiError, ApiResult};
use apiserver_machinery::store::CachedObject;
use apiserver_machinery::table::Rows;
use bytes::Bytes;

use crate::response::compression;

/// How much is made at a time: some 30 rows of Machines, in less than a millisecond. A table that is smaller is whole
/// before it is sent and its length is told; of no other is it asked whether compressing it is worth it. Unit: bytes.
const CHUNK: usize = compression::WORTHWHILE;

/// After the last row.
const END: &[u8] = b"]}\n";

/// A table of which the rows are still to be made.
#[derive(Debug)]
pub(crate) struct TableRows {
    head: Vec<u8>,
    items: std::vec::IntoIter<Arc<CachedObject>>,
    rows: Rows,
    version: &'static str,
    is_begun: bool,
    is_done: bool,
}

impl TableRows {
    /// Rows of `items` after `head`; `version` is that of `meta.k8s.io`.
    ///
    /// # Errors
    /// 500 naming an item that cannot be read.
    pub(crate) fn new(
        head: String,
        items: Vec<Arc<CachedObject>>,
        rows: Rows,
        version: &'static str,
    ) -> ApiResult<Self> {
        for item in &items {
            item.json.as_ref().map_err(|damage| ApiError::internal(damage.clone()))?;
        }
        let (head, items) = (head.into_bytes(), items.into_iter());
        Ok(Self { head, items, rows, version, is_begun: false, is_done: false })
    }

    /// The next chunk; the last one has the table's end.
    ///
    /// # Errors
    /// 500 for what is no JSON.
    pub(crate) fn chunk(&mut self) -> ApiResult<Bytes> {
        let mut chunk = std::mem::take(&mut self.head);
        while chunk.len() < CHUNK {
            let Some(item) = self.items.next() else {
                chunk.extend_from_slice(END);
                self.is_done = true;
                break;
            };
            if std::mem::replace(&mut self.is_begun, true) {
                chunk.push(b',');
            }
            self.rows.write(&item, self.version, &mut chunk)?;
        }
        Ok(Bytes::from(chunk))
    }

    /// Whether nothing more is to come.
    pub(crate) fn is_done(&self) -> bool {
        self.is_done
    }
}

impl Iterator for TableRows {
    type Item = Bytes;

    /// The next chunk. All items have been looked at when the table was begun; should one be no JSON all the same, the
    /// table is cut off there, as it is too late for an error.
    fn next(&mut self) -> Option<Bytes> {
        if self.is_done {
            return None;
        }
        let chunk = self.chunk().inspect_err(|error| tracing::error!(%error, "a table is cut off"));
        self.is_done |= chunk.is_err();
        chunk.ok()
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (0, self.is_done.then_some(0))
    }
}
