//! The one thread that writes.

use std::sync::Arc;

use bytes::Bytes;
use redb::{Database, ReadableTable, Table, WriteTransaction};
use storage_contract::{Key, Revision, StoreError, StoreResult};
use tokio::sync::{mpsc, oneshot, watch as signal};

use crate::LARGEST_VALUE;
use crate::layout::{At, COMPACTED, CURRENT, HISTORY, LOG, META, REVISION, Written, unreadable};

/// Writes that wait for the thread. Beyond it callers wait to be queued.
const QUEUE: usize = 1024;

/// Writes committed together: more brings little once the sync is shared by so many.
const TOGETHER: usize = 256;

/// One guarded write.
#[derive(Debug)]
pub(crate) struct Change {
    key: Key,
    /// `None`: the key must not exist.
    expected: Option<Revision>,
    /// `None`: remove it.
    value: Option<Bytes>,
}

impl Change {
    pub(crate) fn create(key: &Key, value: Bytes) -> StoreResult<Self> {
        Ok(Self { key: key.clone(), expected: None, value: Some(fitting(key, value)?) })
    }

    pub(crate) fn update(key: &Key, expected: Revision, value: Bytes) -> StoreResult<Self> {
        Ok(Self { key: key.clone(), expected: Some(expected), value: Some(fitting(key, value)?) })
    }

    pub(crate) fn delete(key: &Key, expected: Revision) -> Self {
        Self { key: key.clone(), expected: Some(expected), value: None }
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

/// The way to the thread. It ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Writer(mpsc::Sender<Request>);

impl Writer {
    pub(crate) fn start(
        database: Arc<Database>,
        revision: Revision,
        newest: signal::Sender<Revision>,
    ) -> std::io::Result<Self> {
        let (sender, receiver) = mpsc::channel(QUEUE);
        let thread = Thread { database, revision, newest };
        std::thread::Builder::new().name("storage-writer".to_owned()).spawn(move || thread.run(receiver))?;
        Ok(Self(sender))
    }

    pub(crate) async fn write(&self, operation: &'static str, change: Change) -> StoreResult<Revision> {
        let (sender, receiver) = oneshot::channel();
        let key = change.key.clone();
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
        let sent = self.0.send(request).await;
        sent.map_err(|_| StoreError::Unavailable { operation, source: "the store is shut down".into() })
    }
}

struct Thread {
    database: Arc<Database>,
    revision: Revision,
    newest: signal::Sender<Revision>,
}

/// A write with whoever waits for its answer.
type Waiting = (Change, oneshot::Sender<StoreResult<Revision>>);

impl Thread {
    fn run(mut self, mut requests: mpsc::Receiver<Request>) {
        let mut batch: Vec<Waiting> = Vec::new();
        while let Some(first) = requests.blocking_recv() {
            let mut next = Some(first);
            while let Some(request) = next.take() {
                match request {
                    Request::Write(change, answer) => batch.push((change, answer)),
                    Request::Compact(revision, answer) => {
                        self.write_all(std::mem::take(&mut batch));
                        let _ = answer.send(self.compact(revision));
                    }
                }
                if batch.len() < TOGETHER {
                    next = requests.try_recv().ok();
                }
            }
            self.write_all(std::mem::take(&mut batch));
        }
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
            Err(Failure::Before(error)) => changes
                .iter()
                .map(|_| {
                    Err(StoreError::Unavailable { operation: "write", source: error.to_string().into() })
                })
                .collect(),
            // A commit that failed may have reached the disk all the same.
            Err(Failure::During(error)) => changes
                .iter()
                .map(|change| {
                    let key = change.key.clone();
                    Err(StoreError::Unknown { operation: "write", key, source: error.to_string().into() })
                })
                .collect(),
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

    fn compact(&self, revision: Revision) -> StoreResult<()> {
        if revision > self.revision {
            return Err(StoreError::Future { requested: revision, current: self.revision });
        }
        let work = || -> Result<(), redb::Error> {
            let transaction = self.database.begin_write()?;
            forget(&transaction, revision.number())?;
            transaction.commit()?;
            Ok(())
        };
        work().map_err(|error| unreadable("compact", error))
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

/// Drops the log before `revision`, and of each key's history before it all but the newest, which
/// is what the key was at `revision`. A deletion that is the newest goes too.
fn forget(transaction: &WriteTransaction, revision: u64) -> Result<(), redb::Error> {
    let mut meta = transaction.open_table(META)?;
    let before = meta.get(COMPACTED)?.map_or(0, |value| value.value());
    if before >= revision {
        return Ok(());
    }
    meta.insert(COMPACTED, revision)?;
    let mut log = transaction.open_table(LOG)?;
    let mut history = transaction.open_table(HISTORY)?;
    let mut keys = std::collections::BTreeSet::new();
    for item in log.range(..revision)? {
        keys.insert(item?.1.value().to_vec());
    }
    for key in &keys {
        let mut old = Vec::new();
        for item in history.range((key.as_slice(), 0)..(key.as_slice(), revision))? {
            let (at, what) = item?;
            old.push((at.value().1, what.value().1.is_some()));
        }
        if old.last().is_some_and(|(_, exists)| *exists) {
            old.pop();
        }
        for (at, _) in old {
            history.remove((key.as_slice(), at))?;
        }
    }
    log.retain_in(..revision, |_, _| false)?;
    Ok(())
}
