//! The judge by itself: a history that is one, and what is made of it by taking away, doubling,
//! exchanging and ageing.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test says what is wrong by panicking")]

use std::collections::BTreeMap;
use std::time::Duration;

use tests_history::{
    Content, Outcome, Read, Records, Seen, Selection, Told, Violation, Watcher, Write, check,
};

fn content(count: u64) -> Content {
    Content { uid: "u".to_owned(), count, token: format!("t{count}") }
}

const fn at(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}

fn write(revision: u64) -> Write {
    let outcome = Outcome::Stored(revision, content(revision));
    Write { key: "a".to_owned(), ended: at(revision * 10), outcome }
}

fn read(begun: u64, seen: Seen) -> Read {
    Read { reader: "r".to_owned(), begun: at(begun), ended: at(begun + 1), seen }
}

/// `a` is made at revision 1, updated at 2, 3 and 4, and deleted at 5.
fn good() -> Records {
    let put = |revision| Told::Put(revision, "a".to_owned(), content(revision));
    let gone = |revision, count| Told::Gone(revision, "a".to_owned(), content(count));
    let none = Told::State(0, BTreeMap::new());
    let all = vec![none.clone(), put(1), put(2), Told::Bookmark(2), put(3), put(4), gone(5, 4)];
    let odd = vec![none, put(1), gone(2, 1), put(3), gone(4, 3), Told::Bookmark(5)];
    let watcher = |name: &str, selection, told| Watcher { name: name.to_owned(), selection, told };
    let deleted = Outcome::Deleted("u".to_owned());
    let mut writes: Vec<Write> = (1..=4).map(write).collect();
    writes.push(Write { key: "a".to_owned(), ended: at(50), outcome: deleted });
    let one = |revision| Seen::One("a".to_owned(), Some((revision, content(revision))));
    let items = BTreeMap::from([("a".to_owned(), (3, content(3)))]);
    let reads = vec![
        read(15, one(1)),
        read(25, one(3)),
        read(35, Seen::All(3, items)),
        read(55, Seen::One("a".to_owned(), None)),
        read(65, Seen::All(5, BTreeMap::new())),
    ];
    let watchers = vec![watcher("all", Selection::All, all), watcher("odd", Selection::Odd, odd)];
    Records { writes, reads, watchers, last: 5 }
}

#[test]
fn one_history_is_found_to_be_one() {
    assert_eq!(check(&good()), []);
}

#[test]
fn every_change_of_it_is_found() {
    type Change = fn(&mut Records);
    type Is = fn(&Violation) -> bool;
    let table: [(&str, Change, Is); 12] = [
        (
            "an event is missing",
            |r| drop(r.watchers[0].told.remove(2)),
            |v| matches!(v, Violation::LostEvent { revision: 2, .. }),
        ),
        (
            "the last event is missing",
            |r| drop(r.watchers[0].told.pop()),
            |v| matches!(v, Violation::LostEvent { .. }),
        ),
        (
            "a selected event is missing",
            |r| drop(r.watchers[1].told.remove(3)),
            |v| matches!(v, Violation::LostEvent { watcher, revision: 3 } if watcher == "odd"),
        ),
        (
            "an event comes twice",
            |r| {
                let again = r.watchers[0].told[1].clone();
                r.watchers[0].told.insert(2, again);
            },
            |v| matches!(v, Violation::DoubledEvent { revision: 1, .. }),
        ),
        (
            "two events are exchanged",
            |r| r.watchers[0].told.swap(4, 5),
            |v| matches!(v, Violation::OutOfOrder { revision: 3, after: 4, .. }),
        ),
        (
            "a bookmark comes too early",
            |r| r.watchers[0].told[3] = Told::Bookmark(3),
            |v| matches!(v, Violation::LostEvent { revision: 3, .. }),
        ),
        (
            "an event leaves with what it became",
            |r| r.watchers[1].told[2] = Told::Gone(2, "a".to_owned(), content(2)),
            |v| matches!(v, Violation::Disagreement { revision: 2, .. }),
        ),
        (
            "a beginning is wrong",
            |r| r.watchers[1].told[0] = Told::State(1, BTreeMap::new()),
            |v| matches!(v, Violation::WrongState { revision: 1, .. }),
        ),
        (
            "an update starts from the same version",
            |r| {
                let same = Content { count: 3, ..content(4) };
                r.watchers[0].told[5] = Told::Put(4, "a".to_owned(), same.clone());
                r.writes[3].outcome = Outcome::Stored(4, same);
            },
            |v| matches!(v, Violation::LostUpdate { revision: 4, .. }),
        ),
        (
            "a write is acknowledged and never seen",
            |r| r.writes.push(Write { key: "b".to_owned(), ..write(6) }),
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
    for (name, change, is) in table {
        let mut records = good();
        change(&mut records);
        let found = check(&records);
        assert!(found.iter().any(is), "{name}: {found:?}");
    }
}

#[test]
fn what_is_not_there_must_not_have_been() {
    let mut records = good();
    records.reads = vec![read(35, Seen::One("a".to_owned(), None))];
    assert_eq!(check(&records), [], "it may have been deleted meanwhile");
    records.watchers[0].told.pop();
    records.watchers[1].told.pop();
    records.writes.pop();
    records.last = 4;
    assert!(matches!(check(&records).as_slice(), [Violation::StaleRead { floor: 3, .. }]));
}
