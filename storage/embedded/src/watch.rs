//! Watches: each reads the log from where it is.

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
use crate::read::Base;

/// Log entries read at a time, which bounds what a watcher holds in memory.
const BATCH: usize = 500;

/// Bytes of values read at a time: 500 of the largest values, each with its predecessor, would not
/// be bounded by the count alone.
const BATCH_BYTES: usize = 8 * 1024 * 1024;

/// How often an idle watch says how far it is.
const PROGRESS: Duration = Duration::from_secs(2);

struct Follow {
    shared: Arc<Shared>,
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
    shared: Arc<Shared>,
    newest: signal::Receiver<Revision>,
    range: KeyRange,
    with_previous: bool,
    from: Revision,
) -> WatchStream {
    let ready = Vec::new().into_iter();
    let follow = Follow { shared, newest, range, with_previous, from, ready, failed: false };
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
        if let Some(batch) = self.recent()? {
            return Ok(batch);
        }
        let (shared, range) = (Arc::clone(&self.shared), self.range.clone());
        let (with_previous, from) = (self.with_previous, self.from);
        tokio::task::spawn_blocking(move || batch(&shared, &range, with_previous, from))
            .await
            .map_err(|error| StoreError::Unavailable { operation: "watch", source: Box::new(error) })?
    }

    /// The next events, if memory has all that is to be told.
    fn recent(&self) -> StoreResult<Option<(Vec<WatchItem>, Revision)>> {
        let written = {
            let state = self.shared.state();
            if self.from <= state.base.revision {
                return Ok(None);
            }
            Written::since(&state, self.from, &self.range, self.with_previous)
        };
        if self.with_previous && written.records.iter().any(Written::is_previous_settled) {
            return Ok(None);
        }
        written.items(self.with_previous, None).map(Some)
    }
}

/// A part of what was written, as far as the database does not have it yet.
struct Written {
    /// Each with the write that it replaced, where that is as new.
    records: Vec<(Arc<Record>, Option<Arc<Record>>)>,
    /// Everything up to this one is there.
    reached: Revision,
}

impl Written {
    /// What was written in `range` from `from` on, which the database does not have; with what was before, if wanted.
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

    /// Whether there was something before, and the database has it.
    fn is_previous_settled((record, previous): &(Arc<Record>, Option<Arc<Record>>)) -> bool {
        previous.is_none() && record.previous != Revision::NONE
    }

    fn items(self, with_previous: bool, base: Option<&Base>) -> StoreResult<(Vec<WatchItem>, Revision)> {
        let (mut items, mut bytes_read) = (Vec::with_capacity(self.records.len() + 1), 0);
        for each in self.records {
            let (record, previous) = &each;
            if bytes_read >= BATCH_BYTES {
                let reached = Revision::new(record.revision.number() - 1);
                items.push(WatchItem::Progress(reached));
                return Ok((items, reached.next()));
            }
            let settled = base.filter(|_| Self::is_previous_settled(&each));
            let previous = match (with_previous, settled) {
                (false, _) => None,
                (true, Some(base)) => base.before(record.key.as_bytes(), record.revision.number())?,
                (true, None) => previous.as_ref().and_then(|previous| previous.entry()),
            };
            let event = record.event(previous);
            // What is here anyway costs nothing.
            bytes_read += settled.map_or(0, |_| size(&event));
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
        // What a key was before its creation was a deletion.
        let previous = previous.filter(|_| kind != EventKind::Created);
        let created = match (kind, &previous) {
            (EventKind::Deleted, None) => Revision::NONE,
            _ => self.created,
        };
        let (key, revision, value) = (self.key.clone(), self.revision, self.value.clone());
        Event { kind, key, revision, value, created, previous }
    }
}

/// The next events of the range, a progress mark, and where to go on.
fn batch(
    shared: &Shared,
    range: &KeyRange,
    with_previous: bool,
    from: Revision,
) -> StoreResult<(Vec<WatchItem>, Revision)> {
    let (base, written) = {
        let state = shared.state();
        let written =
            (from > state.base.revision).then(|| Written::since(&state, from, range, with_previous));
        (Arc::clone(&state.base), written)
    };
    match written {
        Some(written) => written.items(with_previous, Some(&base)),
        None => settled(&base, range, with_previous, from),
    }
}

/// The same, from the database.
fn settled(
    base: &Base,
    range: &KeyRange,
    with_previous: bool,
    from: Revision,
) -> StoreResult<(Vec<WatchItem>, Revision)> {
    if from < base.compacted {
        return Err(StoreError::Compacted { requested: from, oldest: base.compacted });
    }
    let (mut items, mut bytes_read) = (Vec::new(), 0);
    let mut reached = base.revision;
    for (count, line) in base.log.range(from.number()..).map_err(|e| unreadable("watch", e))?.enumerate() {
        let (at, bytes) = line.map_err(|e| unreadable("watch", e))?;
        let revision = at.value();
        if count == BATCH || bytes_read >= BATCH_BYTES {
            reached = Revision::new(revision.saturating_sub(1));
            break;
        }
        if range.contains(bytes.value()) {
            let event = event(base, bytes.value(), revision, with_previous)?;
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

fn event(base: &Base, bytes: &[u8], revision: u64, with_previous: bool) -> StoreResult<Event> {
    let written = base.written(bytes, revision)?;
    let kind = match &written {
        None => EventKind::Deleted,
        Some(entry) if entry.created == entry.modified => EventKind::Created,
        Some(_) => EventKind::Updated,
    };
    let previous = match kind {
        EventKind::Updated | EventKind::Deleted if with_previous => base.before(bytes, revision)?,
        _ => None,
    };
    let created = written.as_ref().or(previous.as_ref()).map_or(Revision::NONE, |entry| entry.created);
    let (key, revision, value) = (key(bytes)?, Revision::new(revision), written.map(|entry| entry.value));
    Ok(Event { kind, key, revision, value, created, previous })
}
