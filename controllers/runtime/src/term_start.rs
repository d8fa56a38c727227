//! Begin of the term of a leader, as far as calls of the former leader matter.

use std::time::Duration;

use tokio::time::Instant;

/// Begin of a term.
#[derive(Debug, Clone, Copy, Default)]
pub struct TermStart {
    /// Number of the term, larger than those of all terms before. Zero if terms have no numbers.
    number: u64,
    /// Time until which calls of the former leader may still reach the cloud.
    unsettled_until: Option<Instant>,
}

impl TermStart {
    /// Longest time in which a call of a former leader can reach the cloud after the end of its term: the timeout of a
    /// call, and a while for the cloud. A cloud that holds a call back for longer has answered with an error by then.
    pub const LATE: Duration = Duration::from_secs(65);

    /// Creates the begin of a term whose former leader has ended its calls, or that is the first one.
    pub fn in_order(number: u64) -> Self {
        Self { number, unsettled_until: None }
    }

    /// Creates the begin of a term whose former leader was cut off, not later than at this time.
    pub fn after_a_cut(number: u64, at: Instant) -> Self {
        Self::unsettled_until(number, at + Self::LATE)
    }

    /// Creates the begin of a term in which calls of former leaders may still reach the cloud until this time.
    pub fn unsettled_until(number: u64, until: Instant) -> Self {
        Self { number, unsettled_until: Some(until) }
    }

    /// Returns the number of the term; `None` if terms have no numbers.
    pub fn number(&self) -> Option<u64> {
        (self.number > 0).then_some(self.number)
    }

    /// Returns the time for which calls of the former leader may still reach the cloud; `None` if none can any more.
    pub fn unsettled(&self) -> Option<Duration> {
        let rest = self.unsettled_until?.saturating_duration_since(Instant::now());
        (!rest.is_zero()).then_some(rest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_term_settles_after_the_longest_call() {
        let ago = |age: Duration| TermStart::after_a_cut(7, Instant::now().checked_sub(age).unwrap());
        let second = Duration::from_secs(1);
        let term = ago(TermStart::LATE - second);
        assert_eq!(term.number(), Some(7));
        assert!(term.unsettled().is_some_and(|rest| rest <= second), "{term:?}");
        assert_eq!(ago(TermStart::LATE).unsettled(), None);
        assert_eq!(TermStart::in_order(8).unsettled(), None);
        assert_eq!(TermStart::default().number(), None);
    }
}
