//! Volatile state: this process's memory of its operations, in addition to the stored state.
//!
//! It affects only how soon a pass acts, never which action is right. A call whose response is lost may
//! still be on its way to the cloud, so a pass that finds no trace of a call waits for [`SETTLE`] before
//! it makes the call (again). If this very process announced the call a moment ago and has not made it,
//! it need not wait.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use controllers_runtime::Backoff;

/// Time after which a call that was sent is visible in the cloud: twice the provider's longest timeout.
/// By then the call has either been recorded or never will be.
pub(crate) const SETTLE: Duration = Duration::from_secs(120);

#[derive(Debug, Default)]
struct VolatileState {
    /// Steps that this process announced.
    announced: HashSet<String>,
    /// Calls of this process that were not clearly refused, and their times.
    tried: HashMap<(String, String), Duration>,
    /// Time at which this process first observed a step.
    first_observed: HashMap<String, Duration>,
    /// Message of the cloud's last failure, until an effect succeeds.
    last_failure: Option<String>,
}

/// Memory of all operations, by uid.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    states: Mutex<HashMap<String, VolatileState>>,
    backoff: Backoff,
    /// Held while an operation deletes a control plane Machine.
    deletion: tokio::sync::Mutex<()>,
}

impl Memory {
    fn with<T>(&self, uid: &str, change: impl FnOnce(&mut VolatileState) -> T) -> T {
        let mut all = self.states.lock().unwrap_or_else(PoisonError::into_inner);
        change(all.entry(uid.to_owned()).or_default())
    }

    /// Records that this process has announced `step`, and made none of its calls.
    pub(crate) fn announced(&self, uid: &str, step: &str) {
        self.with(uid, |known| {
            known.announced.insert(step.to_owned());
        });
    }

    /// Records that a call is about to be made.
    pub(crate) fn trying(&self, uid: &str, step: &str, item: &str, now: Duration) {
        self.with(uid, |known| {
            known.tried.insert((step.to_owned(), item.to_owned()), now);
        });
    }

    /// Records a failure of the cloud.
    pub(crate) fn cloud_failed(&self, uid: &str, message: &str) {
        self.with(uid, |known| known.last_failure = Some(message.to_owned()));
    }

    /// Returns the message of the cloud's last failure, if no effect has succeeded since.
    pub(crate) fn last_failure(&self, uid: &str) -> Option<String> {
        self.with(uid, |known| known.last_failure.clone())
    }

    /// Records that an effect succeeded.
    pub(crate) fn achieved(&self, uid: &str) {
        self.with(uid, |known| known.last_failure = None);
    }

    /// Records that a call was refused, so that it has no effect.
    pub(crate) fn refused(&self, uid: &str, step: &str, item: &str) {
        self.with(uid, |known| {
            known.tried.remove(&(step.to_owned(), item.to_owned()));
        });
    }

    /// Returns true if a call without a trace in the cloud was certainly never made.
    ///
    /// A process that did not announce the step counts from its own first observation and not from the
    /// step's start: its predecessor may have retried many times, and ended during the last try.
    pub(crate) fn is_settled(&self, uid: &str, step: &str, item: &str, now: Duration) -> bool {
        self.with(uid, |known| {
            let first_observed = *known.first_observed.entry(step.to_owned()).or_insert(now);
            match known.tried.get(&(step.to_owned(), item.to_owned())) {
                Some(at) => now.saturating_sub(*at) >= SETTLE,
                None => known.announced.contains(step) || now.saturating_sub(first_observed) >= SETTLE,
            }
        })
    }

    /// Returns how long this process has observed a step in progress. A restart resets it: a clock that
    /// outlives the process may jump.
    pub(crate) fn in_progress(&self, uid: &str, step: &str, now: Duration) -> Duration {
        let first_observed =
            self.with(uid, |known| *known.first_observed.entry(step.to_owned()).or_insert(now));
        now.saturating_sub(first_observed)
    }

    /// Returns true if this process made a call so recently that it must not repeat it.
    pub(crate) fn tried_lately(&self, uid: &str, step: &str, item: &str, now: Duration) -> bool {
        self.with(uid, |known| {
            let last = known.tried.get(&(step.to_owned(), item.to_owned()));
            last.is_some_and(|at| now.saturating_sub(*at) < SETTLE)
        })
    }

    /// Counts a failure, and returns the interval before the next attempt.
    pub(crate) fn failed(&self, uid: &str, at_least: Duration) -> Duration {
        self.backoff.failed(uid, at_least)
    }

    /// Returns the rest of the interval after a failure. The write of the error to the status wakes the
    /// controller at once, and must not make it try again at once.
    pub(crate) fn remaining(&self, uid: &str) -> Option<Duration> {
        self.backoff.remaining(uid)
    }

    /// Waits until no other operation deletes a control plane Machine. None does until the guard is dropped.
    pub(crate) async fn only_deletion(&self) -> tokio::sync::MutexGuard<'_, ()> {
        self.deletion.lock().await
    }

    /// Resets the backoff after a success.
    pub(crate) fn succeeded(&self, uid: &str) {
        self.backoff.reset(uid);
    }

    /// Forgets an operation that is over.
    pub(crate) fn forget(&self, uid: &str) {
        self.backoff.reset(uid);
        self.states.lock().unwrap_or_else(PoisonError::into_inner).remove(uid);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_process_that_announced_a_call_knows_at_once_that_it_was_not_made() {
        let at = Duration::from_secs;
        let memory = Memory::default();
        let settled = |now: u64| memory.is_settled("u", "Reboot", "", at(now));
        assert!(!settled(1000), "another process may just have called");
        assert!(!settled(1119), "its call may still be on its way");
        assert!(settled(1120), "it would show by now");
        memory.announced("u", "Reboot");
        assert!(settled(1000), "announced here, not called");
        memory.trying("u", "Reboot", "", at(1001));
        assert!(!settled(1002) && memory.tried_lately("u", "Reboot", "", at(1002)), "called here");
        assert!(settled(1121), "called here, and it would show by now");
        memory.refused("u", "Reboot", "");
        assert!(settled(1002), "called here, and refused");
        assert!(!memory.tried_lately("u", "Reboot", "", at(1002)), "called here, and refused");
    }
}
