//! Writes that come while etcd is busy with others go there together.
//!
//! A write that finds none underway is sent at once. Those that come until it is answered wait, and are one transaction
//! then, with whoever else has come when it is its task's turn. Where writes went together lately, one that finds none
//! underway is not the only one for long: it waits for that turn, too. For etcd a transaction is one request, one entry in
//! its log, and one message to each that watches. It is sent as a whole first. Where a guard does not hold, nothing was
//! written, and it is sent again in parts with guards of their own: one may fail, and the others do not. For a moment
//! after that, all are sent in parts.
//!
//! What has to do with one that waits, by its key or one that it depends on, does not wait behind it: it is sent at once,
//! as all but the first two are that compete for an object. So are deletions, since what is deleted has no value that
//! could tell its place in a transaction. What is not answered within a moment stands in nobody's way any longer: the
//! next are sent beside it. What nobody waits for any more is not sent.

use std::future::Future;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use apiserver_executor::spawn_detached;
use etcd_client::proto::PbTxnResponse;
use etcd_client::{Error, KvClient, Txn};
use futures::future::join_all;
use storage_contract::{Revision, StoreError, StoreResult};
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::task::yield_now;
use tokio::time::error::Elapsed;
use tokio::time::{Instant, timeout, timeout_at};

use crate::calls::Calls;
use crate::error;
use crate::queue::{Queue, Waiting};
use crate::revision::revision;
use crate::transaction::{fits_whole, hand_out, in_parts, number, whole};
use crate::write::Write;

/// Transactions that are underway at a time. With two, each has fewer writes, and there are no more of them in a second.
const UNDERWAY: usize = 1;

/// How long a transaction that is not answered holds up others: several times what a healthy etcd takes, and little to
/// somebody who waits for one that is not.
const PATIENCE: Duration = Duration::from_millis(50);

/// How long transactions are sent in parts after a guard did not hold. Where many compete, one exchange in hundreds is
/// in vain; where few do, nothing is lost that could be measured.
const CONTENDED: Duration = Duration::from_secs(1);

/// What is written, and what waits to be.
pub(crate) struct Batches {
    calls: Calls,
    /// Bytes that go together at most.
    largest: usize,
    queue: Mutex<Queue>,
    /// Until when transactions are sent in parts.
    contended: Mutex<Option<Instant>>,
}

/// When a write is sent.
enum Turn {
    /// Now. Others wait for it, or do not.
    Now(Option<Underway>),
    /// By somebody else, with others.
    Later(oneshot::Receiver<StoreResult<Revision>>),
}

impl Batches {
    /// For an etcd that takes values of so many bytes, with their keys.
    pub(crate) fn new(calls: Calls, largest_value: usize) -> Self {
        Self { calls, largest: largest_value, queue: Mutex::default(), contended: Mutex::default() }
    }

    /// Carries out a write.
    pub(crate) async fn write(self: &Arc<Self>, write: Write) -> StoreResult<Revision> {
        let (write, deadline) = (Arc::new(write), Instant::now() + self.calls.deadline);
        let done = match self.turn(&write, deadline) {
            Turn::Now(underway) => timeout_at(deadline, patiently(underway, self.alone(&write))).await,
            Turn::Later(answer) => match timeout_at(deadline, answer).await {
                Ok(Err(gone)) => return Err(write.unknown(gone)),
                Ok(Ok(answer)) => Ok(answer),
                Err(elapsed) => Err(elapsed),
            },
        };
        match done {
            Ok(Err(refused @ StoreError::Refused { .. })) => self.refused(&write, refused).await,
            Ok(other) => other,
            Err(elapsed) => Err(self.given_up(&write, elapsed)),
        }
    }

