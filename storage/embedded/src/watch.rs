//! Watches, each of which reads the log from its own position.

use std::sync::Arc;
use std::time::Duration;

use futures::stream;
use storage_contract::{
    Entry, Event, EventKind, KeyRange, Revision, StoreError, StoreResult, WatchItem, WatchStream,
};
use tokio::sync::watch as signal;

use crate::journal::Record;
use crate::layout::{key, unreadable};
use crate::memtable::{Shared, State};
use crate::read::Snapshot;

/// Log entries that are read at a time, which bounds the memory of a watcher.
const BATCH: usize = 500;

/// Bytes of values that are read at a time: the count alone would not bound 500 of the largest values, each with its
/// predecessor.
const BATCH_BYTES: usize = 8 * 1024 * 1024;

/// Interval at which an idle watch reports progress.
const PROGRESS: Duration = Duration::from_secs(2);

/// Position and source of one watch.
struct Watcher {
    shared: Arc<Shared>,
    newest: signal::Receiver<Revision>,
    range: KeyRange,
    /// True if the entry before each change is read and reported.
    with_previous: bool,
    /// Everything before this has been yielded.
    from: Revision,
    ready: std::vec::IntoIter<WatchItem>,
    failed: bool,
}

pub(crate) fn stream(
    shared: Arc<Shared>,
    newest: signal::Receiver<Revision>,
    range: KeyRange,
    with_previous: bool,
    from: Revision,
) -> WatchStream {
    let ready = Vec::new().into_iter();
    let watcher = Watcher { shared, newest, range, with_previous, from, ready, failed: false };
    Box::pin(stream::unfold(watcher, |mut watcher| async move {
        let item = watcher.next().await?;
        Some((item, watcher))
    }))
}

impl Watcher {
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
                // A watch from the future has no progress to report yet.
                Err(_) if self.from > newest.next() => {}
                Err(_) => return Some(Ok(WatchItem::Progress(newest))),
            }
        }
    }

    async fn read(&self) -> StoreResult<(Vec<WatchItem>, Revision)> {
        if let Some(batch) = self.recent()? {
            return Ok(batch);
        }
        let (shared, range) = (Arc::clone(&self.shared), self.range.clone());
        let (with_previous, from) = (self.with_previous, self.from);
        tokio::task::spawn_blocking(move || batch(&shared, &range, with_previous, from))
            .await
            .map_err(|error| StoreError::Unavailable { operation: "watch", source: Box::new(error) })?
    }

    /// Returns the next events, if memory has all of them.
    fn recent(&self) -> StoreResult<Option<(Vec<WatchItem>, Revision)>> {
        let written = {
            let state = self.shared.state();
            if self.from <= state.snapshot.revision {
                return Ok(None);
            }
            RecentWrites::since(&state, self.from, &self.range, self.with_previous)
        };
        if self.with_previous && written.records.iter().any(RecentWrites::is_previous_checkpointed) {
            return Ok(None);
        }
        written.items(self.with_previous, None).map(Some)
    }
}

/// Part of the writes that the database does not have yet.
struct RecentWrites {
    /// Each write with the one that it replaced, where the database does not have that one yet.
    records: Vec<(Arc<Record>, Option<Arc<Record>>)>,
    /// Revision up to which the part is complete.
    reached: Revision,
}

impl RecentWrites {
    /// Returns the writes in `range` from `from` on that the database does not have, with the entries before them if
    /// `with_previous`.
    fn since(state: &State, from: Revision, range: &KeyRange, with_previous: bool) -> Self {
        let (mut records, mut bytes) = (Vec::new(), 0);
        for (count, record) in state.from(from).enumerate() {
            if count == BATCH || bytes >= BATCH_BYTES {
                return Self { records, reached: Revision::new(record.revision.number() - 1) };
            }
            if range.contains(record.key.as_bytes()) {
                bytes += record.value.as_ref().map_or(0, bytes::Bytes::len);
                let previous = if with_previous { state.at(record.previous).cloned() } else { None };
                records.push((Arc::clone(record), previous));
            }
        }
        Self { records, reached: state.newest() }
    }

    /// Returns true if the write replaced an entry that the database has.
    fn is_previous_checkpointed((record, previous): &(Arc<Record>, Option<Arc<Record>>)) -> bool {
        previous.is_none() && record.previous != Revision::NONE
    }

