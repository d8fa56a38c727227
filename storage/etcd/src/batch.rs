//! Batching of writes: writes that arrive while etcd is busy go to it in one transaction.
//!
//! A write that finds no transaction in flight is sent at once. Writes that arrive until it is answered wait; then
//! they form one transaction, with the others that have arrived when its task runs. Where writes were batched lately,
//! more are likely to follow a write that finds none in flight: it waits for that task, too. For etcd a transaction
//! is one request, one log entry, and one message to each watcher. It is sent as a whole first. Where a guard does
//! not hold, nothing was written, and it is sent again in parts with guards of their own: one may fail, and the
//! others do not. For a moment after that, all transactions are sent in parts.
//!
//! A write that shares a key or a dependency with a waiting write does not wait behind it: it is sent at once, as are
//! all but the first two that compete for an object. So are deletions, since a deletion has no value that could hold
//! its position in a transaction. A transaction that is not answered within a moment blocks no other any longer: the
//! next are sent beside it. A write whose caller has gone is not sent.

use std::future::Future;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use apiserver_executor::spawn_detached;
use etcd_client::proto::{PbTxnOpResponse, PbTxnResponse};
use etcd_client::{Error, KvClient, Txn};
use futures::future::join_all;
use storage_contract::{Form, Revision, StoreError, StoreResult};
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::task::yield_now;
use tokio::time::error::Elapsed;
use tokio::time::{Instant, timeout, timeout_at};

use crate::error;
use crate::history::{Access, Began, Changed, History, Incarnation};
use crate::queue::{Queue, Waiting};
use crate::transaction::{access, fits_as_a_whole, in_parts, number, parts, report_results, whole};
use crate::write::Write;

/// Transactions that are in flight at a time. With two, each has fewer writes, and their number per second does not
/// grow.
const MAX_IN_FLIGHT: usize = 1;

/// Longest time for which an unanswered transaction blocks others: several times what a healthy etcd takes, and
/// little for a client that waits for an unhealthy one.
const PATIENCE: Duration = Duration::from_millis(50);

/// Time for which transactions are sent in parts after a guard did not hold. Where many writers compete, one round
/// trip in hundreds is wasted; where few do, no loss is measurable.
const CONTENDED: Duration = Duration::from_secs(1);

/// Writes in flight, and writes that wait.
pub(crate) struct Batches {
    history: Arc<History>,
    /// Maximum number of bytes of a transaction.
    largest: usize,
    queue: Mutex<Queue>,
    /// Time until which transactions are sent in parts.
    contended: Mutex<Option<Instant>>,
}

/// Schedule of a write.
enum Schedule {
    /// At once. Others wait for it if it holds a slot.
    Now(Option<Slot>),
    /// Later, by the task that sends the batch.
    Later(oneshot::Receiver<StoreResult<Revision>>),
}

impl Batches {
    /// Creates the batches for an etcd that accepts values of so many bytes, with their keys.
    pub(crate) fn new(history: Arc<History>, largest_value: usize) -> Self {
        Self { history, largest: largest_value, queue: Mutex::default(), contended: Mutex::default() }
    }

    /// Carries out a write.
    pub(crate) async fn write(self: &Arc<Self>, write: Write) -> StoreResult<Revision> {
        let (write, deadline) = (Arc::new(write), Instant::now() + self.history.calls().deadline);
        let done = match self.schedule(&write, deadline) {
            Schedule::Now(slot) => timeout_at(deadline, hold_briefly(slot, self.alone(&write))).await,
            Schedule::Later(answer) => match timeout_at(deadline, answer).await {
                Ok(Err(gone)) => return Err(write.unknown(gone)),
                Ok(Ok(answer)) => Ok(answer),
                Err(elapsed) => Err(elapsed),
            },
        };
        match done {
            Ok(Err(refused @ StoreError::Refused { .. })) => self.refused(&write, refused).await,
            Ok(other) => other,
            Err(elapsed) => Err(self.timed_out(&write, elapsed)),
        }
    }

