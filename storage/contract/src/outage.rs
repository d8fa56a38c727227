//! A failure that lasts.

use std::time::{Duration, Instant};

/// How often it is told. Once is enough for whoever reads the log as it comes, and who begins to read
/// later should find it, too.
const AGAIN: Duration = Duration::from_secs(60);

/// What fails again and again while a store does not answer, and is told once a minute.
#[derive(Debug, Clone, Copy, Default)]
pub struct Outage {
    told: Option<Instant>,
}

impl Outage {
    /// It has failed once more. Says whether to tell, and takes it for told.
    pub fn tell(&mut self) -> bool {
        self.tell_at(Instant::now())
    }

    fn tell_at(&mut self, now: Instant) -> bool {
        let is_due = self.told.is_none_or(|told| now.saturating_duration_since(told) >= AGAIN);
        if is_due {
            self.told = Some(now);
        }
        is_due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_told_at_first_and_then_once_a_minute() {
        let (mut outage, start) = (Outage::default(), Instant::now());
        let told = [0, 1, 59, 60, 61, 119, 120].map(|at| outage.tell_at(start + Duration::from_secs(at)));
        assert_eq!(told, [true, false, false, true, false, false, true]);
    }
}
