//! A table that is put together while it is sent.
//!
//! Its rows say what the objects say in other words, and a row takes ten times as long as an item of a list. So they are
//! made on threads of their own, a chunk at a time, and who waits for the next chunk takes turns with the others.

use std::sync::{Arc, LazyLock};
use std::task::{Context, Poll, ready};

use apiserver_machinery::status::{ApiError, ApiResult};
use apiserver_machinery::store::CachedObject;
use apiserver_machinery::table::Rows;
use bytes::Bytes;
use futures::FutureExt;
use futures::future::BoxFuture;
use tokio::sync::Semaphore;

use crate::compression;
use crate::metrics::RequestSeries;

/// How much is made at a time: some 30 rows of Machines, in less than a millisecond. A table that is smaller is whole
/// before it is sent and its length is told; of no other is it asked whether compressing it is worth it. Unit: bytes.
const CHUNK: usize = compression::WORTHWHILE;

/// After the last row.
const END: &[u8] = b"]}\n";

/// Who may make rows: as many at a time as there are processors, since more would take them from everybody else.
static TURNS: LazyLock<Semaphore> =
    LazyLock::new(|| Semaphore::new(std::thread::available_parallelism().map_or(1, std::num::NonZero::get)));

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
}

/// What a thread has made, and what is left to make.
type Made = (Option<Bytes>, Option<Box<TableRows>>);

/// Such a table on its way.
pub(crate) struct TableBody {
    first: Option<Bytes>,
    rest: Option<Box<TableRows>>,
    making: Option<BoxFuture<'static, Made>>,
    sent: usize,
    /// Where its length is told once it is known.
    series: Option<Arc<RequestSeries>>,
}

impl TableBody {
    /// A table of which the first chunk is made.
    pub(crate) fn new(first: Bytes, rest: TableRows) -> Self {
        Self { first: Some(first), rest: Some(Box::new(rest)), making: None, sent: 0, series: None }
    }

    /// All chunks, for who takes them on a thread of their own before any was sent.
    pub(crate) fn into_chunks(mut self) -> impl Iterator<Item = Bytes> {
        let rest = self.rest.take().map(|rows| *rows);
        self.first.take().into_iter().chain(rest.into_iter().flatten())
    }

    /// Tells its length there when it has been sent, or nobody takes it any more.
    pub(crate) fn count(&mut self, series: Arc<RequestSeries>) {
        self.series = Some(series);
    }

    fn poll_made(&mut self, context: &mut Context<'_>) -> Poll<Option<Bytes>> {
        if let Some(first) = self.first.take() {
            return Poll::Ready(Some(first));
        }
        if self.making.is_none() {
            self.making = self.rest.take().map(|rows| make(rows).boxed());
        }
        let Some(making) = &mut self.making else { return Poll::Ready(None) };
        let (chunk, rest) = ready!(making.poll_unpin(context));
        (self.making, self.rest) = (None, rest);
        Poll::Ready(chunk)
    }

    /// The next chunk.
    pub(crate) fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<Bytes>> {
        let chunk = ready!(self.poll_made(context));
        self.sent += chunk.as_ref().map_or(0, Bytes::len);
        Poll::Ready(chunk)
    }
}

impl Drop for TableBody {
    fn drop(&mut self) {
        if let Some(series) = &self.series {
            series.sized(u64::try_from(self.sent).unwrap_or(u64::MAX));
        }
    }
}

impl std::fmt::Debug for TableBody {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TableBody").field("sent", &self.sent).finish_non_exhaustive()
    }
}

async fn make(mut rows: Box<TableRows>) -> Made {
    let turn = TURNS.acquire().await;
    let made = tokio::task::spawn_blocking(move || {
        // Over when the chunk is made, and not when somebody takes it.
        let _turn = turn;
        let chunk = rows.next();
        (chunk, Some(rows).filter(|rows| !rows.is_done))
    });
    // After a panic it is cut off, too.
    made.await.unwrap_or_default()
}