    /// Resolves a write that etcd has refused: where that very write used up etcd's space, it was made.
    async fn refused(&self, write: &Write, refused: StoreError) -> StoreResult<Revision> {
        match self.history.range("get", write.key.as_bytes(), None).await {
            Ok((found, incarnation)) => {
                let made = |found| write.made(found, incarnation.numbering);
                found.kvs().first().and_then(made).ok_or(refused)
            }
            Err(silent) => Err(write.unknown(silent)),
        }
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn schedule(self: &Arc<Self>, write: &Arc<Write>, deadline: Instant) -> Schedule {
        let mut queue = self.queue();
        if write.value.is_none() || !queue.is_apart(write) {
            return Schedule::Now(None);
        }
        let is_free = queue.in_flight < MAX_IN_FLIGHT;
        if is_free {
            queue.in_flight += 1;
        }
        if is_free && !queue.expects_more() {
            return Schedule::Now(Some(Slot(Arc::clone(self))));
        }
        let (answer, answered) = oneshot::channel();
        queue.push(Waiting { write: Arc::clone(write), deadline, answer });
        drop(queue);
        if is_free {
            self.send_waiting();
        }
        Schedule::Later(answered)
    }

    /// Returns the error of a write that was not answered in time: it may have been made, unless it still waits.
    fn timed_out(&self, write: &Arc<Write>, elapsed: Elapsed) -> StoreError {
        if self.queue().withdraw(write) {
            return StoreError::Unavailable { operation: write.operation, source: Box::new(elapsed) };
        }
        write.unknown(elapsed)
    }

    /// Sends one write in a transaction of its own, and once more if the stored form has just changed.
    async fn alone(&self, write: &Write) -> StoreResult<Revision> {
        loop {
            if let Some(result) = self.alone_once(write).await {
                return result;
            }
        }
    }

    /// Sends one write in a transaction of its own. Returns `None` if nothing was written, since the stored form has changed.
    async fn alone_once(&self, write: &Write) -> Option<StoreResult<Revision>> {
        let began = match self.history.begin() {
            Ok(began) => began,
            Err(rewound) => return Some(Err(rewound)),
        };
        match self.sent(write, &began).await {
            Ok(Some(revision)) => Some(Ok(revision)),
            Ok(None) => match self.history.replaced(&began.incarnation).await {
                Changed::Form => None,
                Changed::Ended(error) => Some(Err(error)),
            },
            Err(error) => Some(Err(error)),
        }
    }

    /// Sends one write in a transaction of its own. Returns `None` if etcd does not have the record of the incarnation.
    async fn sent(&self, write: &Write, began: &Began) -> StoreResult<Option<Revision>> {
        let incarnation = &began.incarnation;
        write.check_form(incarnation.form)?;
        let sending = self.transaction(|| write.transaction(incarnation));
        let answer = sending.await.map_err(|error| error::write(write, &Arc::new(error)))?;
        let access = if answer.succeeded { Access::Write } else { Access::Read };
        if let Err(rewound) = self.history.end(began, answer.header.as_ref(), access) {
            return Err(if answer.succeeded { write.unknown(rewound) } else { rewound });
        }
        if !answer.succeeded && !has_record(&answer, incarnation) {
            return Ok(None);
        }
        let numbering = incarnation.numbering;
        write.outcome(&answer, numbering.revision(number(&answer)), numbering).map(Some)
    }

    /// Frees the slot of a transaction, and sends the waiting writes.
    fn next(self: &Arc<Self>) {
        let mut queue = self.queue();
        queue.in_flight -= 1;
        if queue.in_flight >= MAX_IN_FLIGHT || queue.is_empty() {
            return;
        }
        queue.in_flight += 1;
        drop(queue);
        self.send_waiting();
    }

    /// Sends the waiting writes, after the tasks that are ready have queued theirs; later writes wait for it.
    fn send_waiting(self: &Arc<Self>) {
        // There is no runtime when the program ends, and with it all callers.
        if Handle::try_current().is_err() {
            return;
        }
        let batches = Arc::clone(self);
        spawn_detached("etcd batch", async move {
            yield_now().await;
            let batch = batches.take();
            let slot = (!batch.is_empty()).then(|| Slot(Arc::clone(&batches)));
            match <[Waiting; 1]>::try_from(batch) {
                Ok([only]) => batches.send_one(slot, only).await,
                Err(batch) => batches.send_batch(slot, batch).await,
            }
        });
    }

    /// Takes the writes of one transaction. Where there are none, it frees the slot.
    fn take(&self) -> Vec<Waiting> {
        let mut queue = self.queue();
        let batch = queue.take(self.largest);
        if batch.is_empty() {
            queue.in_flight -= 1;
        }
        batch
    }

    /// Sends one write that has waited in a transaction of its own, and reports its result.
    async fn send_one(&self, slot: Option<Slot>, waiting: Waiting) {
        let Waiting { write, deadline, answer } = waiting;
        if answer.is_closed() {
            return;
        }
        if let Ok(result) = timeout_at(deadline, hold_briefly(slot, self.alone(&write))).await {
            let _ = answer.send(result);
        }
    }

    /// Sends writes in one transaction, as a whole if all guards hold, and otherwise in parts. Returns `None` if the
    /// incarnation is no longer the store's, so that nothing was written.
    async fn carry_out(
        &self,
        batch: &[Waiting],
        incarnation: &Incarnation,
    ) -> Result<Option<PbTxnResponse>, Error> {
        if fits_as_a_whole(batch) && !self.is_contended() {
            let answer = self.transaction(|| whole(batch, incarnation)).await?;
            if answer.succeeded {
                return Ok(Some(answer));
            }
            *self.contended.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now() + CONTENDED);
        }
        Ok(parts(self.transaction(|| in_parts(batch, incarnation)).await?))
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
        Ok(self.history.calls().writing(send).await?.0)
    }

