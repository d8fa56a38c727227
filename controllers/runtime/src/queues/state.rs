//! State of a queue: the objects that wait, and those that are being reconciled.

use std::collections::HashMap;
use std::time::{Duration, Instant};

/// Objects of a queue, by key. An object is in it once, however often it is added.
#[derive(Debug, Default)]
pub(super) struct State {
    waiting: HashMap<String, Entry>,
    working: HashMap<String, Instant>,
}

/// Due time of a waiting object. `counted`: its addition has been counted.
#[derive(Debug, Clone, Copy)]
struct Entry {
    due: Instant,
    counted: bool,
}

/// Load of a queue at a moment.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Load {
    pub(super) waiting: u32,
    pub(super) working: Duration,
    pub(super) longest: Duration,
}

impl State {
    /// Adds an object. Returns true if the addition counts: it does not if the object waits already.
    pub(super) fn add(&mut self, key: &str, now: Instant) -> bool {
        let is_waiting = self.waiting.get(key).is_some_and(|entry| entry.counted);
        if !is_waiting {
            let due = self.waiting.get(key).map_or(now, |entry| entry.due.min(now));
            self.waiting.insert(key.to_owned(), Entry { due, counted: true });
        }
        !is_waiting
    }

    /// Adds an object that is due at a time, unless it is due earlier.
    pub(super) fn add_at(&mut self, key: &str, due: Instant) {
        let entry = self.waiting.entry(key.to_owned()).or_insert(Entry { due, counted: false });
        entry.due = entry.due.min(due);
    }

    /// Takes an object out. Returns how long it waited, and whether its addition is still to be counted.
    pub(super) fn begin(&mut self, key: &str, now: Instant) -> (Duration, bool) {
        self.working.insert(key.to_owned(), now);
        let entry = self.waiting.remove(key).unwrap_or(Entry { due: now, counted: false });
        (now.saturating_duration_since(entry.due), !entry.counted)
    }

    /// Ends the work on an object. Returns how long it took.
    pub(super) fn end(&mut self, key: &str, now: Instant) -> Duration {
        self.working.remove(key).map_or(Duration::ZERO, |begun| now.saturating_duration_since(begun))
    }

    pub(super) fn load(&self, now: Instant) -> Load {
        let waiting = self.waiting.values().filter(|entry| entry.due <= now).count();
        let working = self.working.values().map(|begun| now.saturating_duration_since(*begun));
        Load {
            waiting: u32::try_from(waiting).unwrap_or(u32::MAX),
            working: working.clone().sum(),
            longest: working.max().unwrap_or_default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_is_queued_once_and_only_when_it_is_due() {
        let mut state = State::default();
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let load = |waiting, working, longest| Load {
            waiting,
            working: Duration::from_secs(working),
            longest: Duration::from_secs(longest),
        };
        assert!(state.add("a", at(0)) && !state.add("a", at(1)) && state.add("b", at(1)));
        assert_eq!(state.load(at(1)), load(2, 0, 0));
        assert_eq!(state.begin("a", at(2)), (Duration::from_secs(2), false));
        assert_eq!(state.begin("b", at(3)), (Duration::from_secs(2), false));
        assert_eq!(state.load(at(5)), load(0, 5, 3));
        assert!(state.add("a", at(5)), "named again while it is worked on");
        assert_eq!(state.end("a", at(6)), Duration::from_secs(4));
        state.add_at("a", at(60));
        assert_eq!(state.load(at(6)), load(1, 3, 3), "it is due sooner than its interval");
        assert_eq!(state.begin("a", at(6)), (Duration::from_secs(1), false));
        state.end("a", at(6));
        state.end("b", at(6));
        state.add_at("a", at(10));
        assert_eq!(state.load(at(9)), load(0, 0, 0));
        assert_eq!(state.load(at(10)), load(1, 0, 0));
        assert_eq!(state.begin("a", at(11)), (Duration::from_secs(1), true), "it became due");
        state.end("a", at(11));
        state.add_at("a", at(20));
        assert!(state.add("a", at(12)), "something changed before");
        assert_eq!(state.load(at(12)), load(1, 0, 0));
    }
}
