//! Decisions about the clock of this machine. Pure.

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

/// Largest difference between the clocks of two machines that are synchronized.
pub(super) const SKEW: SignedDuration = SignedDuration::from_mins(5);

/// Recorded time, as JSON.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Recorded {
    /// Last time of the leader. Unit: Unix seconds.
    pub(super) at: i64,
    /// Last value of `clock.acceptedAt` that was used. Unit: Unix seconds.
    #[serde(default)]
    pub(super) accepted: Option<i64>,
}

impl Recorded {
    /// Returns the record of a later time; `None` if the time is not later. A recorded time never goes back by itself: the
    /// clock of the leader may be the wrong one.
    pub(super) fn advanced(before: Option<Self>, now: Timestamp) -> Option<Self> {
        let accepted = before.and_then(|before| before.accepted);
        let is_later = before.is_none_or(|before| before.at < now.as_second());
        is_later.then(|| Self { at: now.as_second(), accepted })
    }

    /// Returns the record after an operator has accepted the clock; `None` if this value was used before, or if the clock is
    /// behind it.
    pub(super) fn accepted(before: Option<Self>, at: Timestamp, now: Timestamp) -> Option<Self> {
        let accepted = Some(at.as_second());
        let is_new = before.and_then(|before| before.accepted) != accepted;
        (is_new && at <= now).then(|| Self { at: now.as_second(), accepted })
    }
}

/// Returns the time by which a clock is behind a time that has passed. Zero, if synchronized clocks may differ by it.
pub(super) fn behind(now: Timestamp, passed: Option<Timestamp>) -> SignedDuration {
    let difference = passed.map_or(SignedDuration::ZERO, |passed| passed.duration_since(now));
    if difference > SKEW { difference } else { SignedDuration::ZERO }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        format!("2026-11-21T{text}Z").parse().unwrap()
    }

    #[test]
    fn tm_25_a_clock_is_behind_a_time_that_has_passed_and_not_behind_its_skew() {
        let now = at("12:00:00");
        for (passed, expected) in [
            (None, 0),
            (Some("11:00:00"), 0),
            (Some("12:05:00"), 0),
            (Some("12:05:01"), 301),
            (Some("13:00:00"), 3600),
        ] {
            assert_eq!(behind(now, passed.map(at)).as_secs(), expected, "{passed:?}");
        }
    }

    #[test]
    fn tm_25_a_recorded_time_goes_forward_and_keeps_the_accepted_one() {
        let noon = at("12:00:00").as_second();
        let before = Some(Recorded { at: noon, accepted: Some(7) });
        assert_eq!(Recorded::advanced(None, at("12:00:00")), Some(Recorded { at: noon, accepted: None }));
        assert_eq!(Recorded::advanced(before, at("12:00:00")), None);
        assert_eq!(Recorded::advanced(before, at("11:00:00")), None, "the clock was set back");
        let later = Recorded { at: noon + 60, accepted: Some(7) };
        assert_eq!(Recorded::advanced(before, at("12:01:00")), Some(later));
    }

    #[test]
    fn tm_25_an_operator_accepts_a_clock_once() {
        let (now, accepted) = (at("12:00:00"), at("11:55:00"));
        let wrong = Recorded { at: at("23:00:00").as_second(), accepted: None };
        let right = Recorded { at: now.as_second(), accepted: Some(accepted.as_second()) };
        assert_eq!(Recorded::accepted(Some(wrong), accepted, now), Some(right));
        let again = Recorded { at: wrong.at, ..right };
        assert_eq!(Recorded::accepted(Some(again), accepted, now), None, "it was used before");
        assert_eq!(Recorded::accepted(Some(wrong), at("12:00:01"), now), None, "the clock is behind it");
        assert_eq!(Recorded::accepted(None, accepted, now), Some(right), "it is used up all the same");
    }
}
