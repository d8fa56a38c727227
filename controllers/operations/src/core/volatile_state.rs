//! What this process remembers of its operations beside what is stored.
//!
//! Nothing here decides what is right, only how soon. A call whose answer is lost may still be on
//! its way into the cloud, so a pass that sees no trace of a call waits for [`SETTLE`] before it
//! makes the call (again). When this very process announced the call a moment ago and has not made
//! it, there is nothing to wait for.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use controllers_runtime::Backoff;

/// How long a call that was sent may take to show in the cloud: twice the longest that the provider
/// waits for an answer, so that by then it has either been recorded or will never be.
pub(crate) const SETTLE: Duration = Duration::from_secs(120);

#[derive(Debug, Default)]
struct VolatileState {
    /// Steps announced here.
    announced: HashSet<String>,
    /// Calls made here whose outcome was not a clear refusal.
    tried: HashMap<(String, String), Duration>,
    /// When a step was first looked at here.
    seen: HashMap<String, Duration>,
    /// What the cloud said when it last failed, until something is achieved.
    said: Option<String>,
}

/// Recollections by uid of the operation.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    states: Mutex<HashMap<String, VolatileState>>,
    backoff: Backoff,
}

impl Memory {
    fn with<T>(&self, uid: &str, change: impl FnOnce(&mut VolatileState) -> T) -> T {
        let mut all = self.states.lock().unwrap_or_else(PoisonError::into_inner);
        change(all.entry(uid.to_owned()).or_default())
    }

    /// This process has written that `step` is under way, and made none of its calls.
    pub(crate) fn announced(&self, uid: &str, step: &str) {
        self.with(uid, |known| {
            known.announced.insert(step.to_owned());
        });
    }

    /// A call is about to be made.
    pub(crate) fn trying(&self, uid: &str, step: &str, item: &str, now: Duration) {
        self.with(uid, |known| {
            known.tried.insert((step.to_owned(), item.to_owned()), now);
        });
    }

    /// The cloud failed, with these words.
    pub(crate) fn said(&self, uid: &str, words: &str) {
        self.with(uid, |known| known.said = Some(words.to_owned()));
    }

    /// What the cloud said when it last failed, if nothing was achieved since.
    pub(crate) fn last_words(&self, uid: &str) -> Option<String> {
        self.with(uid, |known| known.said.clone())
    }

    /// Something was achieved.
    pub(crate) fn achieved(&self, uid: &str) {
        self.with(uid, |known| known.said = None);
    }

    /// A call was refused for certain: nothing came of it.
    pub(crate) fn refused(&self, uid: &str, step: &str, item: &str) {
        self.with(uid, |known| {
            known.tried.remove(&(step.to_owned(), item.to_owned()));
        });
    }

    /// Whether a call of which the cloud shows no trace may be taken for never made.
    ///
    /// A process that did not announce the step counts from its own first look and not from the
    /// step's start: its predecessor may have tried again and again, and died in the last try.
    pub(crate) fn is_settled(&self, uid: &str, step: &str, item: &str, now: Duration) -> bool {
        self.with(uid, |known| {
            let first_look = *known.seen.entry(step.to_owned()).or_insert(now);
            match known.tried.get(&(step.to_owned(), item.to_owned())) {
                Some(at) => now.saturating_sub(*at) >= SETTLE,
                None => known.announced.contains(step) || now.saturating_sub(first_look) >= SETTLE,
            }
        })
    }

    /// For how long this process has seen a step under way. After a restart that begins anew: a clock
    /// that lasts over processes may jump.
    pub(crate) fn under_way(&self, uid: &str, step: &str, now: Duration) -> Duration {
        let first_look = self.with(uid, |known| *known.seen.entry(step.to_owned()).or_insert(now));
        now.saturating_sub(first_look)
    }

    /// Whether this process made a call so lately that making it again would be hammering.
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

    /// Returns what is left of the interval after a failure. Writing down what went wrong wakes the
    /// controller at once, and must not make it try again at once.
    pub(crate) fn remaining(&self, uid: &str) -> Option<Duration> {
        self.backoff.remaining(uid)
    }

    /// Something worked.
    pub(crate) fn succeeded(&self, uid: &str) {
        self.backoff.reset(uid);
    }

    /// The operation is over.
    pub(crate) fn forget(&self, uid: &str) {
        self.backoff.reset(uid);
        self.states.lock().unwrap_or_else(PoisonError::into_inner).remove(uid);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_believed_unmade_at_once_only_by_the_process_that_announced_it() {
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
