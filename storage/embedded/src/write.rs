//! The one thread that writes: to the journal.

use std::collections::VecDeque;
use std::sync::{Arc, mpsc as jobs};
use std::thread::{Builder, JoinHandle};

use bytes::Bytes;
use storage_contract::{Revision, StoreError, StoreResult};
use tokio::sync::{mpsc, oneshot, watch as signal};

use crate::checkpoint::{self, Job};
use crate::guard::{Change, Judged};
use crate::journal::Journal;
use crate::layout;
use crate::memtable::Shared;

/// Writes that wait for the thread. Beyond it callers wait to be queued.
const QUEUE: usize = 1024;

/// Writes committed together: more brings little once the sync is shared by so many.
const TOGETHER: usize = 256;

/// Bytes of values committed together: the sync of much more takes longer than it saves.
const TOGETHER_BYTES: usize = 4 * 1024 * 1024;

/// Writes that are brought into the database together, where they are so small that the journal has room for more: a
/// tenth of a second's work, for which others may have to wait.
const MOST: usize = 8192;

#[derive(Debug)]
pub(crate) enum Request {
    Write(Change, oneshot::Sender<StoreResult<Revision>>),
    Compact(Revision, oneshot::Sender<StoreResult<()>>),
    /// Bring into the database what the journal has.
    Settle,
}

/// The way to the thread. When this is dropped the thread writes what was queued, brings all of it into the database
/// and ends.
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
        shared: Arc<Shared>,
        journal: Journal,
        newest: signal::Sender<Revision>,
    ) -> std::io::Result<Self> {
        let (requests, receiver) = mpsc::channel(QUEUE);
        let (jobs, taken) = jobs::channel();
        let (done, settled) = jobs::channel();
        let weak = requests.downgrade();
        let rest = move || {
            // A full queue is no rest.
            if let Some(requests) = weak.upgrade() {
                let _ = requests.try_send(Request::Settle);
            }
        };
        let settling = checkpoint::Thread {
            shared: Arc::clone(&shared),
            jobs: taken,
            settled: done,
            rest: Box::new(rest),
            forgetting: VecDeque::new(),
        };
        let settler = Builder::new().name("storage-settler".to_owned()).spawn(move || settling.run())?;
        let work = Thread { shared, journal, newest, jobs, settled, settling: false };
        let run = move || {
            work.run(receiver);
            let _ = settler.join();
        };
        let thread = Builder::new().name("storage-writer".to_owned()).spawn(run)?;
        Ok(Self { requests: Some(requests), thread: Some(thread) })
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

    pub(crate) async fn send(&self, operation: &'static str, request: Request) -> StoreResult<()> {
        let ended = || StoreError::Unavailable { operation, source: "the store is shut down".into() };
        let requests = self.requests.as_ref().ok_or_else(ended)?;
        requests.send(request).await.map_err(|_| ended())
    }
}

struct Thread {
    shared: Arc<Shared>,
    journal: Journal,
    newest: signal::Sender<Revision>,
    jobs: jobs::Sender<Job>,
    settled: jobs::Receiver<()>,
    /// Whether what is in the other file is on its way to the database.
    settling: bool,
}

/// A write with whoever waits for its answer.
type Waiting = (Change, oneshot::Sender<StoreResult<Revision>>);

impl Thread {
    fn run(mut self, mut requests: mpsc::Receiver<Request>) {
        while let Some(first) = requests.blocking_recv() {
            let (batch, others) = gather(first, &mut requests);
            self.write_all(batch);
            for other in others {
                match other {
                    Request::Compact(revision, answer) => self.compact(revision, answer),
                    _ => _ = self.settle(),
                }
            }
        }
        if let Err(error) = self.close() {
            tracing::error!(error, "the store was closed with writes in its journal alone");
        }
    }

    /// Leaves all there is in the database. A journal that was left would meet another copy of it one day.
    fn close(&mut self) -> Result<(), String> {
        self.settle()?;
        self.wait()?;
        self.journal.clear().map_err(|error| error.to_string())?;
        layout::mark_open(&self.shared.database, false).map_err(|error| error.to_string())
    }

