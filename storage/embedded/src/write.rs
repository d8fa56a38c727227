//! The one thread that writes.

use std::collections::VecDeque;
use std::sync::Arc;
use std::thread::JoinHandle;

use bytes::Bytes;
use redb::{Database, ReadableTable, Table, WriteTransaction};
use storage_contract::{Key, Revision, StoreError, StoreResult, Unchanged};
use tokio::sync::mpsc::error::TryRecvError;
use tokio::sync::{mpsc, oneshot, watch as signal};

use crate::layout::{At, CURRENT, HISTORY, LOG, META, REVISION, Written, unreadable};
use crate::{LARGEST_VALUE, forget};

/// Writes that wait for the thread. Beyond it callers wait to be queued.
const QUEUE: usize = 1024;

/// Writes committed together: more brings little once the sync is shared by so many.
const TOGETHER: usize = 256;

/// Bytes of values committed together: the sync of much more takes longer than it saves.
const TOGETHER_BYTES: usize = 16 * 1024 * 1024;

/// One guarded write.
#[derive(Debug)]
pub(crate) struct Change {
    operation: &'static str,
    key: Key,
    /// `None`: the key must not exist.
    expected: Option<Revision>,
    /// `None`: remove it.
    value: Option<Bytes>,
    /// What else must be as it was read.
    unchanged: Option<Unchanged>,
}

impl Change {
    pub(crate) fn create(key: &Key, value: Bytes, unchanged: Option<&Unchanged>) -> StoreResult<Self> {
        let (value, unchanged) = (Some(fitting(key, value)?), unchanged.cloned());
        Ok(Self { operation: "create", key: key.clone(), expected: None, value, unchanged })
    }

    pub(crate) fn update(key: &Key, expected: Revision, value: Bytes) -> StoreResult<Self> {
        let value = Some(fitting(key, value)?);
        Ok(Self { operation: "update", key: key.clone(), expected: Some(expected), value, unchanged: None })
    }

    pub(crate) fn delete(key: &Key, expected: Revision) -> Self {
        Self { operation: "delete", key: key.clone(), expected: Some(expected), value: None, unchanged: None }
    }
}

fn fitting(key: &Key, value: Bytes) -> StoreResult<Bytes> {
    if value.len() > LARGEST_VALUE {
        return Err(StoreError::TooLarge { key: key.clone(), size: value.len(), limit: LARGEST_VALUE });
    }
    Ok(value)
}

#[derive(Debug)]
enum Request {
    Write(Change, oneshot::Sender<StoreResult<Revision>>),
    Compact(Revision, oneshot::Sender<StoreResult<()>>),
}

/// The way to the thread. When this is dropped the thread writes what was queued and ends.
#[derive(Debug)]
pub(crate) struct Writer {
    requests: Option<mpsc::Sender<Request>>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Writer {
    fn drop(&mut self) {
        drop(self.requests.take());
        if let Some(thread) = self.thread.take() {
            // It holds the file: whoever opens that next must find it closed.
            let _ = thread.join();
        }
    }
}

impl Writer {
    pub(crate) fn start(
        database: Arc<Database>,
        revision: Revision,
        newest: signal::Sender<Revision>,
    ) -> std::io::Result<Self> {
        let (sender, receiver) = mpsc::channel(QUEUE);
        let work = Thread { database, revision, newest, forgetting: VecDeque::new() };
        let thread = std::thread::Builder::new().name("storage-writer".to_owned());
        let thread = thread.spawn(move || work.run(receiver))?;
        Ok(Self { requests: Some(sender), thread: Some(thread) })
    }

    pub(crate) async fn write(&self, change: Change) -> StoreResult<Revision> {
        let (sender, receiver) = oneshot::channel();
        let (operation, key) = (change.operation, change.key.clone());
        self.send(operation, Request::Write(change, sender)).await?;
        // Once queued, a write that is not answered may have happened.
        receiver.await.map_err(|error| StoreError::Unknown { operation, key, source: Box::new(error) })?
    }

    pub(crate) async fn compact(&self, revision: Revision) -> StoreResult<()> {
        let (sender, receiver) = oneshot::channel();
        self.send("compact", Request::Compact(revision, sender)).await?;
        receiver
            .await
            .map_err(|error| StoreError::Unavailable { operation: "compact", source: Box::new(error) })?
    }

    async fn send(&self, operation: &'static str, request: Request) -> StoreResult<()> {
        let ended = || StoreError::Unavailable { operation, source: "the store is shut down".into() };
        let requests = self.requests.as_ref().ok_or_else(ended)?;
        requests.send(request).await.map_err(|_| ended())
    }
}

struct Thread {
    database: Arc<Database>,
    revision: Revision,
    newest: signal::Sender<Revision>,
    /// Compactions asked for, the one under way first.
    forgetting: VecDeque<(Revision, oneshot::Sender<StoreResult<()>>)>,
}

/// A write with whoever waits for its answer.
type Waiting = (Change, oneshot::Sender<StoreResult<Revision>>);

impl Thread {
    fn run(mut self, mut requests: mpsc::Receiver<Request>) {
        loop {
            // While history is being forgotten nobody waits for the rest of it: writes come between.
            let first = if self.forgetting.is_empty() {
                requests.blocking_recv().ok_or(TryRecvError::Disconnected)
            } else {
                requests.try_recv()
            };
            let batch = match first {
                Ok(first) => self.gather(first, &mut requests),
                Err(TryRecvError::Empty) => Vec::new(),
                Err(TryRecvError::Disconnected) => return,
            };
            self.write_all(batch);
            self.forget_some();
        }
    }