    /// What became of a write that etcd has refused: where its space was used up by that very write, it was made.
    async fn refused(&self, write: &Write, refused: StoreError) -> StoreResult<Revision> {
        let get = |mut kv: KvClient| {
            let key = write.key.as_bytes().to_vec();
            async move { kv.get(key, None).await }
        };
        match self.calls.reading("get", get).await {
            Ok(found) => found.kvs().first().and_then(|found| write.made(found)).ok_or(refused),
            Err(silent) => Err(write.unknown(silent)),
        }
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn turn(self: &Arc<Self>, write: &Arc<Write>, deadline: Instant) -> Turn {
        let mut queue = self.queue();
        if write.value.is_none() || !queue.is_apart(write) {
            return Turn::Now(None);
        }
        let is_free = queue.underway < UNDERWAY;
        if is_free {
            queue.underway += 1;
        }
        if is_free && !queue.are_many() {
            return Turn::Now(Some(Underway(Arc::clone(self))));
        }
        let (answer, answered) = oneshot::channel();
        queue.push(Waiting { write: Arc::clone(write), deadline, answer });
        drop(queue);
        if is_free {
            self.send_waiting();
        }
        Turn::Later(answered)
    }

    /// Why a write that was not answered in time failed: it may have been made, unless it still waits to be sent.
    fn given_up(&self, write: &Arc<Write>, elapsed: Elapsed) -> StoreError {
        if self.queue().withdraw(write) {
            return StoreError::Unavailable { operation: write.operation, source: Box::new(elapsed) };
        }
        write.unknown(elapsed)
    }

    /// Sends one write by itself.
    async fn alone(&self, write: &Write) -> StoreResult<Revision> {
        let sending = self.transaction(|| write.transaction(0));
        let answer = sending.await.map_err(|error| error::write(write, &Arc::new(error)))?;
        write.outcome(&answer, revision(number(&answer)))
    }

    /// A transaction is not waited for any more: sends what waited.
    fn next(self: &Arc<Self>) {
        let mut queue = self.queue();
        queue.underway -= 1;
        if queue.underway >= UNDERWAY || queue.is_empty() {
            return;
        }
        queue.underway += 1;
        drop(queue);
        self.send_waiting();
    }

    /// Sends what waits, once everybody has come whose turn is before, and has others wait for it.
    fn send_waiting(self: &Arc<Self>) {
        // None when the program ends, and with it all who wait.
        if Handle::try_current().is_err() {
            return;
        }
        let batches = Arc::clone(self);
        spawn_detached("etcd batch", async move {
            yield_now().await;
            let batch = batches.take();
            let underway = (!batch.is_empty()).then(|| Underway(Arc::clone(&batches)));
            match <[Waiting; 1]>::try_from(batch) {
                Ok([only]) => batches.told(underway, only).await,
                Err(batch) => batches.together(underway, batch).await,
            }
        });
    }

    /// Takes those that go together. Where there are none, none are underway.
    fn take(&self) -> Vec<Waiting> {
        let mut queue = self.queue();
        let batch = queue.take(self.largest);
        if batch.is_empty() {
            queue.underway -= 1;
        }
        batch
    }

    /// Sends one write that has waited by itself, and tells what became of it.
    async fn told(&self, underway: Option<Underway>, waiting: Waiting) {
        let Waiting { write, deadline, answer } = waiting;
        if answer.is_closed() {
            return;
        }
        if let Ok(told) = timeout_at(deadline, patiently(underway, self.alone(&write))).await {
            let _ = answer.send(told);
        }
    }

    /// Sends writes in one transaction, as a whole if all guards hold, and else in parts.
    async fn carry_out(&self, batch: &[Waiting]) -> Result<PbTxnResponse, Error> {
        if fits_whole(batch) && !self.is_contended() {
            let answer = self.transaction(|| whole(batch)).await?;
            if answer.succeeded {
                return Ok(answer);
            }
            *self.contended.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now() + CONTENDED);
        }
        self.transaction(|| in_parts(batch)).await
    }

    fn is_contended(&self) -> bool {
        let until = *self.contended.lock().unwrap_or_else(PoisonError::into_inner);
        until.is_some_and(|until| Instant::now() < until)
    }

    async fn transaction(&self, made: impl Fn() -> Txn + Send + Sync) -> Result<PbTxnResponse, Error> {
        let send = |mut kv: KvClient| {
            let transaction = made();
            async move { kv.txn(transaction).await }
        };
        Ok(self.calls.writing(send).await?.0)
    }

    /// Sends writes in one transaction, and tells each what became of it.
    async fn together(&self, underway: Option<Underway>, batch: Vec<Waiting>) {
        // Nothing may leave after anybody was told that it was not answered.
        let deadline = batch.iter().map(|waiting| waiting.deadline).min().unwrap_or_else(Instant::now);
        match timeout_at(deadline, patiently(underway, self.carry_out(&batch))).await {
            Ok(Ok(answer)) => hand_out(batch, answer),
            // etcd does not say whose fault it is.
            Ok(Err(error)) if error::is_of_one(&error) => {
                let writes = batch.len();
                tracing::warn!(%error, writes, "etcd does not take writes together; each is sent by itself");
                join_all(batch.into_iter().map(|waiting| self.told(None, waiting))).await;
            }
            Ok(Err(error)) => {
                let error = Arc::new(error);
                for Waiting { write, answer, .. } in batch {
                    let _ = answer.send(Err(error::write(&write, &error)));
                }
            }
            // Then all are told that nobody knows.
            Err(_) => {}
        }
    }
}

/// A transaction that others wait for, until this is dropped.
struct Underway(Arc<Batches>);

impl Drop for Underway {
    fn drop(&mut self) {
        self.0.next();
    }
}

/// Waits for what is sent, and with others behind it only so long. Whoever calls is polled until it is done or dropped:
/// nobody else gives the others their turn.
async fn patiently<T>(underway: Option<Underway>, sending: impl Future<Output = T>) -> T {
    let mut sending = pin!(sending);
    if underway.is_some()
        && let Ok(done) = timeout(PATIENCE, &mut sending).await
    {
        return done;
    }
    drop(underway);
    sending.await
}
