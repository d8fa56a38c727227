//! Permit of one term: proof, directly before a call changes a cloud, that this process still holds the Lease.
//!
//! A process may be frozen between its decision and the call, e.g. in a suspended virtual machine. Its own timers then
//! prove nothing, so the permit reads the Lease.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use controllers_infrastructure::CallPermit;
use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;
use rustix::time::{ClockId, clock_gettime};
use tokio_util::sync::CancellationToken;

use super::calls::TermCalls;
use super::{NAME, TermHistory, Timing, record};

/// Time for which a reading of the Lease permits calls that began to wait before it.
const FRESH: Duration = Duration::from_millis(500);

/// Least time between two readings: all calls that wait share one.
const INTERVAL: Duration = Duration::from_millis(200);

/// Time since the boot, suspensions included. The clock of `Instant` stands still during them.
pub(super) fn boot_time() -> Duration {
    let now = clock_gettime(ClockId::Boottime);
    let part = |number| u64::try_from(number).unwrap_or_default();
    Duration::from_secs(part(now.tv_sec)) + Duration::from_nanos(part(now.tv_nsec))
}

/// Permit of a term. It ends the term when the Lease is lost.
#[derive(Debug)]
pub(super) struct LeasePermit {
    leases: Api<Lease>,
    identity: String,
    timing: Timing,
    /// Set if no other process can use the store.
    alone: bool,
    /// Number of transitions of the Lease in this term. Another term of this process has another number.
    transitions: Option<i32>,
    history: TermHistory,
    /// Time since the boot at which the term ends, unless the Lease is renewed.
    end: Mutex<Duration>,
    /// Time since the boot at which the newest reading began. Held during a reading.
    read: tokio::sync::Mutex<Duration>,
    /// Time since the boot at which the newest reading began that found the Lease held.
    proved: Mutex<Duration>,
    term: CancellationToken,
    /// Number of the term.
    epoch: Option<u64>,
    calls: TermCalls,
}

impl LeasePermit {
    /// Creates the permit of a term whose Lease was acquired just now.
    pub(super) fn new(
        leases: Api<Lease>,
        identity: String,
        (timing, alone): (Timing, bool),
        (transitions, history): (Option<i32>, TermHistory),
        term: CancellationToken,
    ) -> Self {
        let permit = Self {
            leases,
            identity,
            timing,
            alone,
            transitions,
            history,
            end: Mutex::default(),
            read: Default::default(),
            proved: Mutex::default(),
            term,
            epoch: None,
            calls: TermCalls::default(),
        };
        permit.extend(boot_time());
        permit
    }

    /// Sets the number of the term.
    pub(super) fn numbered(self, epoch: Option<u64>) -> Self {
        Self { epoch, ..self }
    }

    /// Returns the calls of the term.
    pub(super) fn calls(&self) -> &TermCalls {
        &self.calls
    }

    /// Records a renewal that began at this time since the boot.
    pub(super) fn extend(&self, begun: Duration) {
        *self.end.lock().unwrap_or_else(PoisonError::into_inner) = begun + self.timing.deadline;
    }

    /// Records when the reading began that has found the Lease held; zero, if it has found it lost.
    fn prove(&self, begun: Duration) {
        *self.proved.lock().unwrap_or_else(PoisonError::into_inner) = begun;
    }

    fn is_over(&self) -> bool {
        self.history.has_ended() || boot_time() >= *self.end.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads the Lease. Returns whether it is that of this term, or `None` without an answer.
    async fn is_held(&self) -> Option<bool> {
        let reading = tokio::time::timeout(self.timing.renew, self.leases.get_opt(NAME));
        let lease = reading.await.ok()?.ok()?;
        let is_of_this_term = |lease: Lease| {
            let transitions = lease.spec.as_ref().and_then(|spec| spec.lease_transitions);
            record::is_held_by(&lease, &self.identity) && transitions == self.transitions
        };
        Some(lease.is_some_and(is_of_this_term))
    }

    /// Returns true when the Lease was found held, by a reading that began after this call.
    async fn confirm(&self) -> bool {
        let arrived = boot_time();
        loop {
            let mut read = self.read.lock().await;
            if *read >= arrived && boot_time() < *read + FRESH {
                return !self.is_over();
            }
            tokio::time::sleep((*read + INTERVAL).saturating_sub(boot_time())).await;
            let begun = boot_time();
            match self.is_held().await {
                Some(true) => {
                    *read = begun;
                    self.prove(begun);
                }
                Some(false) => {
                    // Calls with an earlier grant may be about to be written.
                    self.prove(Duration::ZERO);
                    return false;
                }
                None => {
                    drop(read);
                    tokio::time::sleep(self.timing.retry).await;
                }
            }
            if self.is_over() {
                return false;
            }
        }
    }
}

#[async_trait]
impl CallPermit for LeasePermit {
    async fn granted(&self) {
        if self.alone || self.confirm().await {
            return;
        }
        if !self.term.is_cancelled() {
            tracing::warn!("the controller lease was lost; a call was not sent");
            self.term.cancel();
        }
        std::future::pending().await
    }

    /// A later reading by another call proves as much, so the newest one counts.
    fn is_fresh(&self) -> bool {
        let proved = *self.proved.lock().unwrap_or_else(PoisonError::into_inner);
        self.alone || (proved > Duration::ZERO && boot_time() < proved + FRESH && !self.is_over())
    }

    fn begin(&self) -> bool {
        self.calls.begin()
    }

    fn end(&self, has_ended: bool) {
        self.calls.end(has_ended);
    }

    fn epoch(&self) -> Option<u64> {
        self.epoch
    }
}
