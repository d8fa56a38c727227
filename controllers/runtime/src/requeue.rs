//! Requeue of an object: the time of its next pass.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use controllers_infrastructure::{CloudError, ErrorClass};
use kube::{Resource, ResourceExt};

use crate::backoff::Backoff;
use crate::dedup::Settled;
use crate::{ReconcileError, SteadyClock};

/// Interval of an object that waits for another one. A watch reports most changes sooner.
const WAITING: Duration = Duration::from_secs(10);

/// Shortest interval after a call whose answer was lost: lists may lag behind the call.
const UNKNOWN: Duration = Duration::from_secs(2);

/// Longest interval of work in progress in the cloud.
const LONGEST_POLL: Duration = Duration::from_secs(30);

/// Number of polls before their interval doubles: most work in a cloud ends within seconds.
const POLLS: u32 = 10;

/// Time of the next pass over an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Requeue {
    /// At once: this pass changed something, or was overtaken by another writer.
    Now,
    /// After an interval, even if nothing changes.
    After(Duration),
    /// After an interval, because this pass failed. The failure has been reported.
    Retry(Duration),
    /// When something changes.
    OnChange,
}

impl Requeue {
    /// Returns the requeue after a pass of a controller without backoff, which waits and retries
    /// after `interval`.
    ///
    /// # Errors
    /// The API's own failure.
    pub fn after(
        result: Result<Option<Duration>, ReconcileError>,
        interval: Duration,
    ) -> Result<Self, kube::Error> {
        match result {
            Ok(pause) => Ok(pause.into()),
            Err(error) if error.is_conflict() => Ok(Self::Now),
            Err(ReconcileError::Api(error)) => Err(error),
            Err(ReconcileError::Waiting { .. }) => Ok(Self::After(interval)),
            Err(ReconcileError::Cloud(_)) => Ok(Self::Retry(interval)),
        }
    }

    /// Returns the interval, if the object is due without a change.
    pub fn interval(self) -> Option<Duration> {
        match self {
            Self::OnChange => None,
            Self::Now => Some(Duration::ZERO),
            Self::After(interval) | Self::Retry(interval) => Some(interval),
        }
    }
}

impl From<Option<Duration>> for Requeue {
    fn from(interval: Option<Duration>) -> Self {
        interval.map_or(Self::OnChange, Self::After)
    }
}

/// Requeue policy of one controller: exponential backoff after failures, and no pass over an object
/// that is as the last pass left it. Its state is lost with the process.
#[derive(Debug, Default)]
pub struct RequeuePolicy {
    backoff: Backoff,
    settled: Settled,
    /// Polls in a row of every object whose work is in progress, by uid.
    polls: Mutex<HashMap<String, u32>>,
}

impl RequeuePolicy {
    /// Creates a policy whose intervals this clock measures.
    pub fn with_clock(clock: SteadyClock) -> Self {
        Self { settled: Settled::with_clock(clock), ..Self::default() }
    }

    /// Returns true if an object is stored as its last pass left it, whether or not the next pass is due. False in a new
    /// process, and after [`forget`](Self::forget).
    pub fn is_unchanged<K: Resource>(&self, object: &K) -> bool {
        self.settled.is_unchanged(object)
    }

    /// Returns how long an object needs no pass; `None` if it needs one now.
    pub fn remaining<K: Resource>(&self, object: &K) -> Option<Duration> {
        self.settled.remaining(object)
    }

    /// Forgets an object that does not exist any more.
    pub fn forget(&self, uid: &str) {
        self.backoff.reset(uid);
        self.settled.forget(uid);
        self.polls.lock().unwrap_or_else(PoisonError::into_inner).remove(uid);
    }

    /// Counts a poll. Returns the interval before the next one, which doubles after each few.
    fn poll(&self, uid: &str, interval: Duration) -> Duration {
        let mut polls = self.polls.lock().unwrap_or_else(PoisonError::into_inner);
        let count = polls.entry(uid.to_owned()).or_default();
        let factor = 1_u32.checked_shl(*count / POLLS).unwrap_or(u32::MAX);
        *count = count.saturating_add(1);
        interval.saturating_mul(factor).min(LONGEST_POLL.max(interval))
    }

