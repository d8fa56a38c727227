//! Writer: the one thread that writes to the journal.

use std::collections::VecDeque;
use std::sync::{Arc, mpsc as jobs};
use std::thread::{Builder, JoinHandle};

use bytes::Bytes;
use storage_contract::{Revision, StoreError, StoreResult};
use tokio::sync::{mpsc, oneshot, watch as signal};

use crate::checkpoint::{self, Job};
use crate::guard::{Change, Evaluated};
use crate::journal::Journal;
use crate::layout;
use crate::memtable::Shared;

/// Capacity of the writer's queue. When it is full, callers wait to be queued.
const QUEUE: usize = 1024;

/// Maximum number of writes of a batch: more brings little once so many share the sync.
const MAX_BATCH: usize = 256;

/// Maximum number of bytes of values in a batch: the sync of much more takes longer than it saves.
const MAX_BATCH_BYTES: usize = 4 * 1024 * 1024;

/// Maximum number of writes of a checkpoint, for writes so small that the journal has space for more: a tenth of a
/// second's work, for which other writes may have to wait.
const MAX_CHECKPOINT: usize = 8192;

#[derive(Debug)]
pub(crate) enum Request {
    Write(Change, oneshot::Sender<StoreResult<Revision>>),
    Compact(Revision, oneshot::Sender<StoreResult<()>>),
    /// Checkpoint the journal's writes.
    Checkpoint,
}

/// Handle of the writer thread. When it is dropped, the thread writes the queued writes, checkpoints all of them and
/// ends.
#[derive(Debug)]
pub(crate) struct Writer {
    requests: Option<mpsc::Sender<Request>>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Writer {
    fn drop(&mut self) {
        drop(self.requests.take());
        if let Some(thread) = self.thread.take() {
            // The thread holds the file: the next opener must find it closed.
            let _ = thread.join();
        }
    }
}

impl Writer {
    pub(crate) fn start(
        shared: Arc<Shared>,
        journal: Journal,
        newest: signal::Sender<Revision>,
    ) -> std::io::Result<Self> {
        let (requests, receiver) = mpsc::channel(QUEUE);
        let (jobs, taken) = jobs::channel();
        let (done, finished) = jobs::channel();
        let weak = requests.downgrade();
        let idle = move || {
            // A full queue is not idle.
            if let Some(requests) = weak.upgrade() {
                let _ = requests.try_send(Request::Checkpoint);
            }
        };
        let checkpointing = checkpoint::Checkpointer {
            shared: Arc::clone(&shared),
            jobs: taken,
            finished: done,
            idle: Box::new(idle),
            compactions: VecDeque::new(),
        };
        let checkpointer =
            Builder::new().name("checkpointer".to_owned()).spawn(move || checkpointing.run())?;
        let work = WriterThread { shared, journal, newest, jobs, finished, is_checkpointing: false };
        let run = move || {
            work.run(receiver);
            let _ = checkpointer.join();
        };
        let thread = Builder::new().name("storage-writer".to_owned()).spawn(run)?;
        Ok(Self { requests: Some(requests), thread: Some(thread) })
    }

    pub(crate) async fn write(&self, change: Change) -> StoreResult<Revision> {
        let (sender, receiver) = oneshot::channel();
        let (operation, key) = (change.operation, change.key.clone());
        self.send(operation, Request::Write(change, sender)).await?;
        // Once queued, a write without an answer may have happened.
        receiver.await.map_err(|error| StoreError::Unknown { operation, key, source: Box::new(error) })?
    }

    pub(crate) async fn compact(&self, revision: Revision) -> StoreResult<()> {
        let (sender, receiver) = oneshot::channel();
        self.send("compact", Request::Compact(revision, sender)).await?;
        receiver
            .await
            .map_err(|error| StoreError::Unavailable { operation: "compact", source: Box::new(error) })?
    }

    pub(crate) async fn send(&self, operation: &'static str, request: Request) -> StoreResult<()> {
        let ended = || StoreError::Unavailable { operation, source: "the store is shut down".into() };
        let requests = self.requests.as_ref().ok_or_else(ended)?;
        requests.send(request).await.map_err(|_| ended())
    }
}

struct WriterThread {
    shared: Arc<Shared>,
    journal: Journal,
    newest: signal::Sender<Revision>,
    jobs: jobs::Sender<Job>,
    finished: jobs::Receiver<()>,
    /// True while the other file's checkpoint is in flight.
    is_checkpointing: bool,
}

/// Write, with the channel for its result.
type Waiting = (Change, oneshot::Sender<StoreResult<Revision>>);

impl WriterThread {
    fn run(mut self, mut requests: mpsc::Receiver<Request>) {
        while let Some(first) = requests.blocking_recv() {
            let (batch, others) = take_batch(first, &mut requests);
            self.write_all(batch);
            for other in others {
                match other {
                    Request::Compact(revision, answer) => self.compact(revision, answer),
                    _ => _ = self.checkpoint(),
                }
            }
        }
        if let Err(error) = self.close() {
            tracing::error!(
                error,
                "embedded store closed without a checkpoint; the next start reads its journal"
            );
        }
    }

    /// Checkpoints everything and empties the journal. A journal that stayed could meet another copy of the database
    /// later.
    fn close(&mut self) -> Result<(), String> {
        self.checkpoint()?;
        self.wait_for_checkpoint()?;
        self.journal.clear().map_err(|error| error.to_string())?;
        layout::mark_open(&self.shared.database, false).map_err(|error| error.to_string())
    }

