//! State machine of the host cluster: a pure function of what was observed, and when.

use std::collections::VecDeque;
use std::time::Duration;

use tokio::time::Instant;

/// Answers that take longer are slow.
const SLOW: Duration = Duration::from_secs(1);

/// Number of the last requests of which [`SLOW_REQUESTS`] make the host slow.
const WINDOW: usize = 10;

/// Number of slow requests among the last ones that make the host slow.
const SLOW_REQUESTS: usize = 3;

/// Number of failures in a row that make a state believed: of the transport for Down, of `/readyz` for Probation. A
/// single lost connection is normal.
const FAILURES: u32 = 3;

/// Longest silence of a host that is not down.
const SILENCE: Duration = Duration::from_secs(5);

/// Time for which a host that is back must be ready before its negative answers count.
const PROBATION: Duration = Duration::from_secs(10);

/// Least time between the two lists of namespaces of a probation.
const BETWEEN_LISTS: Duration = Duration::from_secs(5);

/// Number of lists of namespaces without a loss that end a probation.
const LISTS: u32 = 2;

/// Number of missing namespaces that is never suspicious.
const MISSING: usize = 5;

/// Longest probation of a ready host whose namespaces are missing: then they are gone.
const LONGEST_PROBATION: Duration = Duration::from_secs(3600);

/// State of the host cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum HostState {
    /// The host answers, and all its answers are believed.
    Up,
    /// The host answers, and some answers take over a second.
    Slow,
    /// The host does not answer. No request waits for it.
    Down,
    /// The host answers, but may not have read all its data. Its negative answers are not believed.
    Probation,
    /// Another host cluster answers at the address, or the known one after a restore of an older backup. Nothing of it is
    /// believed.
    Other,
}

impl HostState {
    /// All states.
    pub(crate) const ALL: [Self; 5] = [Self::Up, Self::Slow, Self::Down, Self::Probation, Self::Other];

    /// Name of the state in metrics and in the log.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Up => "up",
            Self::Slow => "slow",
            Self::Down => "down",
            Self::Probation => "probation",
            Self::Other => "other",
        }
    }

    /// Returns true if no request is sent to the host, except for the prober's.
    pub(crate) const fn is_cut_off(self) -> bool {
        matches!(self, Self::Down | Self::Other)
    }

    /// Returns true if an object that the host does not have does not exist, and a refusal of an object counts.
    pub(crate) const fn believes_absence(self) -> bool {
        matches!(self, Self::Up)
    }

    /// Returns true if the result of a review counts, also if it is a refusal.
    pub(crate) const fn believes_reviews(self) -> bool {
        matches!(self, Self::Up | Self::Slow)
    }
}

/// Result of one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The host answered after this time, in whatever way.
    Answer(Duration),
    /// The caller stopped waiting.
    TimedOut,
    /// The host could not be reached.
    Failure,
}

/// Result of one pass of the prober.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Probe {
    /// The host did not answer. Its requests are recorded as [`Outcome`].
    Silent,
    /// The host answers, and is not ready.
    Unready,
    /// The host does not accept Capstan's credential, or does not let it read what it needs.
    Refused,
    /// The host is ready. The list of its namespaces is there if it was requested.
    Ready(Option<Listed>),
    /// The host is not the pinned one.
    Stranger,
    /// The host was restored from an older backup, with this version of its front proxy's ConfigMap.
    Older(u64),
}

/// Comparison of a list of namespaces with the known ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Listed {
    pub(crate) known: usize,
    pub(crate) missing: usize,
}

impl Listed {
    fn is_plausible(self) -> bool {
        self.missing <= MISSING || self.missing * 10 <= self.known
    }
}

/// The state, and the observations that the next one depends on.
#[derive(Debug)]
pub(crate) struct Machine {
    state: HostState,
    /// True until the host was up for the first time. A host that was never seen down ends its probation with the
    /// first good list.
    is_first: bool,
    recent: VecDeque<bool>,
    failures: u32,
    last_answer: Instant,
    unready: u32,
    ready_since: Option<Instant>,
    lists: u32,
    last_list: Option<Instant>,
}