    /// Returns the requeue after a pass that left `object` as it is stored now.
    ///
    /// `polling` is the interval of work in progress in the cloud. Such an object gets a pass on every
    /// change, and its pass is no success yet, so that retries of work that fails in the end stay apart.
    ///
    /// # Errors
    /// The API's own failure.
    pub fn after<K: Resource>(
        &self,
        object: &K,
        result: Result<Option<Duration>, ReconcileError>,
        polling: Option<Duration>,
    ) -> Result<Requeue, kube::Error> {
        let uid = object.uid().unwrap_or_default();
        let requeue = match result {
            Ok(interval) if interval.is_some() && interval == polling => {
                // An earlier pass may have left the object, as it is stored, for longer.
                self.settled.forget(&uid);
                return Ok(interval.map(|interval| self.poll(&uid, interval)).into());
            }
            Ok(interval) => {
                self.backoff.reset(&uid);
                Requeue::from(interval)
            }
            // A look for the effect of a lost call: another call has not failed.
            Err(ReconcileError::Cloud(CloudError {
                class: ErrorClass::Unknown,
                retry_after: Some(interval),
                ..
            })) => Requeue::Retry(interval),
            Err(ReconcileError::Cloud(error)) => {
                let unknown = if error.class == ErrorClass::Unknown { UNKNOWN } else { Duration::ZERO };
                Requeue::Retry(self.backoff.failed(&uid, error.retry_after.unwrap_or(unknown)))
            }
            other => return Requeue::after(other, WAITING),
        };
        self.polls.lock().unwrap_or_else(PoisonError::into_inner).remove(&uid);
        if let Some(interval) = requeue.interval() {
            self.settled.note(object, interval);
        }
        Ok(requeue)
    }
}

#[cfg(test)]
mod tests {
    use apiserver_types::{OpenStackMachine, OpenStackMachineSpec};

    use super::*;

    #[test]
    fn r2_10_work_in_progress_is_polled_less_and_less_often() {
        let policy = RequeuePolicy::default();
        let mut polls = (0..60).map(|_| policy.poll("a", Duration::from_secs(2)).as_secs());
        let every_tenth: Vec<u64> = polls.by_ref().step_by(10).collect();
        assert_eq!(every_tenth, [2, 4, 8, 16, 30, 30]);
        policy.forget("a");
        assert_eq!(policy.poll("a", Duration::from_secs(2)).as_secs(), 2);
        assert_eq!(
            policy.poll("a", Duration::from_mins(1)).as_secs(),
            60,
            "a long interval is not shortened"
        );
    }

    #[test]
    fn r2_6_a_call_whose_answer_was_lost_is_looked_after_two_seconds_later() {
        let mut machine = OpenStackMachine::new("m", OpenStackMachineSpec::default());
        machine.metadata.uid = Some("u".to_owned());
        let lost = CloudError::new(ErrorClass::Unknown, "create server", "no response in time");
        let policy = RequeuePolicy::default();
        let requeue = policy.after(&machine, Err(lost.into()), None).unwrap();
        assert_eq!(requeue, Requeue::Retry(Duration::from_secs(2)));
        let later = Some(Duration::from_secs(9));
        let look = || CloudError {
            retry_after: later,
            ..CloudError::new(ErrorClass::Unknown, "create server", "502 Bad Gateway")
        };
        for _ in 0..5 {
            let requeue = policy.after(&machine, Err(look().into()), None).unwrap();
            assert_eq!(requeue.interval(), later, "looks do not make the backoff longer");
        }
        let failed = CloudError::new(ErrorClass::Broken, "create server", "502 Bad Gateway");
        let requeue = policy.after(&machine, Err(failed.into()), None).unwrap();
        assert_eq!(requeue, Requeue::Retry(Duration::from_secs(2)), "it is the second failure");
    }

    #[test]
    fn writing_an_error_to_the_status_does_not_trigger_a_retry() {
        let mut machine = OpenStackMachine::new("m", OpenStackMachineSpec::default());
        machine.metadata.uid = Some("u".to_owned());
        machine.metadata.resource_version = Some("1".to_owned());
        let policy = RequeuePolicy::default();
        let quota = || Err(CloudError::new(ErrorClass::Quota, "create server", "no").into());
        let after = |result, polling| policy.after(&machine, result, polling).unwrap();
        let seconds = |result, polling| after(result, polling).interval().map(|interval| interval.as_secs());
        assert_eq!(after(quota(), None), Requeue::Retry(Duration::from_secs(1)));
        assert!(policy.remaining(&machine).is_some());
        let building = Some(Duration::from_secs(2));
        assert_eq!(seconds(Ok(building), building), Some(2));
        assert_eq!(policy.remaining(&machine), None, "work in progress gets a pass at any time");
        assert_eq!(seconds(quota(), None), Some(2), "what is being built has not succeeded");
        assert_eq!(seconds(Ok(None), building), None);
        assert_eq!(seconds(quota(), None), Some(1));
        machine.metadata.resource_version = Some("2".to_owned());
        assert_eq!(policy.remaining(&machine), None, "another client has written");
    }
}