    /// Writes a batch, and answers it when it is on the disk.
    fn write_all(&mut self, batch: Vec<Waiting>) {
        if batch.is_empty() {
            return;
        }
        let (changes, answers): (Vec<_>, Vec<_>) = batch.into_iter().unzip();
        let results = match self.try_write(&changes) {
            Ok(results) => results,
            Err(Failure::Before(why)) => {
                tracing::error!(%why, "embedded store write failed; nothing was written");
                changes.iter().map(|change| Err(why.to_store_error(change.operation))).collect()
            }
            // A failed write may still have reached the disk.
            Err(Failure::During(error)) => {
                tracing::error!(error, "embedded store write failed; its outcome is unknown");
                let results = changes.iter().map(|Change { operation, key, .. }| {
                    let source = error.clone().into();
                    Err(StoreError::Unknown { operation, key: key.clone(), source })
                });
                let results = results.collect();
                self.shared.fail(&error);
                results
            }
        };
        for (answer, result) in answers.into_iter().zip(results) {
            // A caller that stopped waiting does not need it.
            let _ = answer.send(result);
        }
    }

    fn try_write(&mut self, changes: &[Change]) -> Result<Vec<StoreResult<Revision>>, Failure> {
        self.check_running().map_err(|why| Failure::Before(WriteError::Stopped(why)))?;
        let evaluated = Evaluated::all(&self.shared, changes).map_err(|error| self.failed(error));
        let Evaluated { records, results, .. } = evaluated.map_err(Failure::Before)?;
        let Some(last) = records.last() else { return Ok(results) };
        let revision = last.revision;
        self.journal.prepare(&records);
        if !self.journal.has_room() || self.shared.state().pending() + records.len() > MAX_CHECKPOINT {
            self.checkpoint().map_err(|why| Failure::Before(WriteError::Stopped(why)))?;
        }
        self.journal.reserve().map_err(|error| Failure::Before(WriteError::Full(error)))?;
        self.journal.append().map_err(|error| Failure::During(error.to_string()))?;
        self.shared.state_mut().add(records);
        self.newest.send_replace(revision);
        Ok(results)
    }

    /// Begins a checkpoint of the journal's writes, and switches to the other file.
    fn checkpoint(&mut self) -> Result<(), String> {
        self.wait_for_checkpoint()?;
        // The other file's checkpoint may have failed.
        self.check_running()?;
        let Some(layer) = self.shared.state_mut().begin_checkpoint() else { return Ok(()) };
        self.journal.switch_files();
        self.is_checkpointing = true;
        self.jobs.send(Job::Checkpoint(layer)).map_err(|error| error.to_string())
    }

    /// Waits until the checkpoint in flight is complete.
    fn wait_for_checkpoint(&mut self) -> Result<(), String> {
        if !std::mem::take(&mut self.is_checkpointing) {
            return Ok(());
        }
        self.finished.recv().map_err(|error| error.to_string())?;
        self.check_running()
    }

    /// Returns an error if the store is stopped.
    fn check_running(&self) -> Result<(), String> {
        self.shared.failure().map_or(Ok(()), |why| Err(why.to_owned()))
    }

    /// Classifies an error of the database, and stops the store unless the data is damaged.
    fn failed(&self, error: redb::Error) -> WriteError {
        if let redb::Error::Corrupted(detail) = error {
            return WriteError::Damaged(detail);
        }
        self.shared.fail(&error.to_string());
        WriteError::Stopped(self.shared.failure().unwrap_or_default().to_owned())
    }

    fn compact(&mut self, revision: Revision, answer: oneshot::Sender<StoreResult<()>>) {
        let (current, snapshot) = {
            let state = self.shared.state();
            (state.newest(), state.snapshot.revision)
        };
        let unavailable = |why: String| StoreError::Unavailable { operation: "compact", source: why.into() };
        let result = match revision {
            _ if revision > current => Err(StoreError::Future { requested: revision, current }),
            _ if revision > snapshot => self.checkpoint().map_err(unavailable),
            _ => Ok(()),
        };
        // A caller that stopped waiting does not need it.
        match result {
            Ok(()) => _ = self.jobs.send(Job::Compact(revision, answer)),
            Err(error) => _ = answer.send(Err(error)),
        }
    }
}

/// Takes the queued writes behind `first` that fit into one batch, and the other requests among them.
fn take_batch(first: Request, requests: &mut mpsc::Receiver<Request>) -> (Vec<Waiting>, Vec<Request>) {
    let (mut batch, mut others, mut bytes) = (Vec::new(), Vec::new(), 0);
    let mut next = Some(first);
    while let Some(request) = next.take() {
        match request {
            Request::Write(change, answer) => {
                bytes += change.value.as_ref().map_or(0, Bytes::len);
                batch.push((change, answer));
            }
            other => others.push(other),
        }
        if batch.len() < MAX_BATCH && bytes < MAX_BATCH_BYTES {
            next = requests.try_recv().ok();
        }
    }
    (batch, others)
}

/// Failure of a batch.
enum Failure {
    /// Nothing was written.
    Before(WriteError),
    /// The batch may have been written, whole or in part.
    During(String),
}

/// Error of a batch of which nothing was written.
#[derive(Debug, thiserror::Error)]
enum WriteError {
    #[error("{0}")]
    Damaged(String),
    #[error("the journal cannot grow: {0}; free space on the disk")]
    Full(std::io::Error),
    #[error("{0}")]
    Stopped(String),
}

impl WriteError {
    /// Converts the error for one of the writes of the batch.
    fn to_store_error(&self, operation: &'static str) -> StoreError {
        match self {
            Self::Damaged(detail) => StoreError::Corrupt { detail: detail.clone() },
            Self::Full(_) => StoreError::Refused { operation, reason: self.to_string() },
            Self::Stopped(why) => StoreError::Unavailable { operation, source: why.as_str().into() },
        }
    }
}
