//! Intervals after calls to workload clusters that failed.

use std::time::Duration;

use controllers_runtime::Backoff;

/// Failed passes of all objects of a kind. A call to a workload cluster that failed is made again after a second, then
/// less and less often: most failures are brief. Nothing else would begin a pass, because the workload cluster does not
/// report that a call would succeed now.
#[derive(Debug, Default)]
pub(crate) struct Retries(Backoff);

impl Retries {
    /// Returns the interval after a pass: at most `interval`, and less if a call failed.
    pub(crate) fn after(&self, uid: &str, failed: bool, interval: Option<Duration>) -> Option<Duration> {
        if !failed {
            self.forget(uid);
            return interval;
        }
        let retry = self.0.failed(uid, Duration::ZERO);
        interval.map(|interval| interval.min(retry))
    }

    /// Forgets the failures of an object.
    pub(crate) fn forget(&self, uid: &str) {
        self.0.reset(uid);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_call_is_made_again_soon_then_less_often_and_never_later_than_without_a_failure() {
        let retries = Retries::default();
        let wait = Some(Duration::from_secs(20));
        let after = |failed| retries.after("a", failed, wait).map(|interval| interval.as_secs());
        let seconds: Vec<_> = (0..7).filter_map(|_| after(true)).collect();
        assert_eq!(seconds, [1, 2, 4, 8, 16, 20, 20]);
        assert_eq!(after(false), Some(20));
        assert_eq!(after(true), Some(1), "a success ends the row of failures");
        assert_eq!(retries.after("a", true, None), None, "nothing is left to do");
    }
}
