//! Checkpointer: the thread that moves the journal's writes into the database, and compacts its history.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::time::Duration;

use redb::{Database, WriteTransaction};
use storage_contract::{Revision, StoreResult};
use tokio::sync::oneshot;

use crate::compaction;
use crate::journal::Record;
use crate::layout::{CURRENT, HISTORY, LOG, META, REVISION, unreadable};
use crate::memtable::{Layer, Shared};
use crate::read::Snapshot;

/// Longest time until a write is checkpointed, when the journal is not full before: a checkpoint frees memory, and a
/// start has less to read.
const CHECKPOINT_INTERVAL: Duration = Duration::from_secs(10);

/// Job of the thread.
#[derive(Debug)]
pub(crate) enum Job {
    /// Write this layer into the database.
    Checkpoint(Arc<Layer>),
    /// Compact history before this revision, which the database has by the time the job starts.
    Compact(Revision, oneshot::Sender<StoreResult<()>>),
}

/// Checkpointer thread and its channels.
pub(crate) struct Checkpointer {
    pub(crate) shared: Arc<Shared>,
    pub(crate) jobs: Receiver<Job>,
    /// Receives a message after each [`Job::Checkpoint`]; [`Shared::failure`] tells whether it failed.
    pub(crate) finished: Sender<()>,
    /// Called when the thread was idle for a while.
    pub(crate) idle: Box<dyn Fn() + Send>,
    /// Requested compactions, the one in flight first.
    pub(crate) compactions: VecDeque<(Revision, oneshot::Sender<StoreResult<()>>)>,
}

impl Checkpointer {
    pub(crate) fn run(mut self) {
        loop {
            // During a compaction no client waits for its next steps: other jobs run between them.
            let pause = if self.compactions.is_empty() { CHECKPOINT_INTERVAL } else { Duration::ZERO };
            match self.jobs.recv_timeout(pause) {
                Ok(Job::Checkpoint(layer)) => {
                    if let Err(error) = self.write_checkpoint(&layer) {
                        self.shared.fail(&error.to_string());
                    }
                    // A writer that has ended needs no message.
                    let _ = self.finished.send(());
                }
                Ok(Job::Compact(revision, answer)) => self.compactions.push_back((revision, answer)),
                Err(RecvTimeoutError::Timeout) if self.compactions.is_empty() => (self.idle)(),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            self.compact_step();
        }
    }

    fn write_checkpoint(&self, layer: &Layer) -> Result<(), redb::Error> {
        write_checkpoint(&self.shared.database, layer.records.iter().map(AsRef::as_ref))?;
        self.replace_snapshot()
    }

    /// Replaces the snapshot with the current state of the database.
    fn replace_snapshot(&self) -> Result<(), redb::Error> {
        let snapshot = Arc::new(Snapshot::of(&self.shared.database)?);
        let replaced = self.shared.state_mut().replace_snapshot(snapshot);
        // After the lock is released: no reader waits until thousands of writes are freed.
        drop(replaced);
        Ok(())
    }

    /// Runs one step of the oldest compaction, and answers it when it is complete.
    fn compact_step(&mut self) {
        let Some((revision, _)) = self.compactions.front() else { return };
        let stepped = compaction::step(&self.shared.database, *revision);
        let result = match stepped.and_then(|done| self.replace_snapshot().map(|()| done)) {
            Ok(false) => return,
            Ok(true) => Ok(()),
            Err(error) => {
                // The database accepts nothing more until it is opened again.
                self.shared.fail(&error.to_string());
                Err(unreadable("compact", error))
            }
        };
        if let Some((_, answer)) = self.compactions.pop_front() {
            let _ = answer.send(result);
        }
    }
}

/// Writes `records`, which follow the last write of the database, in one transaction.
pub(crate) fn write_checkpoint<'r>(
    database: &Database,
    records: impl Iterator<Item = &'r Record> + Clone,
) -> Result<(), redb::Error> {
    let Some(last) = records.clone().last() else { return Ok(()) };
    let transaction = database.begin_write()?;
    transaction.open_table(META)?.insert(REVISION, last.revision.number())?;
    insert(&transaction, records)?;
    transaction.commit()?;
    Ok(())
}

/// Inserts the records, into each table in its own order, so that a page is filled while it is in memory.
fn insert<'r>(
    transaction: &WriteTransaction,
    records: impl Iterator<Item = &'r Record> + Clone,
) -> Result<(), redb::Error> {
    let mut log = transaction.open_table(LOG)?;
    for record in records.clone() {
        log.insert(record.revision.number(), record.key.as_bytes())?;
    }
    let sorted: BTreeMap<(&[u8], u64), &Record> =
        records.map(|record| ((record.key.as_bytes(), record.revision.number()), record)).collect();
    let mut history = transaction.open_table(HISTORY)?;
    for (at, record) in &sorted {
        history.insert(at, (record.created.number(), record.value.as_deref()))?;
    }
    // The last record of each key is the current one.
    let last: BTreeMap<&[u8], &Record> = sorted.into_iter().map(|((key, _), record)| (key, record)).collect();
    let mut current = transaction.open_table(CURRENT)?;
    for (key, record) in last {
        match record.value {
            Some(_) => current.insert(key, (record.revision.number(), record.created.number()))?,
            None => current.remove(key)?,
        };
    }
    Ok(())
}
