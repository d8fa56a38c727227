//! Tests of the checker: a valid history, and the same history with events removed, duplicated, reordered or
//! delayed.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::time::Duration;

use tests_history::{
    Content, Delivery, ReadRecord, ReadResult, Records, Selection, Violation, Watcher, WriteOutcome,
    WriteRecord, check,
};

fn content(count: u64) -> Content {
    Content { uid: "u".to_owned(), count, token: format!("t{count}") }
}

const fn at(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}

fn write(revision: u64) -> WriteRecord {
    let outcome = WriteOutcome::Stored(revision, content(revision));
    WriteRecord { key: "a".to_owned(), ended: at(revision * 10), outcome }
}

fn read(begun: u64, result: ReadResult) -> ReadRecord {
    ReadRecord { reader: "r".to_owned(), begun: at(begun), ended: at(begun + 1), result }
}

/// Returns a valid history: `a` is created at revision 1, updated at 2, 3 and 4, and deleted at 5.
fn good() -> Records {
    let put = |revision| Delivery::Put(revision, "a".to_owned(), content(revision));
    let gone = |revision, count| Delivery::Gone(revision, "a".to_owned(), content(count));
    let none = Delivery::State(0, BTreeMap::new());
    let all = vec![none.clone(), put(1), put(2), Delivery::Bookmark(2), put(3), put(4), gone(5, 4)];
    let odd = vec![none, put(1), gone(2, 1), put(3), gone(4, 3), Delivery::Bookmark(5)];
    let watcher =
        |name: &str, selection, deliveries| Watcher { name: name.to_owned(), selection, deliveries };
    let deleted = WriteOutcome::Deleted("u".to_owned());
    let mut writes: Vec<WriteRecord> = (1..=4).map(write).collect();
    writes.push(WriteRecord { key: "a".to_owned(), ended: at(50), outcome: deleted });
    let one = |revision| ReadResult::One("a".to_owned(), Some((revision, content(revision))));
    let items = BTreeMap::from([("a".to_owned(), (3, content(3)))]);
    let reads = vec![
        read(15, one(1)),
        read(25, one(3)),
        read(35, ReadResult::All(3, items)),
        read(55, ReadResult::One("a".to_owned(), None)),
        read(65, ReadResult::All(5, BTreeMap::new())),
    ];
    let watchers = vec![watcher("all", Selection::All, all), watcher("odd", Selection::Odd, odd)];
    Records { writes, reads, watchers, last: 5 }
}

#[test]
fn a_consistent_history_passes() {
    assert_eq!(check(&good()), []);
}

#[test]
fn every_corruption_of_a_history_is_found() {
    type Corruption = fn(&mut Records);
    type Matches = fn(&Violation) -> bool;
    let table: [(&str, Corruption, Matches); 12] = [
        (
            "an event is missing",
            |r| drop(r.watchers[0].deliveries.remove(2)),
            |v| matches!(v, Violation::LostEvent { revision: 2, .. }),
        ),
        (
            "the last event is missing",
            |r| drop(r.watchers[0].deliveries.pop()),
            |v| matches!(v, Violation::LostEvent { .. }),
        ),
        (
            "a selected event is missing",
            |r| drop(r.watchers[1].deliveries.remove(3)),
            |v| matches!(v, Violation::LostEvent { watcher, revision: 3 } if watcher == "odd"),
        ),
        (
            "an event comes twice",
            |r| {
                let again = r.watchers[0].deliveries[1].clone();
                r.watchers[0].deliveries.insert(2, again);
            },
            |v| matches!(v, Violation::DuplicateEvent { revision: 1, .. }),
        ),
        (
            "two events are in the wrong order",
            |r| r.watchers[0].deliveries.swap(4, 5),
            |v| matches!(v, Violation::OutOfOrder { revision: 3, after: 4, .. }),
        ),
        (
            "a bookmark comes too early",
            |r| r.watchers[0].deliveries[3] = Delivery::Bookmark(3),
            |v| matches!(v, Violation::LostEvent { revision: 3, .. }),
        ),
        (
            "an event of removal has the new content",
            |r| r.watchers[1].deliveries[2] = Delivery::Gone(2, "a".to_owned(), content(2)),
            |v| matches!(v, Violation::Disagreement { revision: 2, .. }),
        ),
        (
            "an initial state is wrong",
            |r| r.watchers[1].deliveries[0] = Delivery::State(1, BTreeMap::new()),
            |v| matches!(v, Violation::WrongState { revision: 1, .. }),
        ),
        (
            "an update starts from the same version",
            |r| {
                let same = Content { count: 3, ..content(4) };
                r.watchers[0].deliveries[5] = Delivery::Put(4, "a".to_owned(), same.clone());
                r.writes[3].outcome = WriteOutcome::Stored(4, same);
            },
            |v| matches!(v, Violation::LostUpdate { revision: 4, .. }),
        ),
        (
            "an acknowledged write is in no watch",
            |r| r.writes.push(WriteRecord { key: "b".to_owned(), ..write(6) }),
            |v| matches!(v, Violation::LostEvent { watcher, revision: 6 } if watcher.is_empty()),
        ),
        (
            "a read is old",
            |r| r.reads[1].begun = at(45),
            |v| matches!(v, Violation::StaleRead { floor: 4, .. }),
        ),
        (
            "a list is old",
            |r| r.reads[2].begun = at(45),
            |v| matches!(v, Violation::StaleRead { floor: 4, .. }),
        ),
    ];
    for (name, corrupt, matches) in table {
        let mut records = good();
        corrupt(&mut records);
        let found = check(&records);
        assert!(found.iter().any(matches), "{name}: {found:?}");
    }
}

#[test]
fn an_absent_object_must_not_have_existed_during_the_read() {
    let mut records = good();
    records.reads = vec![read(35, ReadResult::One("a".to_owned(), None))];
    assert_eq!(check(&records), [], "it may have been deleted during the read");
    records.watchers[0].deliveries.pop();
    records.watchers[1].deliveries.pop();
    records.writes.pop();
    records.last = 4;
    assert!(matches!(check(&records).as_slice(), [Violation::StaleRead { floor: 3, .. }]));
}