impl Machine {
    /// Creates the machine of a host that was not seen yet.
    pub(crate) fn new(now: Instant) -> Self {
        Self {
            state: HostState::Probation,
            is_first: true,
            recent: VecDeque::with_capacity(WINDOW),
            failures: 0,
            last_answer: now,
            unready: 0,
            ready_since: None,
            lists: 0,
            last_list: None,
        }
    }

    pub(crate) const fn state(&self) -> HostState {
        self.state
    }

    /// Returns true if the next probe should list the namespaces.
    pub(crate) fn wants_list(&self, now: Instant) -> bool {
        self.state == HostState::Probation
            && self.last_list.is_none_or(|last| now.duration_since(last) >= BETWEEN_LISTS)
    }

    /// Records the result of a request.
    pub(crate) fn request(&mut self, now: Instant, outcome: Outcome) {
        match outcome {
            Outcome::Answer(took) => {
                self.failures = 0;
                self.last_answer = now;
                self.remember(took > SLOW);
            }
            Outcome::TimedOut => self.remember(true),
            Outcome::Failure => self.failures += 1,
        }
        let is_silent = now.duration_since(self.last_answer) >= SILENCE;
        let is_answer = matches!(outcome, Outcome::Answer(_));
        match self.state {
            HostState::Other => {}
            _ if !is_answer && (self.failures >= FAILURES || is_silent) => self.enter(HostState::Down),
            HostState::Up if self.is_slow() => self.enter(HostState::Slow),
            HostState::Slow if !self.is_slow() => self.enter(HostState::Up),
            _ => {}
        }
    }

    fn remember(&mut self, is_slow: bool) {
        if self.recent.len() >= WINDOW {
            self.recent.pop_front();
        }
        self.recent.push_back(is_slow);
    }

    fn is_slow(&self) -> bool {
        self.recent.iter().filter(|slow| **slow).count() >= SLOW_REQUESTS
    }

    /// Records the result of a probe.
    pub(crate) fn probe(&mut self, now: Instant, probe: Probe) {
        match probe {
            Probe::Silent => self.ready_since = None,
            Probe::Stranger | Probe::Older(_) => self.enter(HostState::Other),
            Probe::Unready | Probe::Refused => self.unready(),
            Probe::Ready(listed) => self.ready(now, listed),
        }
    }

    fn unready(&mut self) {
        self.ready_since = None;
        self.unready += 1;
        if self.state.believes_reviews() && self.unready >= FAILURES {
            self.enter(HostState::Probation);
        }
    }

    fn ready(&mut self, now: Instant, listed: Option<Listed>) {
        self.unready = 0;
        if self.state.is_cut_off() {
            self.enter(HostState::Probation);
        }
        if self.state != HostState::Probation {
            return;
        }
        let since = *self.ready_since.get_or_insert(now);
        if let Some(listed) = listed {
            self.last_list = Some(now);
            self.lists = if listed.is_plausible() { self.lists + 1 } else { 0 };
        }
        let ready_for = now.duration_since(since);
        let is_proven = self.lists >= LISTS && ready_for >= PROBATION;
        if is_proven || (self.is_first && self.lists >= 1) || ready_for >= LONGEST_PROBATION {
            self.enter(HostState::Up);
        }
    }

    fn enter(&mut self, state: HostState) {
        if self.state == state {
            return;
        }
        match state {
            HostState::Up if self.state == HostState::Slow => {}
            HostState::Up => {
                self.is_first = false;
                self.recent.clear();
            }
            HostState::Probation | HostState::Down | HostState::Other => {
                // A host that was seen down, or was another one, has to prove itself.
                self.is_first &= state == HostState::Probation && !self.state.is_cut_off();
                self.ready_since = None;
                self.lists = 0;
                self.last_list = None;
            }
            HostState::Slow => {}
        }
        self.state = state;
    }
}

#[cfg(test)]
#[path = "machine_tests.rs"]
mod tests;
