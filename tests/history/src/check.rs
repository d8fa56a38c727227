//! Checker: compares the records with one history.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::record::{Content, Delivery, ReadRecord, ReadResult, Records, Watcher, WriteOutcome};
use crate::reference_history::ReferenceHistory;
use crate::violation::Violation;

/// Returns everything in the records that no single history explains:
///
/// - Every watcher received every change that it selects, once and in order, from its beginning to the last
///   write, over any number of streams. An initial state was the state at that revision. No delivery followed a
///   bookmark that covers it.
/// - Every acknowledged write is in the history with its content, and each version was made from the one
///   before.
/// - Every consistent read returned a state of the history, and no state from before a write or another read
///   that ended before this read began.
pub fn check(records: &Records) -> Vec<Violation> {
    let mut violations = Vec::new();
    let history = ReferenceHistory::of(records, &mut violations);
    for watcher in &records.watchers {
        check_watcher(&history, watcher, records.last, &mut violations);
    }
    check_updates(&history, &mut violations);
    check_writes(&history, records, &mut violations);
    check_reads(&history, records, &mut violations);
    violations
}

fn check_watcher(history: &ReferenceHistory, watcher: &Watcher, last: u64, violations: &mut Vec<Violation>) {
    let name = || watcher.name.clone();
    // Revision up to which the watcher has received all changes; `None` before its first state.
    let mut received: Option<u64> = None;
    for delivery in &watcher.deliveries {
        let revision = match delivery {
            Delivery::State(revision, items) => {
                check_state(history, watcher, *revision, items, violations);
                if received.is_some_and(|received| *revision < received) {
                    violations.push(Violation::OutOfOrder {
                        watcher: name(),
                        revision: *revision,
                        after: received.unwrap_or_default(),
                    });
                }
                received = Some(*revision);
                continue;
            }
            Delivery::Put(revision, ..) | Delivery::Gone(revision, ..) => *revision,
            Delivery::Bookmark(revision) => *revision,
        };
        let from = received.unwrap_or_default();
        let is_event = !matches!(delivery, Delivery::Bookmark(_));
        if revision < from || (is_event && revision == from) {
            violations.push(if revision == from {
                Violation::DuplicateEvent { watcher: name(), revision }
            } else {
                Violation::OutOfOrder { watcher: name(), revision, after: from }
            });
            continue;
        }
        let upto = if is_event { revision - 1 } else { revision };
        lost_between(history, watcher, from, upto, violations);
        if is_event && history.expected_delivery(revision, watcher.selection).as_ref() != Some(delivery) {
            let expected = history.expected_delivery(revision, watcher.selection);
            let detail = format!("{} received {delivery:?} instead of {expected:?}", watcher.name);
            violations.push(Violation::Disagreement { revision, detail });
        }
        received = Some(revision);
    }
    lost_between(history, watcher, received.unwrap_or_default(), last, violations);
}

/// Adds a violation for each change after `from` and up to `upto` that the watcher should have received.
fn lost_between(
    history: &ReferenceHistory,
    watcher: &Watcher,
    from: u64,
    upto: u64,
    violations: &mut Vec<Violation>,
) {
    if upto <= from {
        return;
    }
    for (revision, _) in history.changes.range(from + 1..=upto) {
        if history.expected_delivery(*revision, watcher.selection).is_some() {
            violations.push(Violation::LostEvent { watcher: watcher.name.clone(), revision: *revision });
        }
    }
}

fn check_state(
    history: &ReferenceHistory,
    watcher: &Watcher,
    revision: u64,
    items: &BTreeMap<String, (u64, Content)>,
    violations: &mut Vec<Violation>,
) {
    let expected = history.state(revision, watcher.selection);
    if *items != expected {
        let detail = difference(items, &expected);
        violations.push(Violation::WrongState { reader: watcher.name.clone(), revision, detail });
    }
}

fn difference(
    found: &BTreeMap<String, (u64, Content)>,
    expected: &BTreeMap<String, (u64, Content)>,
) -> String {
    let keys = found.keys().chain(expected.keys());
    let wrong = keys.into_iter().find(|key| found.get(*key) != expected.get(*key));
    wrong.map_or_else(String::new, |key| {
        format!("{key} was {:?} and was returned as {:?}", expected.get(key), found.get(key))
    })
}