    /// What has queued up behind `first`, as far as it may be committed together.
    fn gather(&mut self, first: Request, requests: &mut mpsc::Receiver<Request>) -> Vec<Waiting> {
        let (mut batch, mut bytes) = (Vec::new(), 0);
        let mut next = Some(first);
        while let Some(request) = next.take() {
            match request {
                Request::Write(change, answer) => {
                    bytes += change.value.as_ref().map_or(0, Bytes::len);
                    batch.push((change, answer));
                }
                Request::Compact(revision, answer) => self.forgetting.push_back((revision, answer)),
            }
            if batch.len() < TOGETHER && bytes < TOGETHER_BYTES {
                next = requests.try_recv().ok();
            }
        }
        batch
    }

    /// Carries out a batch in one transaction and answers it after the commit.
    fn write_all(&mut self, batch: Vec<Waiting>) {
        if batch.is_empty() {
            return;
        }
        let (changes, answers): (Vec<_>, Vec<_>) = batch.into_iter().unzip();
        let results = match self.try_write(&changes) {
            Ok((results, revision)) => {
                self.revision = revision;
                self.newest.send_replace(revision);
                results
            }
            Err(Failure::Before(error)) => {
                tracing::error!(%error, "a write to the store failed; nothing was written");
                let results = changes.iter().map(|change| Err(refused(change.operation, &error)));
                results.collect()
            }
            // A commit that failed may have reached the disk all the same.
            Err(Failure::During(error)) => {
                tracing::error!(%error, "a commit to the store failed; its outcome is unknown");
                let results = changes.iter().map(|Change { operation, key, .. }| {
                    let source = error.to_string().into();
                    Err(StoreError::Unknown { operation, key: key.clone(), source })
                });
                results.collect()
            }
        };
        for (answer, result) in answers.into_iter().zip(results) {
            // Whoever stopped waiting does not need it.
            let _ = answer.send(result);
        }
    }

    fn try_write(&self, changes: &[Change]) -> Result<(Vec<StoreResult<Revision>>, Revision), Failure> {
        let transaction = self.database.begin_write().map_err(|error| Failure::Before(error.into()))?;
        let applied = apply_all(&transaction, changes, self.revision).map_err(Failure::Before)?;
        transaction.commit().map_err(|error| Failure::During(error.into()))?;
        Ok(applied)
    }

    /// Goes on with the oldest compaction, and answers it when it is through.
    fn forget_some(&mut self) {
        let Some((revision, _)) = self.forgetting.front() else { return };
        let result = match forget::step(&self.database, *revision, self.revision) {
            Ok(false) => return,
            Ok(true) => Ok(()),
            Err(error) => Err(error),
        };
        if let Some((_, answer)) = self.forgetting.pop_front() {
            let _ = answer.send(result);
        }
    }
}

/// The same failure for each of those who share it.
fn refused(operation: &'static str, error: &redb::Error) -> StoreError {
    match error {
        redb::Error::Corrupted(detail) => StoreError::Corrupt { detail: detail.clone() },
        redb::Error::PreviousIo => unreadable(operation, redb::Error::PreviousIo),
        other => StoreError::Unavailable { operation, source: other.to_string().into() },
    }
}

/// Where a batch failed.
enum Failure {
    /// Nothing was written.
    Before(redb::Error),
    /// It may have been.
    During(redb::Error),
}

struct Tables<'t> {
    current: Table<'t, &'static [u8], (u64, u64)>,
    history: Table<'t, At<'static>, Written<'static>>,
    log: Table<'t, u64, &'static [u8]>,
}

fn apply_all(
    transaction: &WriteTransaction,
    changes: &[Change],
    start: Revision,
) -> Result<(Vec<StoreResult<Revision>>, Revision), redb::Error> {
    let mut tables = Tables {
        current: transaction.open_table(CURRENT)?,
        history: transaction.open_table(HISTORY)?,
        log: transaction.open_table(LOG)?,
    };
    let mut revision = start;
    let mut results = Vec::with_capacity(changes.len());
    for change in changes {
        let result = tables.apply(change, revision.next())?;
        revision = result.as_ref().copied().unwrap_or(revision);
        results.push(result);
    }
    transaction.open_table(META)?.insert(REVISION, revision.number())?;
    Ok((results, revision))
}

impl Tables<'_> {
    /// Carries out one change at `revision`, if its guard holds.
    fn apply(&mut self, change: &Change, revision: Revision) -> Result<StoreResult<Revision>, redb::Error> {
        let bytes = change.key.as_bytes();
        let found = self.current.get(bytes)?.map(|found| found.value());
        let key = change.key.clone();
        match (change.expected, found) {
            (None, Some((modified, _))) => {
                return Ok(Err(StoreError::Exists { key, found: Revision::new(modified) }));
            }
            (Some(expected), found) if found.map(|(modified, _)| modified) != Some(expected.number()) => {
                let found = Revision::new(found.map_or(0, |(modified, _)| modified));
                return Ok(Err(StoreError::Conflict { key, expected, found }));
            }
            _ => {}
        }
        if let Some(Unchanged { key, modified: expected }) = &change.unchanged {
            let (key, expected) = (key.clone(), *expected);
            let found = self.current.get(key.as_bytes())?.map_or(0, |found| found.value().0);
            if found != expected.number() {
                return Ok(Err(StoreError::Conflict { key, expected, found: Revision::new(found) }));
            }
        }
        let now = revision.number();
        let created = found.map_or(now, |(_, created)| created);
        match &change.value {
            Some(_) => self.current.insert(bytes, (now, created))?,
            None => self.current.remove(bytes)?,
        };
        self.history.insert((bytes, now), (created, change.value.as_deref()))?;
        self.log.insert(now, bytes)?;
        Ok(Ok(revision))
    }
}
