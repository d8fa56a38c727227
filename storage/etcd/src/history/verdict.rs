//! Decision whether a store continues the history that this server knows. It is pure.

use storage_contract::Revision;

use super::Seen;
use super::record::Record;
use crate::revision::EACH;

/// Room above the largest known revision, for the revisions that only other servers have seen.
const MARGIN: u64 = 1_000_000_000;

/// Record and position of the store, as etcd answered.
#[derive(Debug, Clone)]
pub(super) struct Found {
    pub(super) record: Option<Record>,
    /// Cluster id of the etcd.
    pub(super) cluster: u64,
    /// etcd's revision.
    pub(super) revision: i64,
}

/// Decision about a store.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Its record holds.
    Holds(Record),
    /// A record with this offset must replace it, for this reason.
    Begin { offset: u64, why: Why },
}

/// Reason of a new incarnation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Why {
    /// The store has no record, and this server knows no earlier one.
    First,
    /// The history went back, in these words.
    Rewound(String),
    /// The objects were migrated to another store, and an operator returns to this one.
    Returned,
}

/// Decides about a store. `known` is the newest state that this server has seen, in this run or an earlier one.
pub(super) fn judge(known: Option<&Seen>, found: Found) -> Verdict {
    let Some(known) = known else {
        return match found.record {
            Some(record) => Verdict::Holds(record),
            None => Verdict::Begin { offset: 0, why: Why::First },
        };
    };
    let why = match &found.record {
        None => "etcd has no record of the store's incarnation".to_owned(),
        Some(record) => match difference(known, record, &found) {
            None => return Verdict::Holds(record.clone()),
            Some(why) => why,
        },
    };
    Verdict::Begin { offset: offset(known, &found), why: Why::Rewound(why) }
}

/// Returns the reason why the store does not continue the known history.
fn difference(known: &Seen, record: &Record, found: &Found) -> Option<String> {
    let current = record.numbering.revision(found.revision);
    if record.incarnation != known.incarnation {
        // The server that began it may have seen less than this one.
        let covers = record.numbering.offset >= known.revision.number();
        return (!covers).then(|| {
            format!(
                "another incarnation of the store begins at revision {}, and this server has seen revision {}",
                record.numbering.offset, known.revision
            )
        });
    }
    let other = other_cluster(known.cluster, found.cluster);
    let went_back = (current < known.revision).then(|| {
        format!("etcd is at revision {current}, and this server has seen revision {}", known.revision)
    });
    other.or(went_back)
}

/// Returns the difference of two cluster ids. A gateway between this server and etcd may leave them out.
pub(super) fn other_cluster(known: u64, found: u64) -> Option<String> {
    let is_other = known != found && known != 0 && found != 0;
    is_other.then(|| format!("the etcd cluster id changed from {known:x} to {found:x}"))
}

/// Returns the offset of a new incarnation, which puts all its revisions above the known ones.
fn offset(known: &Seen, found: &Found) -> u64 {
    let current =
        found.record.as_ref().map_or(Revision::NONE, |record| record.numbering.revision(found.revision));
    offset_above(known.revision.max(current))
}

/// Returns the offset of an incarnation whose revisions are all above `least`, and above those that other servers have
/// seen since.
pub(super) fn offset_above(least: Revision) -> u64 {
    least.number().saturating_add(MARGIN).next_multiple_of(u64::from(EACH))
}

#[cfg(test)]
mod tests {
    use storage_contract::Form;
    use uuid::Uuid;

    use super::*;
    use crate::revision::Numbering;

    fn record(incarnation: u128, offset: u64) -> Record {
        Record {
            incarnation: Uuid::from_u128(incarnation),
            numbering: Numbering { offset },
            form: Form::of(3),
        }
    }

    fn seen(incarnation: u128, cluster: u64, revision: u64) -> Seen {
        Seen { incarnation: Uuid::from_u128(incarnation), cluster, revision: Revision::new(revision) }
    }

    fn found(record: Option<Record>, cluster: u64, revision: i64) -> Found {
        Found { record, cluster, revision }
    }

    #[test]
    fn the_same_or_a_later_revision_of_the_same_incarnation_continues_the_history() {
        let known = seen(1, 7, 5_000);
        for revision in [50, 51] {
            let verdict = judge(Some(&known), found(Some(record(1, 0)), 7, revision));
            assert_eq!(verdict, Verdict::Holds(record(1, 0)));
        }
        let later = judge(Some(&known), found(Some(record(2, 5_000)), 8, 1));
        assert_eq!(later, Verdict::Holds(record(2, 5_000)), "all its revisions are above the known ones");
    }

    #[test]
    fn a_server_that_knows_nothing_takes_the_store_as_it_is() {
        assert_eq!(judge(None, found(Some(record(1, 300)), 7, 1)), Verdict::Holds(record(1, 300)));
        assert_eq!(judge(None, found(None, 7, 1)), Verdict::Begin { offset: 0, why: Why::First });
    }

    #[test]
    fn a_history_that_went_back_gets_an_offset_above_all_revisions() {
        let known = seen(1, 7, 5_000);
        for (found, words) in [
            (found(Some(record(1, 0)), 7, 49), "at revision 4900, and this server has seen revision 5000"),
            (found(Some(record(1, 0)), 8, 50), "cluster id changed from 7 to 8"),
            (found(None, 7, 60), "no record"),
            (found(Some(record(2, 4_900)), 7, 60), "another incarnation"),
        ] {
            let highest =
                found.record.as_ref().map_or(0, |it| it.numbering.revision(found.revision).number());
            match judge(Some(&known), found) {
                Verdict::Begin { offset, why: Why::Rewound(why) } => {
                    assert!(why.contains(words), "{why}");
                    assert!(offset >= highest.max(5_000) + MARGIN && offset % 100 == 0, "{offset}");
                }
                other => panic!("{words}: {other:?}"),
            }
        }
    }
}