    /// Carries out a batch and answers it when it is on the disk.
    fn write_all(&mut self, batch: Vec<Waiting>) {
        if batch.is_empty() {
            return;
        }
        let (changes, answers): (Vec<_>, Vec<_>) = batch.into_iter().unzip();
        let results = match self.try_write(&changes) {
            Ok(results) => results,
            Err(Failure::Before(why)) => {
                tracing::error!(%why, "a write to the store failed; nothing was written");
                changes.iter().map(|change| Err(why.refusal(change.operation))).collect()
            }
            // What failed may have reached the disk all the same.
            Err(Failure::During(error)) => {
                tracing::error!(error, "a write to the store failed; its outcome is unknown");
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
            // Whoever stopped waiting does not need it.
            let _ = answer.send(result);
        }
    }

    fn try_write(&mut self, changes: &[Change]) -> Result<Vec<StoreResult<Revision>>, Failure> {
        self.working().map_err(|why| Failure::Before(Why::Stopped(why)))?;
        let judged = Judged::all(&self.shared, changes).map_err(|error| self.failed(error));
        let Judged { records, results, .. } = judged.map_err(Failure::Before)?;
        let Some(last) = records.last() else { return Ok(results) };
        let revision = last.revision;
        self.journal.prepare(&records);
        if !self.journal.has_room() || self.shared.state().unsettled() + records.len() > MOST {
            self.settle().map_err(|why| Failure::Before(Why::Stopped(why)))?;
        }
        self.journal.reserve().map_err(|error| Failure::Before(Why::Full(error)))?;
        self.journal.append().map_err(|error| Failure::During(error.to_string()))?;
        self.shared.change().add(records);
        self.newest.send_replace(revision);
        Ok(results)
    }

    /// Sends what the journal has on its way to the database, and goes on in the other file.
    fn settle(&mut self) -> Result<(), String> {
        self.wait()?;
        // What the other file has may not be in the database.
        self.working()?;
        let Some(layer) = self.shared.change().settle() else { return Ok(()) };
        self.journal.turn();
        self.settling = true;
        self.jobs.send(Job::Settle(layer)).map_err(|error| error.to_string())
    }

    /// Waits until the database has what is on its way there.
    fn wait(&mut self) -> Result<(), String> {
        if !std::mem::take(&mut self.settling) {
            return Ok(());
        }
        self.settled.recv().map_err(|error| error.to_string())?;
        self.working()
    }

    /// An error if the store was stopped.
    fn working(&self) -> Result<(), String> {
        self.shared.failure().map_or(Ok(()), |why| Err(why.to_owned()))
    }

    /// What a failure of the database means.
    fn failed(&self, error: redb::Error) -> Why {
        if let redb::Error::Corrupted(detail) = error {
            return Why::Damaged(detail);
        }
        self.shared.fail(&error.to_string());
        Why::Stopped(self.shared.failure().unwrap_or_default().to_owned())
    }

    fn compact(&mut self, revision: Revision, answer: oneshot::Sender<StoreResult<()>>) {
        let (current, base) = {
            let state = self.shared.state();
            (state.newest(), state.base.revision)
        };
        let unavailable = |why: String| StoreError::Unavailable { operation: "compact", source: why.into() };
        let result = match revision {
            _ if revision > current => Err(StoreError::Future { requested: revision, current }),
            _ if revision > base => self.settle().map_err(unavailable),
            _ => Ok(()),
        };
        // Whoever stopped waiting does not need it.
        match result {
            Ok(()) => _ = self.jobs.send(Job::Forget(revision, answer)),
            Err(error) => _ = answer.send(Err(error)),
        }
    }
}

/// The writes that have queued up behind `first`, as far as they may be committed together, and what else was asked.
fn gather(first: Request, requests: &mut mpsc::Receiver<Request>) -> (Vec<Waiting>, Vec<Request>) {
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
        if batch.len() < TOGETHER && bytes < TOGETHER_BYTES {
            next = requests.try_recv().ok();
        }
    }
    (batch, others)
}

/// Where a batch failed.
enum Failure {
    /// Nothing was written.
    Before(Why),
    /// It may have been.
    During(String),
}

/// Why nothing was written.
#[derive(Debug, thiserror::Error)]
enum Why {
    #[error("{0}")]
    Damaged(String),
    #[error("the journal cannot grow: {0}; free space on the disk")]
    Full(std::io::Error),
    #[error("{0}")]
    Stopped(String),
}

impl Why {
    /// The same for each of those who share it.
    fn refusal(&self, operation: &'static str) -> StoreError {
        match self {
            Self::Damaged(detail) => StoreError::Corrupt { detail: detail.clone() },
            Self::Full(_) => StoreError::Refused { operation, reason: self.to_string() },
            Self::Stopped(why) => StoreError::Unavailable { operation, source: why.as_str().into() },
        }
    }
}
