//! Who waits in a queue, and who is worked on.

use std::collections::HashMap;
use std::time::{Duration, Instant};

/// What a queue holds, by key. An object is there once, however often it is named.
#[derive(Debug, Default)]
pub(super) struct State {
    waiting: HashMap<String, Turn>,
    working: HashMap<String, Instant>,
}

/// When an object's turn comes, and whether it has been counted as put in line.
#[derive(Debug, Clone, Copy)]
struct Turn {
    due: Instant,
    counted: bool,
}

/// What a queue holds at a moment.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Load {
    pub(super) waiting: u32,
    pub(super) working: Duration,
    pub(super) longest: Duration,
}

impl State {
    /// Puts an object in line. Says whether it is to be counted: not when it is in line already.
    pub(super) fn add(&mut self, key: &str, now: Instant) -> bool {
        let is_in_line = self.waiting.get(key).is_some_and(|turn| turn.counted);
        if !is_in_line {
            let due = self.waiting.get(key).map_or(now, |turn| turn.due.min(now));
            self.waiting.insert(key.to_owned(), Turn { due, counted: true });
        }
        !is_in_line
    }

    /// Has an object come in line by itself, unless it does so earlier anyway.
    pub(super) fn add_at(&mut self, key: &str, due: Instant) {
        let turn = self.waiting.entry(key.to_owned()).or_insert(Turn { due, counted: false });
        turn.due = turn.due.min(due);
    }

    /// Its turn has come. Says how long it was in line, and whether that it came there is still to be
    /// counted.
    pub(super) fn begin(&mut self, key: &str, now: Instant) -> (Duration, bool) {
        self.working.insert(key.to_owned(), now);
        let turn = self.waiting.remove(key).unwrap_or(Turn { due: now, counted: false });
        (now.saturating_duration_since(turn.due), !turn.counted)
    }

    /// It is worked on no more. Says how long it was.
    pub(super) fn end(&mut self, key: &str, now: Instant) -> Duration {
        self.working.remove(key).map_or(Duration::ZERO, |begun| now.saturating_duration_since(begun))
    }

    pub(super) fn load(&self, now: Instant) -> Load {
        let waiting = self.waiting.values().filter(|turn| turn.due <= now).count();
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
    fn an_object_is_in_line_once_and_those_put_off_are_not_yet() {
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
        assert_eq!(state.load(at(6)), load(1, 3, 3), "it is in line sooner than it is put off to");
        assert_eq!(state.begin("a", at(6)), (Duration::from_secs(1), false));
        state.end("a", at(6));
        state.end("b", at(6));
        state.add_at("a", at(10));
        assert_eq!(state.load(at(9)), load(0, 0, 0));
        assert_eq!(state.load(at(10)), load(1, 0, 0));
        assert_eq!(state.begin("a", at(11)), (Duration::from_secs(1), true), "it came by itself");
        state.end("a", at(11));
        state.add_at("a", at(20));
        assert!(state.add("a", at(12)), "something changed before");
        assert_eq!(state.load(at(12)), load(1, 0, 0));
    }
}
