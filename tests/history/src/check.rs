//! The judge.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::record::{Content, Outcome, Read, Records, Seen, Told, Watcher};
use crate::truth::Truth;
use crate::violation::Violation;

/// Everything in the records that no single history explains:
///
/// - every watcher was told of every change of what it selects, once, in order, from where it began
///   to the last write, whatever streams it took; a state it was given was the state then; nothing
///   came after a bookmark that covers it;
/// - every acknowledged write is in the history with what was written, each from the version before;
/// - every consistent read shows a state that was, and not one from before a write, or another read,
///   that ended before it began.
pub fn check(records: &Records) -> Vec<Violation> {
    let mut violations = Vec::new();
    let truth = Truth::of(records, &mut violations);
    for watcher in &records.watchers {
        check_watcher(&truth, watcher, records.last, &mut violations);
    }
    check_updates(&truth, &mut violations);
    check_writes(&truth, records, &mut violations);
    check_reads(&truth, records, &mut violations);
    violations
}

fn check_watcher(truth: &Truth, watcher: &Watcher, last: u64, violations: &mut Vec<Violation>) {
    let name = || watcher.name.clone();
    // What it was told up to here; nothing before it has a state.
    let mut seen: Option<u64> = None;
    for told in &watcher.told {
        let revision = match told {
            Told::State(revision, items) => {
                check_state(truth, watcher, *revision, items, violations);
                if seen.is_some_and(|seen| *revision < seen) {
                    violations.push(Violation::OutOfOrder {
                        watcher: name(),
                        revision: *revision,
                        after: seen.unwrap_or_default(),
                    });
                }
                seen = Some(*revision);
                continue;
            }
            Told::Put(revision, ..) | Told::Gone(revision, ..) => *revision,
            Told::Bookmark(revision) => *revision,
        };
        let from = seen.unwrap_or_default();
        let is_event = !matches!(told, Told::Bookmark(_));
        if revision < from || (is_event && revision == from) {
            violations.push(if revision == from {
                Violation::DoubledEvent { watcher: name(), revision }
            } else {
                Violation::OutOfOrder { watcher: name(), revision, after: from }
            });
            continue;
        }
        let upto = if is_event { revision - 1 } else { revision };
        lost_between(truth, watcher, from, upto, violations);
        if is_event && truth.told(revision, watcher.selection).as_ref() != Some(told) {
            let expected = truth.told(revision, watcher.selection);
            let detail = format!("{} was told {told:?} and should have been told {expected:?}", watcher.name);
            violations.push(Violation::Disagreement { revision, detail });
        }
        seen = Some(revision);
    }
    lost_between(truth, watcher, seen.unwrap_or_default(), last, violations);
}

/// What the watcher should have been told after `from`, up to `upto`, and was not.
fn lost_between(truth: &Truth, watcher: &Watcher, from: u64, upto: u64, violations: &mut Vec<Violation>) {
    if upto <= from {
        return;
    }
    for (revision, _) in truth.changes.range(from + 1..=upto) {
        if truth.told(*revision, watcher.selection).is_some() {
            violations.push(Violation::LostEvent { watcher: watcher.name.clone(), revision: *revision });
        }
    }
}

fn check_state(
    truth: &Truth,
    watcher: &Watcher,
    revision: u64,
    items: &BTreeMap<String, (u64, Content)>,
    violations: &mut Vec<Violation>,
) {
    let expected = truth.state(revision, watcher.selection);
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
        format!("{key} was {:?} and is shown as {:?}", expected.get(key), found.get(key))
    })
}

/// Each version is made from the one before.
fn check_updates(truth: &Truth, violations: &mut Vec<Violation>) {
    let mut now: BTreeMap<&str, Option<&Content>> = BTreeMap::new();
    for (revision, change) in &truth.changes {
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

/// What was acknowledged has happened.
fn check_writes(truth: &Truth, records: &Records, violations: &mut Vec<Violation>) {
    for write in &records.writes {
        if let Outcome::Deleted(uid) = &write.outcome
            && truth.deletion(uid).is_none()
        {
            // Without a revision in the answer: it is in the history, or nowhere.
            violations.push(Violation::LostEvent { watcher: String::new(), revision: 0 });
        }
    }
}

fn check_reads(truth: &Truth, records: &Records, violations: &mut Vec<Violation>) {
    let floors = Floors::of(truth, records);
    for read in &records.reads {
        let floor = floors.before(read.begun);
        let stale = |detail: String| Violation::StaleRead { reader: read.reader.clone(), floor, detail };
        match &read.seen {
            Seen::All(revision, items) => {
                if *revision < floor {
                    violations.push(stale(format!("a list as of {revision}")));
                }
                let expected = truth.state(*revision, crate::Selection::All);
                if *items != expected {
                    let (reader, revision) = (read.reader.clone(), *revision);
                    let detail = difference(items, &expected);
                    violations.push(Violation::WrongState { reader, revision, detail });
                }
            }
            Seen::One(key, Some((revision, content))) => {
                if truth.at(key, *revision) != Some((*revision, content)) {
                    let detail =
                        format!("{key} was {:?} and is shown as {content:?}", truth.at(key, *revision));
                    let (reader, revision) = (read.reader.clone(), *revision);
                    violations.push(Violation::WrongState { reader, revision, detail });
                }
                if let Some(next) = truth.next(key, *revision).filter(|next| *next <= floor) {
                    violations.push(stale(format!("{key} as of {revision}, which was changed at {next}")));
                }
            }
            Seen::One(key, None) => {
                if truth.at(key, floor).is_some() && !truth.is_gone_after(key, floor) {
                    violations.push(stale(format!("no {key}, which was there and stayed")));
                }
            }
        }
    }
}

/// What had been acknowledged, or seen, when.
struct Floors(BTreeMap<Duration, u64>);

impl Floors {
    fn of(truth: &Truth, records: &Records) -> Self {
        let writes = records.writes.iter().filter_map(|write| match &write.outcome {
            Outcome::Stored(revision, _) => Some((write.ended, *revision)),
            Outcome::Deleted(uid) => truth.deletion(uid).map(|revision| (write.ended, revision)),
            Outcome::Refused | Outcome::Unknown => None,
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

/// The newest revision that a read saw for certain.
fn newest(read: &Read) -> u64 {
    match &read.seen {
        Seen::All(revision, _) | Seen::One(_, Some((revision, _))) => *revision,
        Seen::One(_, None) => 0,
    }
}
