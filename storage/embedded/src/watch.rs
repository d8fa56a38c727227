//! Watches: each reads the log from where it is.

use std::sync::Arc;
use std::time::Duration;

use futures::stream;
use redb::{Database, ReadableDatabase};
use storage_contract::{
    Event, EventKind, KeyRange, Revision, StoreError, StoreResult, WatchItem, WatchStream,
};
use tokio::sync::watch as signal;

use crate::layout::{COMPACTED, LOG, REVISION, key, unreadable};
use crate::read::{self, History};

/// Log entries read at a time, which bounds what a watcher holds in memory.
const BATCH: usize = 500;

/// Bytes of values read at a time: 500 of the largest values, each with its predecessor, would not
/// be bounded by the count alone.
const BATCH_BYTES: usize = 8 * 1024 * 1024;

/// How often an idle watch says how far it is.
const PROGRESS: Duration = Duration::from_secs(2);

struct Follow {
    database: Arc<Database>,
    newest: signal::Receiver<Revision>,
    range: KeyRange,
    /// Whether the values before each change are read and told.
    with_previous: bool,
    /// Everything before this has been yielded.
    from: Revision,
    ready: std::vec::IntoIter<WatchItem>,
    failed: bool,
}

pub(crate) fn stream(
    database: Arc<Database>,
    newest: signal::Receiver<Revision>,
    range: KeyRange,
    with_previous: bool,
    from: Revision,
) -> WatchStream {
    let ready = Vec::new().into_iter();
    let follow = Follow { database, newest, range, with_previous, from, ready, failed: false };
    Box::pin(stream::unfold(follow, |mut follow| async move {
        let item = follow.next().await?;
        Some((item, follow))
    }))
}

impl Follow {
    async fn next(&mut self) -> Option<StoreResult<WatchItem>> {
        loop {
            if let Some(item) = self.ready.next() {
                return Some(Ok(item));
            }
            if self.failed {
                return None;
            }
            let newest = *self.newest.borrow_and_update();
            if newest >= self.from {
                match self.read().await {
                    Ok((items, from)) => {
                        self.ready = items.into_iter();
                        self.from = from;
                    }
                    Err(error) => {
                        self.failed = true;
                        return Some(Err(error));
                    }
                }
                continue;
            }
            match tokio::time::timeout(PROGRESS, self.newest.changed()).await {
                Ok(Ok(())) => {}
                Ok(Err(_)) => {
                    self.failed = true;
                    let source = "the store is shut down".into();
                    return Some(Err(StoreError::Unavailable { operation: "watch", source }));
                }
                // A watch from the future has nothing to say about the present.
                Err(_) if self.from > newest.next() => {}
                Err(_) => return Some(Ok(WatchItem::Progress(newest))),
            }
        }
    }

    async fn read(&self) -> StoreResult<(Vec<WatchItem>, Revision)> {
        let (database, range) = (Arc::clone(&self.database), self.range.clone());
        let (with_previous, from) = (self.with_previous, self.from);
        tokio::task::spawn_blocking(move || batch(&database, &range, with_previous, from))
            .await
            .map_err(|error| StoreError::Unavailable { operation: "watch", source: Box::new(error) })?
    }
}

/// The next events of the range, a progress mark, and where to go on.
fn batch(
    database: &Database,
    range: &KeyRange,
    with_previous: bool,
    from: Revision,
) -> StoreResult<(Vec<WatchItem>, Revision)> {
    let transaction = database.begin_read().map_err(|e| unreadable("watch", e))?;
    let oldest = read::number(&transaction, COMPACTED)?;
    if from < oldest {
        return Err(StoreError::Compacted { requested: from, oldest });
    }
    let newest = read::number(&transaction, REVISION)?;
    let log = transaction.open_table(LOG).map_err(|e| unreadable("watch", e))?;
    let history = read::history(&transaction)?;
    let (mut items, mut bytes_read) = (Vec::new(), 0);
    let mut reached = newest;
    for (count, line) in log.range(from.number()..).map_err(|e| unreadable("watch", e))?.enumerate() {
        let (at, bytes) = line.map_err(|e| unreadable("watch", e))?;
        let revision = at.value();
        if count == BATCH || bytes_read >= BATCH_BYTES {
            reached = Revision::new(revision.saturating_sub(1));
            break;
        }
        if range.contains(bytes.value()) {
            let event = event(&history, bytes.value(), revision, with_previous)?;
            bytes_read += size(&event);
            items.push(WatchItem::Event(event));
        }
    }
    items.push(WatchItem::Progress(reached));
    Ok((items, reached.next()))
}

fn size(event: &Event) -> usize {
    let previous = event.previous.as_ref().map_or(0, |entry| entry.value.len());
    event.value.as_ref().map_or(0, bytes::Bytes::len) + previous
}

fn event(history: &History, bytes: &[u8], revision: u64, with_previous: bool) -> StoreResult<Event> {
    let written = read::written(history, bytes, revision)?;
    let kind = match &written {
        None => EventKind::Deleted,
        Some(entry) if entry.created == entry.modified => EventKind::Created,
        Some(_) => EventKind::Updated,
    };
    let previous = match kind {
        EventKind::Updated | EventKind::Deleted if with_previous => read::before(history, bytes, revision)?,
        _ => None,
    };
    let created = written.as_ref().or(previous.as_ref()).map_or(Revision::NONE, |entry| entry.created);
    let (key, revision, value) = (key(bytes)?, Revision::new(revision), written.map(|entry| entry.value));
    Ok(Event { kind, key, revision, value, created, previous })
}