/// Checks that each version was made from the one before.
fn check_updates(history: &ReferenceHistory, violations: &mut Vec<Violation>) {
    let mut now: BTreeMap<&str, Option<&Content>> = BTreeMap::new();
    for (revision, change) in &history.changes {
        let before = now.insert(&change.key, change.content.as_ref()).flatten();
        let detail = match (before, &change.content) {
            (None, Some(new)) if new.count == 1 => continue,
            (Some(old), Some(new)) if old.uid == new.uid && new.count == old.count + 1 => continue,
            (Some(old), None) if old.uid == change.uid => continue,
            (before, after) => format!("{before:?} became {after:?}"),
        };
        violations.push(Violation::LostUpdate { key: change.key.clone(), revision: *revision, detail });
    }
}

/// Checks that every acknowledged write is in the history.
fn check_writes(history: &ReferenceHistory, records: &Records, violations: &mut Vec<Violation>) {
    for write in &records.writes {
        if let WriteOutcome::Deleted(uid) = &write.outcome
            && history.deletion(uid).is_none()
        {
            // The response had no revision: the deletion is in the history, or was lost.
            violations.push(Violation::LostEvent { watcher: String::new(), revision: 0 });
        }
    }
}

fn check_reads(history: &ReferenceHistory, records: &Records, violations: &mut Vec<Violation>) {
    let floors = KnownRevisions::of(history, records);
    for read in &records.reads {
        let floor = floors.before(read.begun);
        let stale = |detail: String| Violation::StaleRead { reader: read.reader.clone(), floor, detail };
        match &read.result {
            ReadResult::All(revision, items) => {
                if *revision < floor {
                    violations.push(stale(format!("a list as of {revision}")));
                }
                let expected = history.state(*revision, crate::Selection::All);
                if *items != expected {
                    let (reader, revision) = (read.reader.clone(), *revision);
                    let detail = difference(items, &expected);
                    violations.push(Violation::WrongState { reader, revision, detail });
                }
            }
            ReadResult::One(key, Some((revision, content))) => {
                if history.at(key, *revision) != Some((*revision, content)) {
                    let detail =
                        format!("{key} was {:?} and was returned as {content:?}", history.at(key, *revision));
                    let (reader, revision) = (read.reader.clone(), *revision);
                    violations.push(Violation::WrongState { reader, revision, detail });
                }
                if let Some(next) = history.next(key, *revision).filter(|next| *next <= floor) {
                    violations.push(stale(format!("{key} as of {revision}, which had changed at {next}")));
                }
            }
            ReadResult::One(key, None) => {
                if history.at(key, floor).is_some() && !history.is_gone_after(key, floor) {
                    violations.push(stale(format!("no {key}, which existed and was not deleted")));
                }
            }
        }
    }
}

/// Highest revision that was acknowledged or read, by time.
struct KnownRevisions(BTreeMap<Duration, u64>);

impl KnownRevisions {
    fn of(history: &ReferenceHistory, records: &Records) -> Self {
        let writes = records.writes.iter().filter_map(|write| match &write.outcome {
            WriteOutcome::Stored(revision, _) => Some((write.ended, *revision)),
            WriteOutcome::Deleted(uid) => history.deletion(uid).map(|revision| (write.ended, revision)),
            WriteOutcome::Refused | WriteOutcome::Unknown => None,
        });
        let reads = records.reads.iter().map(|read| (read.ended, newest(read)));
        let mut all: Vec<(Duration, u64)> = writes.chain(reads).collect();
        all.sort_unstable();
        let mut highest = 0;
        let mut floors = BTreeMap::new();
        for (ended, revision) in all {
            highest = highest.max(revision);
            floors.insert(ended, highest);
        }
        Self(floors)
    }

    fn before(&self, begun: Duration) -> u64 {
        self.0.range(..begun).next_back().map_or(0, |(_, revision)| *revision)
    }
}

/// Returns the newest revision that a read observed for certain.
fn newest(read: &ReadRecord) -> u64 {
    match &read.result {
        ReadResult::All(revision, _) | ReadResult::One(_, Some((revision, _))) => *revision,
        ReadResult::One(_, None) => 0,
    }
}