    fn items(
        self,
        with_previous: bool,
        snapshot: Option<&Snapshot>,
    ) -> StoreResult<(Vec<WatchItem>, Revision)> {
        let (mut items, mut bytes_read) = (Vec::with_capacity(self.records.len() + 1), 0);
        for each in self.records {
            let (record, previous) = &each;
            if bytes_read >= BATCH_BYTES {
                let reached = Revision::new(record.revision.number() - 1);
                items.push(WatchItem::Progress(reached));
                return Ok((items, reached.next()));
            }
            let checkpointed = snapshot.filter(|_| Self::is_previous_checkpointed(&each));
            let previous = match (with_previous, checkpointed) {
                (false, _) => None,
                (true, Some(snapshot)) => snapshot.before(record.key.as_bytes(), record.revision.number())?,
                (true, None) => previous.as_ref().and_then(|previous| previous.entry()),
            };
            let event = record.event(previous);
            // Entries that are in memory anyway cost nothing.
            bytes_read += checkpointed.map_or(0, |_| size(&event));
            items.push(WatchItem::Event(event));
        }
        items.push(WatchItem::Progress(self.reached));
        Ok((items, self.reached.next()))
    }
}

impl Record {
    fn event(&self, previous: Option<Entry>) -> Event {
        let kind = match (&self.value, self.created == self.revision) {
            (None, _) => EventKind::Deleted,
            (Some(_), true) => EventKind::Created,
            (Some(_), false) => EventKind::Updated,
        };
        // The entry before a creation is a deletion.
        let previous = previous.filter(|_| kind != EventKind::Created);
        let created = match (kind, &previous) {
            (EventKind::Deleted, None) => Revision::NONE,
            _ => self.created,
        };
        let (key, revision, value) = (self.key.clone(), self.revision, self.value.clone());
        Event { kind, key, revision, value, created, previous }
    }
}

/// Returns the next events of the range with a progress item, and the revision to continue from.
fn batch(
    shared: &Shared,
    range: &KeyRange,
    with_previous: bool,
    from: Revision,
) -> StoreResult<(Vec<WatchItem>, Revision)> {
    let (snapshot, written) = {
        let state = shared.state();
        let written =
            (from > state.snapshot.revision).then(|| RecentWrites::since(&state, from, range, with_previous));
        (Arc::clone(&state.snapshot), written)
    };
    match written {
        Some(written) => written.items(with_previous, Some(&snapshot)),
        None => batch_from_snapshot(&snapshot, range, with_previous, from),
    }
}

/// Returns the next events of the range from the database.
fn batch_from_snapshot(
    snapshot: &Snapshot,
    range: &KeyRange,
    with_previous: bool,
    from: Revision,
) -> StoreResult<(Vec<WatchItem>, Revision)> {
    if from < snapshot.compacted {
        return Err(StoreError::Compacted { requested: from, oldest: snapshot.compacted });
    }
    let (mut items, mut bytes_read) = (Vec::new(), 0);
    let mut reached = snapshot.revision;
    for (count, line) in snapshot.log.range(from.number()..).map_err(|e| unreadable("watch", e))?.enumerate()
    {
        let (at, bytes) = line.map_err(|e| unreadable("watch", e))?;
        let revision = at.value();
        if count == BATCH || bytes_read >= BATCH_BYTES {
            reached = Revision::new(revision.saturating_sub(1));
            break;
        }
        if range.contains(bytes.value()) {
            let event = event(snapshot, bytes.value(), revision, with_previous)?;
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

fn event(snapshot: &Snapshot, bytes: &[u8], revision: u64, with_previous: bool) -> StoreResult<Event> {
    let written = snapshot.written(bytes, revision)?;
    let kind = match &written {
        None => EventKind::Deleted,
        Some(entry) if entry.created == entry.modified => EventKind::Created,
        Some(_) => EventKind::Updated,
    };
    let previous = match kind {
        EventKind::Updated | EventKind::Deleted if with_previous => snapshot.before(bytes, revision)?,
        _ => None,
    };
    let created = written.as_ref().or(previous.as_ref()).map_or(Revision::NONE, |entry| entry.created);
    let (key, revision, value) = (key(bytes)?, Revision::new(revision), written.map(|entry| entry.value));
    Ok(Event { kind, key, revision, value, created, previous })
}
