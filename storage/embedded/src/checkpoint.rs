//! The thread that brings into the database what is in the journal, and lets it forget.

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
use crate::read::Base;

/// What was written is brought into the database after so long at the latest, when the journal is not full before:
/// memory is given back then, and a start has less to read.
const REST: Duration = Duration::from_secs(10);

/// What the thread is asked for.
#[derive(Debug)]
pub(crate) enum Job {
    /// Bring this into the database.
    Settle(Arc<Layer>),
    /// Forget history before this revision, which the database has when its turn comes.
    Forget(Revision, oneshot::Sender<StoreResult<()>>),
}

pub(crate) struct Thread {
    pub(crate) shared: Arc<Shared>,
    pub(crate) jobs: Receiver<Job>,
    /// Told after each [`Job::Settle`]; whether it failed stands in [`Shared::failure`].
    pub(crate) settled: Sender<()>,
    /// Called when there was nothing to do for a while.
    pub(crate) rest: Box<dyn Fn() + Send>,
    /// Compactions asked for, the one under way first.
    pub(crate) forgetting: VecDeque<(Revision, oneshot::Sender<StoreResult<()>>)>,
}

impl Thread {
    pub(crate) fn run(mut self) {
        loop {
            // While history is being forgotten nobody waits for the rest of it: other jobs come between.
            let pause = if self.forgetting.is_empty() { REST } else { Duration::ZERO };
            match self.jobs.recv_timeout(pause) {
                Ok(Job::Settle(layer)) => {
                    if let Err(error) = self.settle(&layer) {
                        self.shared.fail(&error.to_string());
                    }
                    // Whoever is not there any more needs no answer.
                    let _ = self.settled.send(());
                }
                Ok(Job::Forget(revision, answer)) => self.forgetting.push_back((revision, answer)),
                Err(RecvTimeoutError::Timeout) if self.forgetting.is_empty() => (self.rest)(),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            self.forget_some();
        }
    }

    fn settle(&self, layer: &Layer) -> Result<(), redb::Error> {
        settle(&self.shared.database, layer.records.iter().map(AsRef::as_ref))?;
        self.rebase()
    }

    /// Shows the database as it is now.
    fn rebase(&self) -> Result<(), redb::Error> {
        let base = Arc::new(Base::of(&self.shared.database)?);
        let replaced = self.shared.change().rebase(base);
        // Only now: nobody has to wait for thousands of writes to be freed.
        drop(replaced);
        Ok(())
    }

    /// Goes on with the oldest compaction, and answers it when it is through.
    fn forget_some(&mut self) {
        let Some((revision, _)) = self.forgetting.front() else { return };
        let stepped = compaction::step(&self.shared.database, *revision);
        let result = match stepped.and_then(|done| self.rebase().map(|()| done)) {
            Ok(false) => return,
            Ok(true) => Ok(()),
            Err(error) => {
                // It takes nothing more until it is opened again.
                self.shared.fail(&error.to_string());
                Err(unreadable("compact", error))
            }
        };
        if let Some((_, answer)) = self.forgetting.pop_front() {
            let _ = answer.send(result);
        }
    }
}

/// Writes `records`, which follow the database's last, in one transaction.
pub(crate) fn settle<'r>(
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

/// Each table in its own order, so that a page is filled when it is there.
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
    // The last of each key counts.
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
