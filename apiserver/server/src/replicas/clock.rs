//! Clock of this machine, compared with those of other replicas, and with the time that has really passed.
//!
//! The ends of tokens and certificates are times of a clock. One that is wrong lengthens or shortens them.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use tokio::time::Instant;

/// Difference between the clock and the time that has passed from which on the clock was set. Slewing by NTP changes it by
/// 0.5 ms per second at most.
const JUMP: SignedDuration = SignedDuration::from_secs(5);

/// Readings of the clock at the last pass.
#[derive(Debug, Default)]
pub(crate) struct Clock {
    last: Option<(Timestamp, Instant)>,
}

/// Comparison with the last pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Reading {
    /// Time that has really passed; `None` at the first pass.
    pub(crate) elapsed: Option<Duration>,
    /// Seconds by which the clock was set, if it was. Negative: back.
    pub(crate) jump: Option<i64>,
}

impl Clock {
    /// Reads the clock. A suspended machine counts as a jump, since it did nothing in that time.
    pub(crate) fn read(&mut self, wall: Timestamp, now: Instant) -> Reading {
        let Some((last_wall, last_now)) = self.last.replace((wall, now)) else {
            return Reading { elapsed: None, jump: None };
        };
        let elapsed = now.saturating_duration_since(last_now);
        let passed = SignedDuration::try_from(elapsed).unwrap_or(SignedDuration::MAX);
        let jump = wall.duration_since(last_wall).saturating_sub(passed);
        Reading { elapsed: Some(elapsed), jump: (jump.abs() > JUMP).then_some(jump.as_secs()) }
    }
}

/// Returns the least number of seconds by which the clock of another replica differs from this one. The replica has written
/// `renewed` since the last pass, which was `elapsed` ago. Pure.
pub(super) fn difference(renewed: Timestamp, wall: Timestamp, elapsed: Duration) -> i64 {
    let newest = renewed.duration_since(wall).as_secs();
    let oldest =
        newest.saturating_add(i64::try_from(elapsed.as_secs()).unwrap_or(i64::MAX)).saturating_add(1);
    if newest > 0 { newest } else { oldest.min(0).saturating_neg() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + seconds).unwrap()
    }

    #[test]
    fn tm_25_a_clock_that_is_set_is_noticed_and_one_that_runs_is_not() {
        let (mut clock, begun) = (Clock::default(), Instant::now());
        let mut read = |wall: i64, passed: u64| clock.read(at(wall), begun + Duration::from_secs(passed));
        assert_eq!(read(0, 0), Reading { elapsed: None, jump: None });
        let ten = Some(Duration::from_secs(10));
        for (wall, passed, jump) in
            [(10, 10, None), (24, 20, None), (3634, 30, Some(3600)), (44, 40, Some(-3600)), (54, 50, None)]
        {
            assert_eq!(read(wall, passed), Reading { elapsed: ten, jump }, "{wall}");
        }
    }

    #[test]
    fn tm_25_a_difference_of_clocks_is_shown_as_far_as_the_interval_of_renewals_proves_it() {
        let ten = Duration::from_secs(10);
        for (renewed, expected) in [(0, 0), (-10, 0), (-11, 0), (-20, 9), (-3611, 3600), (7, 7), (3600, 3600)]
        {
            assert_eq!(difference(at(renewed), at(0), ten), expected, "{renewed}");
        }
    }
}