    /// Sends writes in one transaction, and reports its result to each caller.
    async fn send_batch(&self, slot: Option<Slot>, batch: Vec<Waiting>) {
        // No request may leave after a caller has received a timeout.
        let deadline = batch.iter().map(|waiting| waiting.deadline).min().unwrap_or_else(Instant::now);
        let began = match self.history.begin() {
            Ok(began) => began,
            Err(rewound) => return report_rewound(batch, &rewound),
        };
        let batch = refuse_another_form(batch, began.incarnation.form);
        if batch.is_empty() {
            return;
        }
        let sending = hold_briefly(slot, self.carry_out(&batch, &began.incarnation));
        match timeout_at(deadline, sending).await {
            Ok(Ok(Some(answer))) => self.report(batch, answer, &began),
            Ok(Ok(None)) => match self.history.replaced(&began.incarnation).await {
                Changed::Ended(error) => report_rewound(batch, &error),
                Changed::Form => {
                    join_all(batch.into_iter().map(|waiting| self.send_one(None, waiting))).await;
                }
            },
            // etcd does not say which write caused the error.
            Ok(Err(error)) if error::is_of_one_write(&error) => {
                let writes = batch.len();
                tracing::warn!(%error, writes, "etcd refused a batch of writes; sending each by itself");
                join_all(batch.into_iter().map(|waiting| self.send_one(None, waiting))).await;
            }
            Ok(Err(error)) => {
                let error = Arc::new(error);
                for Waiting { write, answer, .. } in batch {
                    let _ = answer.send(Err(error::write(&write, &error)));
                }
            }
            // On a timeout all callers receive an unknown outcome.
            Err(_) => {}
        }
    }

    /// Reports the results of a transaction, if its answer belongs to the incarnation.
    fn report(&self, batch: Vec<Waiting>, answer: PbTxnResponse, began: &Began) {
        match self.history.end(began, answer.header.as_ref(), access(&answer)) {
            Ok(()) => report_results(batch, answer, began.incarnation.numbering),
            Err(rewound) => {
                for Waiting { write, answer, .. } in batch {
                    let _ = answer.send(Err(write.unknown(rewound.to_string())));
                }
            }
        }
    }
}

/// Reports to each caller that nothing was written, because the history went back or etcd does not answer.
fn report_rewound(batch: Vec<Waiting>, error: &StoreError) {
    for Waiting { write, answer, .. } in batch {
        let _ = answer.send(Err(match error {
            StoreError::Rewound { detail } => StoreError::Rewound { detail: detail.clone() },
            other => StoreError::Unavailable { operation: write.operation, source: other.to_string().into() },
        }));
    }
}

/// Refuses the writes of values that a store of this form must not have. Returns the others.
fn refuse_another_form(batch: Vec<Waiting>, form: Form) -> Vec<Waiting> {
    let mut rest = Vec::with_capacity(batch.len());
    for waiting in batch {
        match waiting.write.check_form(form) {
            Ok(()) => rest.push(waiting),
            Err(error) => {
                let _ = waiting.answer.send(Err(error));
            }
        }
    }
    rest
}

/// Returns true if the answer of a write that was not made shows the record of the incarnation, in its last part.
fn has_record(answer: &PbTxnResponse, incarnation: &Incarnation) -> bool {
    match answer.responses.last().and_then(|part| part.response.as_ref()) {
        Some(PbTxnOpResponse::ResponseRange(range)) => {
            incarnation.is_recorded(range.kvs.first().map(|found| found.value.as_slice()))
        }
        _ => false,
    }
}

/// Slot of a transaction that others wait for, until it is dropped.
struct Slot(Arc<Batches>);

impl Drop for Slot {
    fn drop(&mut self) {
        self.0.next();
    }
}

/// Waits for the transaction, and holds its slot for [`PATIENCE`] at most. The caller must be polled until it is done
/// or dropped: nothing else frees the slot.
async fn hold_briefly<T>(slot: Option<Slot>, sending: impl Future<Output = T>) -> T {
    let mut sending = pin!(sending);
    if slot.is_some()
        && let Ok(done) = timeout(PATIENCE, &mut sending).await
    {
        return done;
    }
    drop(slot);
    sending.await
}
