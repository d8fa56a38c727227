//! Looks at a state that has not come yet.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

/// Interval between two looks.
const INTERVAL: Duration = Duration::from_millis(100);

/// Number of looks after which a state does not come any more. They take five minutes, twenty times as long as a quiet
/// machine needs. On a busy machine, which needs longer, they take longer, too.
const LIMIT: usize = 3000;

/// Number of earlier obstacles that a failure names.
const TOLD: usize = 30;

/// Variable of the environment that lets each look print what it newly finds missing.
const TELL: &str = "CAPSTAN_LOOKS";

/// Looks so far, and what they found missing.
pub(crate) struct Looks {
    begun: Instant,
    count: usize,
    found: Vec<(Duration, String)>,
}

impl Looks {
    pub(crate) fn begin() -> Self {
        Self { begun: Instant::now(), count: 0, found: Vec::new() }
    }

    /// Records what a look found missing, and waits for the next one. Panics after the last.
    pub(crate) async fn again(&mut self, missing: &str) {
        self.count += 1;
        if self.found.last().is_none_or(|(_, last)| last != missing) {
            let at = self.begun.elapsed();
            if std::env::var_os(TELL).is_some() {
                eprintln!("{:.2} s: {missing}", at.as_secs_f64());
            }
            self.found.push((at, missing.to_owned()));
        }
        assert!(self.count < LIMIT, "{}", self.report(missing));
        tokio::time::sleep(INTERVAL).await;
    }

    /// Returns true if no look may follow.
    pub(crate) fn is_last(&self) -> bool {
        self.count + 1 >= LIMIT
    }

    fn report(&self, missing: &str) -> String {
        let seconds = self.begun.elapsed().as_secs();
        let mut report = format!("not there after {LIMIT} looks in {seconds} s:\n{missing}\nearlier:");
        for (at, found) in self.found.iter().rev().skip(1).take(TOLD).rev() {
            let _ = write!(report, "\nafter {:.1} s: {found}", at.as_secs_f64());
        }
        report
    }
}
